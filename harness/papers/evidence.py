"""Selects stored measurements as evidence for claims (statements of papers), and converts them to numbers."""

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pandas as pd

from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.core.suites import Suite
from placerl.harness.measure import rows as summary_rows
from placerl.harness.measure import statistics
from placerl.harness.papers.experiments import Experiment
from placerl.harness.papers.number import Number, bounded_speedup, merge_rows

USABLE = ("ok", "too_noisy")
NEAR = 0.2
"""Largest relative difference at which a factor counts as the published one."""
RATIOS = ("throughput_ratio", "null_ratio")
"""Quantities that are ratios, and are stored with the unit "1"."""
ERROR = "error of the prediction"
"""Name of the quantity that `error_of` returns, in words."""


def near(value: float, published: float) -> bool:
    """Return whether a factor differs from the published one by at most 20% of the latter (`NEAR`)."""
    return abs(value / published - 1) <= NEAR


def agrees(number: Number, published: float) -> bool:
    """Return whether a number's whole interval is within 20% of a published value (`NEAR`); False without interval."""
    return (
        number.low is not None
        and number.high is not None
        and near(number.low, published)
        and near(number.high, published)
    )


def select(frame: pd.DataFrame, **equal: object) -> pd.DataFrame:
    """Return the measurements that have a value and whose columns equal given values."""
    wanted = frame["status"].isin(USABLE)
    for column, value in equal.items():
        wanted &= frame[column] == value
    return frame[wanted]


def rows_of(frame: pd.DataFrame, experiment: Experiment, quantity: str = "", **equal: object) -> list[Any]:
    """Return the measurements of an experiment that have a value, as named tuples (`records`).

    Their `parameters` are the experiment's columns (`Experiment.read`).

    Args:
        quantity: one of the experiment's quantities, such as "time_per_call"; empty for all.

    Raises:
        ValueError: the experiment has no such quantity.
    """
    if quantity:
        experiment.check(quantity)
        equal["quantity"] = quantity
    chosen = select(frame, suite=Suite.CLAIM, **equal)
    rows = records(chosen[chosen["experiment"] == experiment])
    return [row._replace(parameters=experiment.read(row.parameters)) for row in rows]


def last_attempts(frame: pd.DataFrame, *, of_any_code: bool = False) -> pd.DataFrame:
    """Return the measurements without those that a later measurement of the same thing replaced.

    A cell, a piece of the plan whose rows are stored together, may be measured again in the same run ("name#2"
    follows "name") or in a later run, for instance of another tier. Only its last attempt by the same revision on the
    same machine is kept.

    Args:
        of_any_code: whether a later revision's attempt replaces an earlier one's, so that each machine has one
            attempt at each cell.
    """
    names = frame["cell"].str.split("#").str[0]
    measured = frame["run"].astype(str) + "/" + frame["cell"]
    apart = [frame["fingerprint"], names]
    if not of_any_code:
        apart.append(frame["revision"])
    last = measured.groupby(apart).transform("last")
    return frame[measured == last]


def records(frame: pd.DataFrame) -> list[Any]:
    """Return the rows of stored measurements as named tuples; their field `Index` is the row's label."""
    if frame.empty:
        return []
    kind = _named(tuple(frame.columns))
    return [
        kind(label, *values)
        for label, values in zip(frame.index, frame.to_numpy(object).tolist(), strict=True)
    ]


@cache
def _named(columns: tuple[str, ...]) -> Callable[..., Any]:
    """Return the named tuple of a frame's rows. Frames have some 150 columns, so that `itertuples` takes long.

    A column of a stranger's store whose name is no name of Python is left without one.
    """
    return namedtuple("Record", ("Index", *columns), rename=True)


def noisy(frame: pd.DataFrame) -> bool:
    """Return whether at least one of the measurements has a wide interval or none (status "too_noisy").

    Claims do not ask for it: they judge by intervals, and a wide one decides if it leaves the limit out.
    """
    return bool((frame["status"] == "too_noisy").any())


def mapping_of(row: Any) -> str:
    """Return the mapping of a prediction or a training: where learner, replay management and storage run.

    Returns:
        The mapping as text, such as "torch-native-cpu"; for a row without a mapping its device, or else its backend.
    """
    return str(row.mapping or row.where or row.who)


def races_lost(row: Any) -> int:
    """Return in how many races of its validation a mapping was dropped, because another one was clearly faster.

    A dropped mapping gets no further rounds, so that its median rests on few of them.
    """
    return len(row.clearly_slower_among or ())


def optional(value: float) -> float | None:
    """Return a value of the frame of measurements as a float, or None if it is NaN."""
    return None if pd.isna(value) else float(value)


def number(row: Any, quantity: str) -> Number:
    """Return the value of a stored measurement as a number, with its interval, unit, provenance and index label."""
    return Number(
        quantity,
        float(row.value),
        "ratio" if row.quantity in RATIOS else row.unit,
        Provenance(row.provenance),
        "",
        optional(row.low),
        optional(row.high),
        (int(row.Index),),
    )


def error_of(prediction: Any, run: Any, quantity: str) -> Number:
    """Return the error of a prediction that a validation stored with it, in percent, with its interval.

    It is the median over rounds, each of which timed both the training and the calls from which it is predicted. So it
    does not depend on how fast the core was, unlike the quotient of the two rows' values: the predicted one is of a
    core at full speed, the achieved one is of the core as it was.
    """
    low, high = prediction.error_low, prediction.error_high
    return Number(
        quantity,
        100 * prediction.error,
        "%",
        weakest(Provenance(prediction.provenance), Provenance(run.provenance)),
        "median over rounds of predicted / achieved - 1",
        None if low is None else 100 * low,
        None if high is None else 100 * high,
        tuple(sorted((int(prediction.Index), int(run.Index)))),
    )


def rate(row: Any, quantity: str) -> Number:
    """Return calls per second from a stored measurement of seconds per call.

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
    """A comparison of two configurations, called ours and theirs, that were timed in turn in the same rounds.

    Attributes:
        gain: their time divided by ours, above 1 if ours is faster; without an interval if there are fewer pairs of
            samples than a comparison needs.
        outcome: the comparison with its verdict. It accounts for how far two timings of ours differ (the A/A null).
    """

    gain: Number
    outcome: statistics.Comparison

    @property
    def beyond_noise(self) -> tuple[float, float] | None:
        """Return the gain's interval, widened by how far two timings of ours differ (the A/A null).

        It is None if the gain has no interval.
        """
        if self.gain.low is None or self.gain.high is None:
            return None
        return self.gain.low / self.outcome.reach, self.gain.high * self.outcome.reach

    @property
    def judged(self) -> Number:
        """Return the gain with the interval that a verdict by `beyond_noise` is decided by."""
        if self.beyond_noise is None:
            return self.gain
        low, high = self.beyond_noise
        source = f"{self.gain.source}; interval widened by the A/A null"
        return replace(self.gain, low=low, high=high, source=source)


def paired(quantity: str, ours: Any, null: Any, theirs: Any, *, at_most: float | None = None) -> Paired:
    """Return the speedup of one configuration (ours) over another (theirs), with a verdict on the difference.

    Args:
        ours: the row of our configuration, from `records`. Its samples are times, and are paired with those of the
            others from the same round (`harness.measure.rows.paired`).
        null: the row of a second measurement of our configuration, which shows the noise (the A/A null), or None.
        at_most: ratio of the resources (cores, threads) of ours to theirs; a speedup above it is marked as impossible
            (`Number.suspect`). None if they differ in something else.
    """
    rows = [row for row in (ours, theirs, null) if row is not None]
    samples = summary_rows.paired(*rows)
    outcome = statistics.compare(*samples)
    numbers = [number(row, quantity) for row in rows]
    value, low, high = numbers[1].value / numbers[0].value, None, None
    source = f"ratio of the medians; {outcome.reason}"
    if outcome.ratio is not None:
        # Times are compared; a gain is the inverse.
        value, low, high = 1 / outcome.ratio.value, 1 / outcome.ratio.high, 1 / outcome.ratio.low
        averages = "medians" if any(one.moved for one in samples[:2]) else "faster halves' means"
        source = f"ratio of the {averages} of {outcome.pairs} pairs"
    provenance, labels = weakest(*(n.provenance for n in numbers)), merge_rows(numbers)
    gain = Number(quantity, value, "ratio", provenance, source, low, high, labels)
    return Paired(gain if at_most is None else bounded_speedup(gain, at_most), outcome)
