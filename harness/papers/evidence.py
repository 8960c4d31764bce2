"""Selects rows of the store as evidence for claims, and converts them to numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.core.provenance import Provenance, weakest
from harness.core.suites import Experiment, Suite
from harness.measure import statistics
from harness.papers.number import Number, bounded_speedup, merge_rows

USABLE = ("ok", "too_noisy")
NEAR = 0.2
"""Largest relative difference at which a factor counts as the published one."""


def near(value: float, published: float) -> bool:
    """Return whether a factor equals the published one within `NEAR`."""
    return abs(value / published - 1) <= NEAR


def agrees(number: Number, published: float) -> bool:
    """Whether a number's whole interval equals the published one within `NEAR`; False without an interval."""
    return (
        number.low is not None
        and number.high is not None
        and near(number.low, published)
        and near(number.high, published)
    )


def select(frame: pd.DataFrame, **equal: object) -> pd.DataFrame:
    """Return the rows that have a value and whose columns equal the given values, such as `suite="profile"`."""
    chosen = frame[frame["status"].isin(USABLE)]
    for column, value in equal.items():
        chosen = chosen[chosen[column] == value]
    return chosen


def rows_of(frame: pd.DataFrame, experiment: Experiment, quantity: str = "", **equal: object) -> list[Any]:
    """Return the rows of an experiment that have a value, as named tuples (`records`).

    Args:
        frame: rows of a run.
        experiment: declared in the file of its figure.
        quantity: one of the experiment's quantities; empty for all.
        equal: values that columns must have, as for `select`.

    Raises:
        ValueError: the experiment has no such quantity.
    """
    if quantity:
        experiment.check(quantity)
        equal["quantity"] = quantity
    chosen = select(frame, suite=Suite.CLAIM, **equal)
    return [row for row in records(chosen) if detail(row, "experiment") == experiment]


def last_attempts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without those that a later measurement replaced.

    A cell, a piece of the plan whose rows are stored together, may be measured again in the same run ("name#2"
    follows "name") or in a later run, for instance of another tier. Only its last attempt by the same revision on the
    same machine is kept.
    """
    names = frame["cell"].str.split("#").str[0]
    measured = frame["run"].astype(str) + "/" + frame["cell"]
    last = measured.groupby([frame["revision"], frame["fingerprint"], names]).transform("last")
    return frame[measured == last]


def records(frame: pd.DataFrame) -> list[Any]:
    """Return the frame's rows as named tuples; `Index` is the row's label."""
    return list(frame.itertuples())


def noisy(frame: pd.DataFrame) -> bool:
    """Return whether any of the rows is too noisy for a verdict."""
    return bool((frame["status"] == "too_noisy").any())


def detail(row: Any, name: str) -> Any:
    """Return an entry of a row's details, which may also be in their "parameters"; None if there is none.

    Args:
        row: one of `records`.
        name: name of the entry.
    """
    details: Mapping[str, Any] = row.details
    parameters = details.get("parameters")
    nested = parameters.get(name) if isinstance(parameters, Mapping) else None
    return details.get(name, nested)


def mapping_of(row: Any) -> str:
    """Return the mapping that a prediction or a training used, as "learner-replay-storage".

    Args:
        row: one of `records`.

    Returns:
        The mapping; for a row without one its device, or else its backend.
    """
    return str(detail(row, "mapping") or row.device or row.backend)


def optional(value: float) -> float | None:
    """Return a value of the frame, or None if it is NaN."""
    return None if pd.isna(value) else float(value)


def number(row: Any, quantity: str) -> Number:
    """Return the value of a row as a number, with its interval, unit, provenance and index label.

    Args:
        row: one of `records`.
        quantity: name of the quantity.
    """
    return Number(
        quantity,
        float(row.value),
        row.unit,
        Provenance(row.provenance),
        "",
        optional(row.low),
        optional(row.high),
        (int(row.Index),),
    )


def rate(row: Any, quantity: str) -> Number:
    """Return calls per second from a row that holds seconds per call.

    Args:
        row: one of `records`.
        quantity: name of the rate.

    Raises:
        ValueError: the row's unit is not seconds, or a time is not above 0.
    """
    time = number(row, quantity)
    if time.unit != "s" or time.value <= 0 or (time.low is not None and time.low <= 0):
        raise ValueError(f"{quantity}: found {time}; allowed: seconds above 0")
    low = None if time.high is None else 1 / time.high
    high = None if time.low is None else 1 / time.low
    return Number(quantity, 1 / time.value, "1/s", time.provenance, "", low, high, time.rows)


@dataclass(frozen=True)
class Paired:
    """A comparison of two configurations, ours and theirs, that were timed in the same interleaved rounds.

    Attributes:
        gain: their time divided by ours, above 1 if ours is faster; without an interval if there are fewer pairs of
            samples than a comparison needs.
        outcome: the comparison with its verdict. It accounts for the A/A null: how far two timings of ours differ.
    """

    gain: Number
    outcome: statistics.Comparison

    @property
    def beyond_noise(self) -> tuple[float, float] | None:
        """The gain's interval, widened by how far two timings of ours differ (the A/A null); None without interval."""
        if self.gain.low is None or self.gain.high is None:
            return None
        return self.gain.low / self.outcome.reach, self.gain.high * self.outcome.reach


def paired(quantity: str, ours: Any, null: Any, theirs: Any, *, at_most: float | None = None) -> Paired:
    """Return the speedup of ours over theirs, judged as by `harness.measure.statistics.compare`.

    Args:
        quantity: name of the quantity.
        ours, null, theirs: rows from `records`; `null` is a second measurement of the same as `ours`, or None. Their
            samples, which are times, are paired by position.
        at_most: ratio of the resources (cores, threads) of ours to theirs; a larger speedup becomes suspect, as in
            `harness.papers.number.ratio`. None if they differ in something else.
    """
    rows = [row for row in (ours, theirs, null) if row is not None]
    pairs = min(len(row.samples) for row in rows)
    outcome = statistics.compare(*(row.samples[:pairs] for row in rows))
    numbers = [number(row, quantity) for row in rows]
    value, low, high = numbers[1].value / numbers[0].value, None, None
    if outcome.ratio is not None:
        # Times are compared; a gain is the inverse.
        value, low, high = 1 / outcome.ratio.value, 1 / outcome.ratio.high, 1 / outcome.ratio.low
    provenance, labels = weakest(*(n.provenance for n in numbers)), merge_rows(numbers)
    source = f"ratio of the faster halves' means of {pairs} pairs"
    gain = Number(quantity, value, "ratio", provenance, source, low, high, labels)
    return Paired(gain if at_most is None else bounded_speedup(gain, at_most), outcome)
