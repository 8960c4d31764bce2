"""Rows of the store as evidence."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.measure.statistics import Samples
from placerl.harness.measure.timed_case import Timing
from placerl.harness.papers import discovery, evidence
from placerl.harness.papers.evidence import (
    last_attempts,
    mapping_of,
    near,
    noisy,
    number,
    paired,
    races_lost,
    rate,
    rows_of,
    select,
)
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.store import reference
from placerl.harness.store.rows import ClaimRow
from placerl.harness.store.store import Store
from tests.harness.old_form import replace
from tests.harness.papers.rows import MACHINE, TOO_FEW, frame_of, predicted, profiled, trained


def row_of(folder: Path, made: Row) -> Any:
    (row,) = evidence.records(frame_of(folder, made))
    return row


@pytest.mark.parametrize(
    ("details", "lost"),
    [
        ({}, 0),
        ({"clearly_slower_among": []}, 0),
        ({"clearly_slower_among": ["here", "here and simulated"]}, 2),
    ],
)
def test_a_mapping_lost_the_races_that_dropped_it(details: dict[str, Any], lost: int, tmp_path: Path) -> None:
    assert races_lost(row_of(tmp_path, trained(1.0, suite="validation", details=details))) == lost


@pytest.mark.parametrize(
    ("value", "close"), [(7.9, False), (8.1, True), (10, True), (11.9, True), (12.1, False)]
)
def test_a_factor_within_a_fifth_of_the_published_one_is_near(value: float, close: bool) -> None:
    assert near(value, 10.0) is close


def test_rows_without_a_value_are_never_selected(tmp_path: Path) -> None:
    rows = [
        profiled("learner.step", 1.0),
        profiled("learner.step", 2.0, **TOO_FEW),
        replace(
            profiled("learner.step", 3.0),
            value=None,
            low=None,
            high=None,
            status="failed",
            reason="no memory",
        ),
        profiled("sum_tree.sample", 4.0),
        profiled("learner.step", 5.0, workload="pong-dqn"),
    ]
    frame = frame_of(tmp_path, *rows)
    assert list(select(frame)["value"]) == [1.0, 2.0, 4.0, 5.0]
    assert list(select(frame, primitive="learner.step", workload="hopper-ddpg")["value"]) == [1.0, 2.0]
    assert noisy(frame)
    assert not noisy(frame[frame["status"] != "too_noisy"])


def test_of_a_cell_measured_again_the_last_attempt_counts(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.sqlite") as store:
        for revision, fingerprint, cells in (
            ("a", "here", {"x": 1.0, "y": 2.0}),
            ("a", "here", {"x": 3.0}),  # again, in a later run
            ("b", "here", {"x": 4.0}),  # of another revision
            ("a", "there", {"x": 5.0}),  # of another machine
        ):
            run = store.begin_run("quick", revision, MACHINE | {"fingerprint": fingerprint}, fresh=True)
            for key, value in cells.items():
                run.finish(f"profile/{key}", [profiled("learner.step", value)])
        frame = store.frame()
    assert sorted(last_attempts(frame)["value"]) == [2.0, 3.0, 4.0, 5.0]
    again = frame[frame["value"] == 2.0].assign(cell="profile/y#2", value=9.0)
    assert sorted(last_attempts(pd.concat([frame, again]))["value"]) == [3.0, 4.0, 5.0, 9.0]


def test_the_mapping_of_a_row_is_its_own_else_where_it_was_measured(tmp_path: Path) -> None:
    stated = trained(1.0, details={"mapping": "a-b-c"}, device="d", backend="e")
    assert mapping_of(row_of(tmp_path / "a", stated)) == "a-b-c"
    assert mapping_of(row_of(tmp_path / "c", profiled("learner.step", 1.0, device="d"))) == "d"


def test_a_row_becomes_a_number_with_its_own_unit_and_interval(tmp_path: Path) -> None:
    found = number(row_of(tmp_path / "a", profiled("roof", 2.0, low=1.0, high=3.0, unit="B/s")), "traffic")
    assert (found.quantity, found.value, found.low, found.high) == ("traffic", 2.0, 1.0, 3.0)
    assert (found.unit, found.provenance, found.rows) == ("B/s", Provenance.MEASURED, (0,))
    bare = row_of(tmp_path / "b", profiled("roof", 2.0, low=None, high=None))
    assert (number(bare, "time").low, number(bare, "time").high) == (None, None)


def test_a_rate_is_the_inverse_of_seconds(tmp_path: Path) -> None:
    found = rate(row_of(tmp_path / "a", profiled("learner.step", 4.0, low=2.0, high=6.0)), "steps")
    assert (found.value, found.low, found.high, found.unit) == (0.25, 1 / 6, 0.5, "1/s")
    assert (found.provenance, found.rows) == (Provenance.MEASURED, (0,))
    bare = rate(row_of(tmp_path / "b", profiled("learner.step", 4.0, low=None, high=None)), "steps")
    assert (bare.value, bare.low, bare.high) == (0.25, None, None)


@pytest.mark.parametrize("half", [0.05, None])
def test_an_error_is_the_stored_one_in_percent_of_both_rows(half: float | None, tmp_path: Path) -> None:
    of = {"suite": "validation", "quantity": "predicted_gradient_steps_per_s"}
    bounds = {} if half is None else {"error_low": 0.1 - half, "error_high": 0.1 + half}
    stated = predicted(100.0, details={"mapping": "a-b-c", "error": 0.1, **bounds}, **of)
    run, prediction = evidence.records(frame_of(tmp_path, trained(90.0, suite="validation"), stated))
    found = evidence.error_of(prediction, run, evidence.ERROR)
    assert (found.quantity, found.unit, found.value) == (evidence.ERROR, "%", pytest.approx(10.0))
    expected = (None, None) if half is None else (pytest.approx(5.0), pytest.approx(15.0))
    assert (found.low, found.high) == expected
    assert (found.provenance, found.rows) == (Provenance.MODELLED, (0, 1))


@pytest.mark.parametrize(
    "change", [{"unit": "1/s"}, {"unit": "us"}, {"value": 0.0}, {"value": -1.0}, {"low": 0.0}, {"low": -0.5}]
)
def test_a_rate_needs_seconds_above_0(change: dict[str, Any], tmp_path: Path) -> None:
    row = row_of(tmp_path, profiled("learner.step", 1.0))._replace(**change)
    with pytest.raises(ValueError, match=r"steps: found .*allowed: seconds above 0"):
        rate(row, "steps")


def timed(folder: Path, value: float, pairs: int = 30, pace: int = 7, **fields: Any) -> Any:
    """A row whose samples vary by 2% around its value."""
    samples = tuple(value * (0.99 + 0.02 * (pace * i % 31) / 30) for i in range(pairs))
    return row_of(folder, profiled("learner.step", value, samples=samples, **fields))


def test_a_pair_of_rows_gives_a_gain_judged_beyond_the_noise(tmp_path: Path) -> None:
    ours, null = timed(tmp_path / "a", 1.0), timed(tmp_path / "b", 1.2, pace=11)
    theirs = timed(tmp_path / "c", 3.0, pace=13, provenance="simulated")
    found = paired("gain", ours, null, theirs)
    assert found.gain.value == pytest.approx(3.0, rel=0.02)
    assert found.gain.low is not None
    assert found.gain.high is not None
    assert found.gain.low <= found.gain.value <= found.gain.high
    assert (found.outcome.verdict, found.gain.unit) == ("faster", "ratio")
    assert found.gain.provenance is Provenance.SIMULATED
    assert found.beyond_noise is not None
    low, high = found.beyond_noise
    assert (low, high) == pytest.approx(
        (found.gain.low / found.outcome.reach, found.gain.high * found.outcome.reach)
    )
    assert low < found.gain.low
    assert found.gain.high < high
    slower = paired("gain", theirs, None, ours)
    assert slower.outcome.verdict == "slower"
    assert slower.gain.value == pytest.approx(1 / 3, rel=0.02)


def test_a_gain_above_the_resources_added_is_marked(tmp_path: Path) -> None:
    ours, theirs = timed(tmp_path / "a", 1.0), timed(tmp_path / "b", 3.0)
    assert paired("gain", ours, None, theirs, at_most=2).gain.suspect
    assert not paired("gain", ours, None, theirs, at_most=4).gain.suspect
    assert not paired("gain", ours, None, theirs).gain.suspect


def test_pairs_are_as_many_as_every_row_has_samples(tmp_path: Path) -> None:
    ours, theirs = timed(tmp_path / "a", 1.0, 30), timed(tmp_path / "b", 3.0, 25)
    assert paired("gain", ours, None, theirs).gain.source == "ratio of the faster halves' means of 25 pairs"
    few = paired("gain", timed(tmp_path / "c", 2.0, 2), ours, timed(tmp_path / "d", 5.0, 2))
    assert (few.gain.value, few.gain.low, few.gain.high) == (2.5, None, None)
    assert few.gain.source == "ratio of the medians; 2 pairs, where 15 are the fewest"
    assert few.beyond_noise is None
    assert few.gain.rows == (0,)


def moved(folder: Path, factor: float, *dropped: int) -> Any:
    """A timing's row, whose core is slower in every second round and drifts, without some rounds."""
    kept = [number for number in range(45) if number not in dropped]
    drift = np.random.default_rng(0).uniform(1, 1.6, 45)[kept]
    samples = Samples(factor * drift, np.where(np.array(kept) % 2, 0.5, 0.0), 0.125)
    pace = {"blocks": 45, "slope_error": samples.slope_error, "exposure": samples.exposure.tolist()}
    value = float(np.median(samples.values))
    timing = Timing("a", "ok", "", samples, value, rounds=tuple(kept), details={"pace": pace})
    return row_of(folder, timing.measurement(ClaimRow, suite="claim", primitive="learner.step"))


def test_rows_are_paired_by_round_and_their_correction_s_error_widens_the_gain(tmp_path: Path) -> None:
    ours, theirs = moved(tmp_path / "a", 1.0, 3, 4), moved(tmp_path / "b", 3.0, 40)
    found = paired("gain", ours, None, theirs)
    assert found.gain.value == pytest.approx(3)
    assert found.gain.source == "ratio of the medians of 42 pairs"
    assert found.gain.low is not None
    assert found.gain.low < 2.9
    still = [
        row._replace(timed=dataclasses.replace(row.timed, pace={"blocks": 45})) for row in (ours, theirs)
    ]
    exact = paired("gain", still[0], None, still[1])
    assert (exact.gain.low, exact.gain.high) == pytest.approx((3, 3))
    assert exact.gain.source == "ratio of the faster halves' means of 42 pairs"


@dataclasses.dataclass(frozen=True)
class Threads(Columns):
    threads: int


DECLARED = Experiment("mine", "calls", "time_per_call", Threads)


def test_the_rows_of_an_experiment_are_found_by_its_declaration(tmp_path: Path) -> None:
    rows = [
        profiled("a", 1.0, suite="claim", details={"experiment": "mine", "threads": 2}),
        profiled("b", 1.0, suite="claim", details={"experiment": "mine"}),
        profiled("a", 1.0, suite="claim", details={"experiment": "other"}),
        profiled("a", 1.0, details={"experiment": "mine"}),
    ]
    frame = frame_of(tmp_path, *rows)
    assert [row.Index for row in rows_of(frame, DECLARED)] == [0, 1]
    assert [row.Index for row in rows_of(frame, DECLARED, "time_per_call", primitive="a")] == [0]
    assert [row.parameters.threads for row in rows_of(frame, DECLARED)] == [2, None]
    with pytest.raises(ValueError, match="experiment mine: quantity: found 'cycles'; allowed: time_per_call"):
        rows_of(frame, DECLARED, "cycles")


@pytest.mark.parametrize("path", sorted(reference.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_the_rows_of_claims_are_of_declared_experiments(path: Path) -> None:
    declared = {
        str(one): one
        for module in discovery.modules()
        for found in vars(module).values()
        for one in (found if isinstance(found, Experiment) else getattr(found, "key", None),)
        if isinstance(one, Experiment)
    }
    # A cell that failed, or was not run, leaves a row that says so.
    measured = reference.load_one(path).measurements
    of_claims = [row for row in measured if row.suite == Suite.CLAIM and row.quantity != "failure"]
    assert of_claims or {row.suite for row in measured} <= {Suite.VALIDATION, Suite.PROFILE}
    for row in of_claims:
        declared[row.experiment].check(row.quantity)
        columns = {one.name for one in dataclasses.fields(declared[row.experiment].columns)}
        assert row.parameters.keys() <= columns
