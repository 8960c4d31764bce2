"""The timing protocol's words: what they allow, what they leave out, and when an interval is narrow enough."""

from dataclasses import asdict
from typing import Any

import pytest

from harness.measure.timed_case import NULL, Protocol, Timing, timing_status

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


def test_what_is_too_noisy_says_by_how_much() -> None:
    alone = "the interval is 50% of the median, where 10% is the limit"
    assert timing_status(8.0, 6.0, 10.0) == ("too_noisy", alone)
    of_all = f"{alone}, and 25.0% of all parts, where 1% is"
    assert timing_status(8.0, 6.0, 10.0, whole=16.0) == ("too_noisy", of_all)


def test_a_row_has_the_timing_s_details_and_those_that_are_added() -> None:
    timing = Timing("a", "failed", "made up", details={"rounds": 3})
    assert (timing.samples_s, timing.median_s, timing.calls, timing.rounds) == ((), None, 0, ())
    fields = {"suite": "test", "primitive": "nothing"}
    assert timing.measurement(**fields).details == {"rounds": 3}
    row = timing.measurement(details={"null": True}, **fields)
    assert row.details == {"rounds": 3, "null": True}
    assert (row.quantity, row.unit, row.status, row.reason) == ("time_per_call", "s", "failed", "made up")
