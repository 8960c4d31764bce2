"""Rows of the store as evidence: choosing them, and turning them into numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.core.provenance import Provenance, weakest
from harness.measure import statistics
from harness.papers.number import Number, bounded_speedup, merge_rows

USABLE = ("ok", "too_noisy")
NEAR = 0.2
"""A factor counts as the published one within this share of it."""


def near(value: float, published: float) -> bool:
    """Whether a factor is the published one, within `NEAR` of it."""
    return abs(value / published - 1) <= NEAR


def select(frame: pd.DataFrame, **equal: object) -> pd.DataFrame:
    """The rows that have a value and whose columns equal what is given, for example `suite="profile"`."""
    chosen = frame[frame["status"].isin(USABLE)]
    for column, value in equal.items():
        chosen = chosen[chosen[column] == value]
    return chosen


def last_attempts(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows without those of a cell that was measured again by the same revision on the same machine.

    Again in the same run ("name#2" follows "name"), or in a later run, of another tier for instance.
    """
    names = frame["cell"].str.split("#").str[0]
    measured = frame["run"].astype(str) + "/" + frame["cell"]
    last = measured.groupby([frame["revision"], frame["fingerprint"], names]).transform("last")
    return frame[measured == last]


def records(frame: pd.DataFrame) -> list[Any]:
    """The frame's rows as named tuples; `Index` is the row's label."""
    return list(frame.itertuples())


def noisy(frame: pd.DataFrame) -> bool:
    """Whether any of the rows is too noisy for a verdict."""
    return bool((frame["status"] == "too_noisy").any())


def detail(row: Any, name: str) -> Any:
    """A row's detail of that name, also when it stands among its "parameters"; None where there is none.

    Args:
        row: one of `records`.
        name: name of the detail.
    """
    details: Mapping[str, Any] = row.details
    parameters = details.get("parameters")
    nested = parameters.get(name) if isinstance(parameters, Mapping) else None
    return details.get(name, nested)


def mapping_of(row: Any) -> str:
    """The mapping that a row of a prediction or a training run is about: learner-replay-storage.

    Args:
        row: one of `records`.
    """
    return str(detail(row, "mapping") or row.device or row.backend)


def optional(value: float) -> float | None:
    """The value, or None for the frame's NaN."""
    return None if pd.isna(value) else float(value)


def number(row: Any, quantity: str) -> Number:
    """The value of a row, with its interval, unit, provenance and index label.

    Args:
        row: one of `records`.
        quantity: what to call it.
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
    """Calls a second of a row that holds seconds a call."""
    time = number(row, quantity)
    if time.unit != "s" or time.value <= 0 or (time.low is not None and time.low <= 0):
        raise ValueError(f"{quantity}: found {time}; allowed: seconds above 0")
    low = None if time.high is None else 1 / time.high
    high = None if time.low is None else 1 / time.low
    return Number(quantity, 1 / time.value, "1/s", time.provenance, "", low, high, time.rows)


@dataclass(frozen=True)
class Paired:
    """A comparison of rows that were measured in the same interleaved rounds.

    Attributes:
        gain: time of theirs over time of ours, above 1 where ours is faster; without an interval when there are fewer
            pairs than a comparison needs.
        outcome: the comparison, its A/A null included.
    """

    gain: Number
    outcome: statistics.Comparison

    @property
    def beyond_noise(self) -> tuple[float, float] | None:
        """The gain's interval, widened by how much ours differs from itself; None when it has none."""
        if self.gain.low is None or self.gain.high is None:
            return None
        return self.gain.low / self.outcome.reach, self.gain.high * self.outcome.reach


def paired(quantity: str, ours: Any, null: Any, theirs: Any, *, at_most: float | None = None) -> Paired:
    """How many times as fast ours is as theirs, judged as `harness.measure.statistics.compare` does.

    Args:
        quantity: what to call it.
        ours, null, theirs: rows, one of `records` each, `null` a second measurement of the same as `ours`, or None;
            their samples, times, are paired by position.
        at_most: how many times the resources ours had over theirs, as `harness.papers.number.ratio` takes it.
    """
    rows = [row for row in (ours, theirs, null) if row is not None]
    pairs = min(len(row.samples) for row in rows)
    outcome = statistics.compare(*(row.samples[:pairs] for row in rows))
    numbers = [number(row, quantity) for row in rows]
    value, low, high = numbers[1].value / numbers[0].value, None, None
    if outcome.ratio is not None:
        # The comparison is of times; a gain is the inverse.
        value, low, high = 1 / outcome.ratio.value, 1 / outcome.ratio.high, 1 / outcome.ratio.low
    provenance, labels = weakest(*(n.provenance for n in numbers)), merge_rows(numbers)
    source = f"ratio of the faster halves' means of {pairs} pairs"
    gain = Number(quantity, value, "ratio", provenance, source, low, high, labels)
    return Paired(gain if at_most is None else bounded_speedup(gain, at_most), outcome)
