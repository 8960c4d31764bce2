"""The timing protocol's words: what they allow, what they leave out, and when an interval is narrow enough."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import HowTimed
from placerl.harness.measure.protocol import RESOLVED
from placerl.harness.measure.statistics import Samples
from placerl.harness.measure.timed_case import NOISE_LIMIT, NULL, Protocol, Timing, timing_status
from placerl.harness.store.rows import OtherResult
from tests.harness.old_form import row_of

TINY = 1e-9


def test_what_a_protocol_leaves_out_is_as_documented() -> None:
    assert asdict(Protocol()) == {
        "rounds": 45,
        "block_s": 1e-3,
        "piece_s": 0.25e-3,
        "warm_up_s": 20e-3,
        "warm_up_calls": 3,
        "budget_s": None,
        "ends_within": False,
        "fewest_rounds": 1,
        "settle": False,
        "resolve": None,
        "lead_in_calls": 0,
        "rest_s": 0.0,
        "long_block_s": None,
        "largest_block": 4096,
        "noise_limit": 0.1,
        "part_limit": 0.01,
        "caller_core": None,
        "cores": None,
        "threads": None,
        "seed": 0,
    }


def test_a_case_on_the_host_waits_for_nothing_and_empties_no_caches() -> None:
    assert NULL.synchronise() is None  # type: ignore[func-returns-value]
    assert (NULL.block, NULL.parts, NULL.empties_caches) == (None, None, False)


@pytest.mark.parametrize(
    ("name", "least", "below"),
    [
        ("rounds", 1, 0),
        ("fewest_rounds", 1, 0),
        ("largest_block", 1, 0),
        ("warm_up_s", 0.0, -TINY),
        ("warm_up_calls", 0, -1),
        ("lead_in_calls", 0, -1),
        ("rest_s", 0.0, -TINY),
    ],
)
def test_a_number_below_the_least_is_refused_and_the_least_is_not(
    name: str, least: float, below: float
) -> None:
    allowed: dict[str, Any] = {name: least}
    assert getattr(Protocol(**allowed), name) == least
    refused: dict[str, Any] = {name: below}
    with pytest.raises(ValueError, match=f"{name}: found {below}; allowed: at least {least}"):
        Protocol(**refused)


@pytest.mark.parametrize("name", ["block_s", "piece_s", "noise_limit", "part_limit", "resolve"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_lengths_and_limits_are_above_zero(name: str, value: float) -> None:
    allowed: dict[str, Any] = {name: TINY}
    assert getattr(Protocol(**allowed), name) == TINY
    refused: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=f"{name}: found {value}; allowed: more than 0"):
        Protocol(**refused)


def test_settling_needs_a_budget() -> None:
    assert Protocol(settle=True, budget_s=1.0).settle
    assert not Protocol(budget_s=1.0).settle
    with pytest.raises(ValueError, match="settle: found no budget_s"):
        Protocol(settle=True)


@pytest.mark.parametrize(
    ("noise_limit", "whole", "part_limit", "status"),
    [
        (1 / 8, 0.0, 1.0, "ok"),  # an interval of 1 about 8
        (1 / 8 - TINY, 0.0, 1.0, "too_noisy"),  # what is no part has no whole
        (TINY, 64.0, 1 / 64, "ok"),
        (TINY, 64.0, 1 / 64 - TINY, "too_noisy"),
        (1 / 8, 64.0, TINY, "ok"),
    ],
)
def test_an_interval_is_narrow_enough_up_to_the_wider_of_its_limits(
    noise_limit: float, whole: float, part_limit: float, status: str
) -> None:
    found, reason = timing_status(8.0, 7.5, 8.5, noise_limit, whole=whole, part_limit=part_limit)
    assert found == status
    assert bool(reason) == (status == "too_noisy")


def test_the_limits_are_a_tenth_and_a_hundredth_of_the_whole() -> None:
    assert timing_status(100.0, 95.0, 105.0)[0] == "ok"
    assert timing_status(100.0, 94.0, 105.0)[0] == "too_noisy"
    assert timing_status(1.0, 0.0, 2.0, whole=200.0)[0] == "ok"
    assert timing_status(1.0, 0.0, 2.5, whole=200.0)[0] == "too_noisy"


def test_a_ratio_is_resolved_more_finely_than_one_case_alone() -> None:
    assert 0 < RESOLVED < NOISE_LIMIT


def test_what_is_too_noisy_says_by_how_much() -> None:
    alone = "the interval is 50.0% of the median, where 10% is the limit"
    assert timing_status(8.0, 6.0, 10.0) == ("too_noisy", alone)
    of_all = f"{alone}, and 25.0% of all parts, where 1% is"
    assert timing_status(8.0, 6.0, 10.0, whole=16.0) == ("too_noisy", of_all)


def test_a_row_says_how_it_was_timed_beside_the_columns_of_its_kind() -> None:
    timing = Timing("a", "failed", "made up", details={"calls_per_block": 3})
    assert (timing.samples_s, timing.median_s, timing.calls, timing.rounds) == ((), None, 0, ())
    fields = {"suite": "test", "primitive": "nothing"}
    row = timing.measurement(OtherResult, parameters={"null": True}, **fields)
    assert row.timed == HowTimed(calls_per_block=3, sample_rounds=[])
    assert row.parameters == {"null": True}
    assert (row.quantity, row.unit, row.status, row.reason) == ("time_per_call", "s", "failed", "made up")


@pytest.mark.parametrize(
    ("rounds", "kept"),
    [
        ((0, 1, 2, 3), [[0, 3]]),
        ((0, 2, 3, 7), [[0, 0], [2, 3], [7, 7]]),
        ((4, 8, 12, 16), [[4, 4], [8, 8], [12, 12], [16, 16]]),
    ],
)
def test_a_row_keeps_the_rounds_of_its_samples(rounds: tuple[int, ...], kept: list[list[int]]) -> None:
    samples = Samples(np.array([1.0, 2.0, 4.0, 3.0]), np.array([0.0, 0.5, 0.25, 0.125]), 0.0625)
    pace = {"blocks": 20, "slope_error": 0.0625, "exposure": [0.0, 0.5, 0.25, 0.125]}
    timing = Timing("a", "ok", "", samples, 2.5, rounds=rounds, details={"pace": pace})
    row = timing.measurement(OtherResult, suite="test", primitive="nothing")
    assert row.timed.sample_rounds == kept
    again = Timing.stored(row)
    assert (again.samples_s, again.rounds, again.status) == (timing.samples_s, rounds, "ok")
    assert again.samples.exposure.tolist() == [0.0, 0.5, 0.25, 0.125]
    assert again.samples.slope_error == 0.0625


@pytest.mark.parametrize(
    ("details", "known"),
    [
        ({}, True),  # such as a result of `in_rounds`
        ({"pace": {"blocks": 3}}, True),
        ({"pace": {"blocks": 4}}, False),  # a block was left out, and it is not known which one
        ({"sample_rounds": [[0, 9]]}, False),  # samples were left out of a reference
    ],
)
def test_the_rounds_of_a_row_without_them_are_known_if_no_block_was_left_out(
    details: dict[str, Any], known: bool
) -> None:
    row = row_of(
        suite="test",
        primitive="nothing",
        quantity="time_per_call",
        provenance=Provenance.MEASURED,
        value=2.0,
        samples=(1.0, 2.0, 3.0),
        details=details,
    )
    timing = Timing.stored(row)
    assert timing.rounds == ((0, 1, 2) if known else ())
    assert timing.samples_s == row.samples
    assert not timing.samples.moved
    assert timing.samples.slope_error == 0.0


def test_exposures_that_are_not_of_the_samples_are_not_used() -> None:
    pace = {"blocks": 3, "slope_error": 0.5, "exposure": [0.5, 0.5, 0.5]}
    samples = Samples(np.array([1.0, 2.0]), np.zeros(2))
    row = Timing("a", "ok", "", samples, 1.5, rounds=(0, 2), details={"pace": pace}).measurement(
        OtherResult, suite="test", primitive="nothing"
    )
    found = Timing.stored(row).samples
    assert (found.exposure.tolist(), found.slope_error) == ([0.0, 0.0], 0.0)
