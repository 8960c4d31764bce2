"""Rows from raw samples and from ratios of times."""

from dataclasses import asdict
from itertools import accumulate, count
from typing import Any

import numpy as np
import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.measure import rows, statistics
from placerl.harness.measure.pace import Bracket
from placerl.harness.measure.protocol import compare_cases
from placerl.harness.measure.statistics import Ratio, Samples
from placerl.harness.measure.timed_case import Protocol, Timing
from placerl.harness.store.rows import OtherResult
from tests.harness.measure.shared_core import KERNEL_S, SharedCore

FIELDS: dict[str, Any] = {"suite": "profile", "primitive": "learner.step", "quantity": "time_per_call"}


def test_a_row_of_samples_is_their_median_with_its_interval() -> None:
    samples = list(np.random.default_rng(0).permutation(np.linspace(1, 1.02, 30)))
    row = rows.summary_row(OtherResult, samples, **FIELDS, unit="s", batch_size=32)
    assert row.value == pytest.approx(1.01)
    assert (row.low, row.high) == statistics.interval(samples, in_order=True)
    assert (row.status, row.reason, row.provenance) == ("ok", "", Provenance.MEASURED)
    assert (row.samples, row.batch_size, row.unit) == (tuple(samples), 32, "s")


def test_what_neighbours_share_counts_in_a_row_s_interval() -> None:
    samples = np.repeat([1.0, 1.1, 1.02, 1.08], 8) + np.linspace(0, 0.001, 32)
    row = rows.summary_row(OtherResult, samples.tolist(), **FIELDS, unit="s")
    assert (row.low, row.high) == statistics.interval(samples, in_order=True)
    assert (row.low, row.high) != statistics.interval(samples)


def test_a_row_with_a_wide_interval_is_too_noisy() -> None:
    row = rows.summary_row(OtherResult, [1.0, 2.0, 3.0, 4.0, 5.0], **FIELDS, unit="s")
    assert (row.status, row.value, row.low, row.high) == ("too_noisy", 3, 1, 5)
    assert row.reason


def test_a_row_whose_median_is_0_is_too_noisy_unless_all_samples_are_0() -> None:
    row = rows.summary_row(OtherResult, [0.0, 0.0, 0.0, 4.0, 5.0], **FIELDS, unit="s")
    assert (row.status, row.value, row.low, row.high) == ("too_noisy", 0, 0, 5)
    assert row.reason == "the interval is 0 to 5, where the median is 0"
    assert rows.summary_row(OtherResult, [0.0] * 5, **FIELDS, unit="s").status == "ok"


def test_a_row_of_a_part_may_have_an_interval_of_a_hundredth_of_the_whole() -> None:
    samples = [0.05, 0.051, 0.053, 0.056, 0.058]
    assert rows.summary_row(OtherResult, samples, **FIELDS, unit="s").status == "too_noisy"
    assert rows.summary_row(OtherResult, samples, whole=1.0, **FIELDS, unit="s").status == "ok"
    assert rows.summary_row(OtherResult, samples, whole=0.5, **FIELDS, unit="s").status == "too_noisy"


def test_a_row_of_too_few_samples_has_no_interval_and_is_too_noisy() -> None:
    row = rows.summary_row(OtherResult, [1.0, 1.01, 1.02, 1.03], **FIELDS, unit="s")
    assert (row.value, row.low, row.high) == (pytest.approx(1.015), None, None)
    assert (row.status, row.reason) == ("too_noisy", "4 samples, where 5 are the fewest")
    assert row.samples == (1.0, 1.01, 1.02, 1.03)
    assert rows.summary_row(OtherResult, [1.0] * 5, **FIELDS, unit="s").status == "ok"


def test_a_gain_is_the_inverse_of_a_ratio_of_times_bounds_and_all() -> None:
    times = Ratio(0.5, 0.4, 0.8)
    fields = FIELDS | {"quantity": "throughput_ratio"}
    row = rows.ratio(OtherResult, times, **fields)
    assert (row.value, row.low, row.high) == (0.5, 0.4, 0.8)
    assert (row.unit, row.provenance) == ("1", Provenance.MEASURED)
    gain = rows.gain(OtherResult, times, **fields)
    assert (gain.value, gain.low, gain.high) == pytest.approx((2, 1.25, 2.5))
    assert (gain.unit, gain.provenance) == ("1", Provenance.MEASURED)


SPEED = np.random.default_rng(0).uniform(1, 1.6, 45)
"""How much longer everything takes in each round."""


def timed(time_s: float, *dropped: int, forgotten: bool = False) -> Row:
    """A row of times that drift together with those of other rows; `forgotten`: as earlier versions stored it."""
    kept = [number for number in range(len(SPEED)) if number not in dropped]
    times_s = time_s * SPEED[kept]
    samples, details = Samples(times_s, np.zeros(len(kept))), {"pace": {"blocks": len(SPEED)}}
    timing = Timing(
        "a",
        "ok",
        "",
        samples,
        float(np.median(times_s)),
        rounds=() if forgotten else tuple(kept),
        details=details,
    )
    return timing.measurement(OtherResult, suite="profile", primitive="learner.step")


def test_rows_are_paired_by_round_whatever_blocks_each_has_lost() -> None:
    ours, theirs = rows.paired(timed(1.0, 3, 4), timed(3.0, 40))
    assert len(ours) == 42
    assert theirs.values / ours.values == pytest.approx(3)
    found = rows.paired(timed(1.0, 3), timed(3.0, 40), timed(2.0, 0, 3))
    kept = [number for number in range(45) if number not in (0, 3, 40)]
    for samples, time_s in zip(found, (1, 3, 2), strict=True):
        assert samples.values.tolist() == pytest.approx(time_s * SPEED[kept])


def test_rows_that_lost_nothing_are_paired_though_they_do_not_say_their_rounds() -> None:
    ours, theirs = rows.paired(timed(1.0, forgotten=True), timed(3.0, 40))
    assert len(ours) == 44
    assert theirs.values / ours.values == pytest.approx(3)


def test_rows_of_unknown_rounds_are_paired_by_position_if_they_are_equally_long() -> None:
    older = [timed(1.0, 3, forgotten=True), timed(3.0, 40, forgotten=True)]
    assert [one.values.tolist() for one in rows.paired(*older)] == [list(row.samples) for row in older]
    assert [len(one) for one in rows.paired(older[0], timed(3.0, 4, 5, forgotten=True))] == [0, 0]
    assert [len(one) for one in rows.paired(*older, timed(1.0))] == [0, 0, 0]


def test_results_of_a_side_that_left_early_are_of_the_first_rounds() -> None:
    short, long = (rows.summary_row(OtherResult, SPEED[:count].tolist(), **FIELDS) for count in (20, 45))
    ours, theirs = rows.paired(short, long)
    assert ours.values.tolist() == theirs.values.tolist() == SPEED[:20].tolist()


def test_a_failed_row_has_no_pairs() -> None:
    failed = Timing("b", "failed", "call: no memory").measurement(
        OtherResult, suite="profile", primitive="learner.step"
    )
    assert [len(one) for one in rows.paired(timed(1.0), failed)] == [0, 0]


def test_the_rows_of_a_comparison_tell_what_its_timings_tell() -> None:
    core, rng = SharedCore(), np.random.default_rng(1)
    switches = accumulate(int(rng.random() < 0.1) for _ in count())
    bracket = Bracket(core.clock, lambda: core.work(KERNEL_S), lambda: next(switches))
    a, b = core.case("a", 1e-4), core.case("b", 1.2e-4)
    protocol = Protocol(rounds=30, warm_up_s=0.0, piece_s=1.0)  # a block of one piece is lost with it
    comparison, timings = compare_cases(a, b, protocol, clock=core.clock, bracket=bracket)
    names = ("a", "b", "a (null)")
    lengths = [len(timings[name].rounds) for name in names]
    stored = [timings[name].measurement(OtherResult, suite="profile", primitive=name) for name in names]
    again = statistics.compare(*rows.paired(*stored))
    assert again.pairs == comparison.pairs < min(lengths)  # each has lost rounds of its own
    assert again.ratio is not None
    assert comparison.ratio is not None
    assert asdict(again.ratio) == pytest.approx(asdict(comparison.ratio), rel=1e-3)
