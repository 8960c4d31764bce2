"""What changed between two runs: better, worse, or no verdict.

The runs were made at different times, so a machine that drifts has changed between them: by 10% within minutes,
whatever the intervals inside each run say. A difference counts only beyond that drift. (What must be told apart
more finely is measured side by side: `harness.measure.protocol.compare_cases`.)

What gets a verdict, and by what:

- cycles, what follows from them at a stated clock, and what follows from published numbers alone: by the values. They
  have no noise, and no machine's pace is in them, so that any difference counts.
- what in every row of both runs has 5 samples or more, or a stored interval (a ratio of throughputs, a prediction:
  between its times' ends): by the interval of the ratio, beyond the drift (of several rows, such as those of seeds, by
  what their intervals span); of what is not positive throughout (returns of Pendulum), by that of the difference,
  beyond the same part of the larger of the two medians; of a loss (a regret), by that of the difference, beyond the
  drift of what it is a part of.
- nothing else: what is calculated from measured times without an interval (a portability, a simulated cluster) varies
  as they do, and does not say by how much. Nor does a prediction: it is not better for promising more.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from harness.core.provenance import Provenance, weakest
from harness.core.quantities import better, declared
from harness.core.row import Measurement
from harness.measure import statistics

DRIFT = 0.1
"""Part by which a machine may be faster or slower in another run without any change to what it runs."""
DISTINGUISHING = (
    "experiment",
    "null",
    "capacity",
    "replay_capacity",
    "fanout",
    "aligned",
    "layout",
    "baseline",
    "part",
    "mapping",
    "loop",
    "devices",
    "fusion",
    "threads",
    "precisions",
    "footprint_bytes",
    "primitives",
    "sharing",
    "process",
    "side",
    "core",
    "agents",
    "policy_epochs",
    "clock_mhz",
    "use",
    "nodes",
    "shards",
    "broadcast",
)
"""Details that tell rows apart, beside all that stand under `_NESTED`. Seeds do not: they are repetitions."""
_NESTED = ("parameters", "options", "iteration")
"""Details that hold such details by name: `options` those of a training that are not the default, none of a strict one.
"""
_PREDICTING = frozenset({"prediction", "simulated_prediction", "precision_prediction"})
"""Suites of predictions, which are not better for promising more; beside a validation they are `predicted_...`."""


class Key(NamedTuple):
    """What makes two measurements the same one in different runs.

    `parameters` reads "name=value, ..." over what `DISTINGUISHING` and `_NESTED` name; the other fields are a
    measurement's own.
    """

    suite: str
    workload: str
    primitive: str
    backend: str
    device: str
    batch_size: int | None
    quantity: str
    unit: str
    parameters: str = ""


@dataclass(frozen=True)
class Difference:
    """One quantity in two runs.

    Attributes:
        key: which quantity.
        before, after: medians, in the key's unit; None where a run has none.
        ratio: after over before; None without both, or where before is not above 0 or after is below.
        low, high: interval of the ratio: 95% from the samples of a row in each run, or the widest that the intervals of
            several rows or stored ones allow; None where there is neither, or the verdict is by the values or by their
            difference.
        verdict: "better" or "worse" in the sense of the unit; "no verdict".
        reason: why there is none; empty otherwise.
        provenance: the weaker one of the two.
    """

    key: Key
    before: float | None
    after: float | None
    ratio: float | None
    low: float | None
    high: float | None
    verdict: Literal["better", "worse", "no verdict"]
    reason: str
    provenance: Provenance


def diff(
    before: Iterable[Measurement], after: Iterable[Measurement], *, incomparable: str = ""
) -> list[Difference]:
    """Compares two runs, quantity by quantity.

    Args:
        before: the measurements of the older run.
        after: those of the newer.
        incomparable: why no difference is a verdict, such as another machine; empty where they can be compared.

    Returns:
        A difference for each quantity that either run has, in the order of the first run. Several rows of one
        quantity (seeds, repeated cells) are taken together.
    """
    olds, news = _by_key(before), _by_key(after)
    found = [_difference(key, olds.get(key, []), news.get(key, [])) for key in {**olds, **news}]
    if not incomparable:
        return found
    return [replace(d, verdict="no verdict", reason=d.reason or incomparable) for d in found]


def _by_key(rows: Iterable[Measurement]) -> dict[Key, list[Measurement]]:
    found: dict[Key, list[Measurement]] = {}
    for row in rows:
        found.setdefault(_key(row), []).append(row)
    return found


def _key(row: Measurement) -> Key:
    own = {name: getattr(row, name) for name in Key._fields if name != "parameters"}
    parameters = {name: row.details[name] for name in DISTINGUISHING if name in row.details}
    for name in _NESTED:
        nested = row.details.get(name)
        if isinstance(nested, Mapping):
            parameters |= nested
    return Key(**own, parameters=", ".join(f"{name}={parameters[name]}" for name in sorted(parameters)))


def _difference(key: Key, olds: list[Measurement], news: list[Measurement]) -> Difference:
    origin = weakest(*(row.provenance for row in (*olds, *news)))
    olds, news = ([row for row in rows if row.value is not None] for rows in (olds, news))
    before, after = _median(olds), _median(news)
    found = Difference(key, before, after, None, None, None, "no verdict", "", origin)
    if before is None or after is None:
        return replace(found, reason="no value in one of the runs")
    found = replace(found, ratio=after / before if before > 0 and after >= 0 else None)
    if all(map(_has_no_noise, (*olds, *news))):
        found = _by_values(found, olds, news)
    elif not _is_loss(key.quantity) and (ratio := _ratio_interval(olds, news)):
        found = _by_ratio(found, *ratio)
    else:
        found = _by_difference(found, before, after, olds, news)
    if any(row.status == "too_noisy" for row in (*olds, *news)):
        found = replace(found, verdict="no verdict", reason="too noisy in one of the runs")
    return found


def _is_loss(quantity: str) -> bool:
    known = declared(quantity)
    return known is not None and known.loss


def _of_a_formula(quantity: str) -> bool:
    known = declared(quantity)
    return known is not None and known.formula


def _median(rows: list[Measurement]) -> float | None:
    values = [row.value for row in rows if row.value is not None]
    return float(np.median(values)) if values else None


def _has_no_noise(row: Measurement) -> bool:
    """Whether its value follows from counted cycles, a stated clock or published numbers: from no measured time."""
    if row.provenance is Provenance.MEASURED or row.samples or row.low is not None:
        return False
    return row.unit == "cycles" or "clock_mhz" in row.details or _of_a_formula(row.quantity)


def _by_values(found: Difference, olds: list[Measurement], news: list[Measurement]) -> Difference:
    if any(len({row.value for row in rows}) > 1 for rows in (olds, news)):
        return replace(
            found, reason="one of the runs has several values of it, with nothing to tell them apart"
        )
    before, after = olds[0].value or 0.0, news[0].value or 0.0
    if math.isclose(before, after):  # but for rounding
        return replace(found, reason="the same in both runs")
    return _judged(found, rose=after > before)


def _ratio_interval(olds: list[Measurement], news: list[Measurement]) -> tuple[float, float] | None:
    """Of new over old; None without intervals, or where they are not above 0."""
    samples = [row.samples for row in (*olds, *news)]
    if len(samples) == 2 and all(len(s) >= statistics.FEWEST_SAMPLES and min(s) > 0 for s in samples):
        return statistics.ratio_interval(samples[1], samples[0])
    old, new = _interval(olds), _interval(news)
    if old is None or new is None or min(old[0], new[0]) <= 0:
        return None
    return new[0] / old[1], new[1] / old[0]


def _interval(rows: list[Measurement]) -> tuple[float, float] | None:
    """All that the intervals of several rows, such as those of seeds, span; None where one has none.

    The samples of several are not put together: of trainings the one with the most episodes would weigh most.
    """
    found = [_own_interval(row) for row in rows]
    if None in found:
        return None
    ends = [end for one in found if one for end in one]
    return min(ends), max(ends)


def _own_interval(row: Measurement) -> tuple[float, ...] | None:
    """From its samples, or the stored one, and its value, which may lie outside; None without either."""
    if len(row.samples) >= statistics.FEWEST_SAMPLES:
        ends: tuple[float | None, ...] = (*statistics.interval(row.samples), row.value)
    else:
        ends = row.low, row.value, row.high
    return None if None in ends else tuple(end for end in ends if end is not None)


def _by_ratio(found: Difference, low: float, high: float) -> Difference:
    found = replace(found, low=low, high=high)
    if low <= 1 + DRIFT and high >= 1 / (1 + DRIFT):
        return replace(found, reason=f"the ratio, {low:.3f} to {high:.3f}, is within a drift of {DRIFT:.0%}")
    return _judged(found, rose=low > 1)


def _by_difference(
    found: Difference, before: float, after: float, olds: list[Measurement], news: list[Measurement]
) -> Difference:
    old, new = _interval(olds), _interval(news)
    if old is None or new is None:
        return replace(found, reason=_why_no_interval([*olds, *news]))
    low, high = new[0] - old[1], new[1] - old[0]
    drift = DRIFT * (1.0 if _is_loss(found.key.quantity) else max(abs(before), abs(after)))
    if low <= drift and high >= -drift:
        said = f"the difference, {low:.4g} to {high:.4g}, is within a drift of {drift:.4g}"
        return replace(found, reason=said)
    return _judged(found, rose=low > 0)


def _why_no_interval(rows: list[Measurement]) -> str:
    if all(row.provenance is Provenance.MEASURED for row in rows):
        few = f"a row of one of the runs has fewer than {statistics.FEWEST_SAMPLES} samples and none stored"
        return f"no interval: {few}"
    return "no interval: it may be calculated from measured times, and vary as they do"


def _judged(found: Difference, *, rose: bool) -> Difference:
    quantity, unit = found.key.quantity, found.key.unit
    if found.key.suite in _PREDICTING or quantity.startswith("predicted_"):
        return replace(found, reason="a prediction, which is not better for promising more")
    direction = better(quantity, unit)
    if direction in ("more", "less"):
        return replace(found, verdict="better" if rose == (direction == "more") else "worse")
    if direction == "neither":
        return replace(found, reason=f"of {quantity!r} neither more nor less is better")
    return replace(found, reason=f"of {quantity!r} in {unit!r} it is not known whether more is better")
