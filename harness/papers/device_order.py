"""Decides which kind of device, such as CPU, GPU or FPGA, takes the shortest time at a batch size."""

import math
from collections.abc import Sequence
from dataclasses import replace

from placerl.harness.papers.base import Finding, Outcome, decided
from placerl.harness.papers.device_times import (
    AT_MOST,
    FPGA,
    GPU,
    NAMES,
    WITHOUT_LINK,
    listed,
    shared_sizes,
)
from placerl.harness.papers.gains_rule import interval
from placerl.harness.papers.number import Number


def first_at(by_kind: dict[str, dict[int, Number]], size: int) -> str | None:
    """Return the kind of device that is fastest at a batch size; None if the intervals of two kinds overlap.

    A simulated time has no interval, because its cycles are exact. If a measured time has no interval, the result is
    None.
    """
    at = {kind: sizes[size] for kind, sizes in by_kind.items() if size in sizes}
    best = min(at, key=lambda kind: at[kind].value)
    bounds = {kind: interval(time) for kind, time in at.items()}
    _, high = bounds.pop(best)
    return None if math.isinf(high) or any(high >= low for low, _ in bounds.values()) else best


def exact(time: Number) -> Number:
    """Return a time that is based on cycles with itself as interval; a time that has an interval keeps it."""
    low, high = interval(time)
    return time if math.isinf(low) else replace(time, low=low, high=high)


def told(first: str | None, expected: str) -> str | None:
    """Return which kind of device is first, as far as its times can tell against what is expected.

    An FPGA ahead of a GPU that should be first may owe it to what the times hold (`WITHOUT_LINK`): then it is None.
    """
    return None if (first, expected) == (FPGA, GPU) else first


def ordered(by_kind: dict[str, dict[int, Number]], expected: dict[int, str]) -> Finding:
    """Return whether the expected kind of device is fastest at each batch size, with its whole interval.

    Args:
        expected: the kind of device that has to be fastest, by batch size; every device has a time at these.
    """
    ours = listed(by_kind)
    first = {size: first_at(by_kind, size) for size in shared_sizes(by_kind)}
    who = f"{who_is_first(first)} {WITHOUT_LINK} {AT_MOST}"
    judged = [(told(first[size], kind), kind) for size, kind in expected.items()]
    return Finding(outcome_with_copies(judged), ours, who)


def holds(judged: Sequence[tuple[str | None, str]]) -> bool | None:
    """Return whether in each comparison the expected kind of device is fastest; None if intervals leave it open.

    Args:
        judged: for each comparison the kind of device that is fastest, None if intervals overlap, and the kind that
            should be.
    """
    if any(one is not None and one != kind for one, kind in judged):
        return False
    return True if all(one for one, _ in judged) else None


def outcome_of(judged: Sequence[tuple[str | None, str]]) -> Outcome:
    """Return the outcome of comparisons of kinds of devices (`holds`)."""
    return decided(holds(judged) is True, holds(judged) is False)


def outcome_with_copies(judged: Sequence[tuple[str | None, str]]) -> Outcome:
    """Return the outcome of comparisons (`holds`) of which some expect an FPGA ahead of a GPU.

    What the times hold (`WITHOUT_LINK`) may be what puts it ahead: agreement is consistent at most.
    """
    if (told := holds(judged)) is None:
        return Outcome.NO_VERDICT
    return Outcome.CONSISTENT if told else Outcome.NOT_REPRODUCED


def who_is_first(first: dict[int, str | None]) -> str:
    """Return a sentence that names the fastest kind of device at each batch size."""
    said = ", ".join(
        f"{size} {NAMES.get(kind, kind) if kind else 'not told apart'}"
        for size, kind in sorted(first.items())
    )
    return f"Fastest by batch size: {said}."
