"""Compares two stored runs: it decides for each quantity whether it got better or worse, or gives no verdict.

The runs were made at different times, and a machine may change its speed by 10% within minutes, even if the
confidence intervals inside each run are narrow. Only a difference beyond this drift counts.
(`harness.measure.protocol.compare_cases` shows smaller differences, because it times both sides in turn.)

Which rows get a verdict, and how:

- Some rows have no noise and do not depend on the machine's speed: counted clock cycles, times computed from
  them at a stated clock frequency, and numbers computed from published numbers alone. They are compared by value,
  and every difference counts.
- Rows that in both runs have at least 5 samples or a stored interval are compared by the ratio of their values. The
  whole interval of the ratio must be beyond the drift. (Ratios of throughputs and predictions have stored
  intervals. If a run has several rows of a quantity, such as one per seed, their joint interval spans all of
  theirs.) There are two exceptions. If some values are not positive, such as Pendulum's returns, the interval of
  the difference must be beyond the drift times the larger median. For a loss, such as a regret, which is already a
  fraction, the interval of the difference must be beyond the drift itself.
- Nothing else gets a verdict. Numbers computed from measured times without an interval (a portability, a
  simulated cluster) vary as these times do, by an unknown amount. A prediction gets no verdict either: to promise
  more is not better.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.core.quantities import better, declared
from placerl.harness.core.row import Row
from placerl.harness.core.suites import PREDICTING
from placerl.harness.measure import statistics
from placerl.harness.store.rows import Regret

DRIFT = 0.1
"""Fraction by which a machine may be faster or slower in another run although it runs the same code."""
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
    "rate",
    "mapping",
    "loop",
    "devices",
    "fusion",
    "stepped_by",
    "threads",
    "precision",
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
    "actors",
    "learners",
    "of_cell",
)
"""Columns by which rows are kept apart: rows that differ in one of them are different quantities.

So are rows that differ inside one of the columns in `_NESTED`. Rows that differ in their seed only are repetitions.
"""
_NESTED = ("options", "iteration")
"""Columns that hold such facts by name; `options` holds a training's non-default options, none for a strict
one.
"""


class Key(NamedTuple):
    """Identifies a quantity, so that its rows in one run can be compared with its rows in another.

    Attributes:
        parameters: the columns by which rows are kept apart (`DISTINGUISHING`), as "name=value, ...".
        suite: the purpose of the measurement, such as "profile".
        primitive: what was measured, such as "sum_tree.sample".
        who, where: whose number it is and where it ran, such as "native" and "cpu"; empty if there is none.
        batch_size: transitions in a batch; None if there is none.
    """

    suite: str
    workload: str
    primitive: str
    who: str
    where: str
    batch_size: int | None
    quantity: str
    unit: str
    parameters: str = ""


@dataclass(frozen=True)
class Difference:
    """The comparison of one quantity in two runs.

    Attributes:
        before, after: median of the values in the older and in the newer run, in the key's unit; None if a run has
            no value.
        ratio: after / before; None if one is missing, if before is not positive, or if after is negative.
        low, high: bounds of the ratio's interval. If each run has one row with samples, it is the 95% interval;
            otherwise it is the widest range that the rows' own intervals allow. None if there are neither samples
            nor intervals, or if the verdict does not use the ratio.
        verdict: "better" or "worse", as the quantity or its unit defines it; "no verdict" otherwise.
        reason: why there is no verdict; empty otherwise.
        provenance: the weaker provenance of the two runs' rows.
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


def diff(before: Iterable[Row], after: Iterable[Row], *, incomparable: str = "") -> list[Difference]:
    """Compare two stored runs, and decide for each quantity whether it got better or worse, or give no verdict.

    Args:
        incomparable: why no quantity can get a verdict, such as another machine; empty if the runs can be compared.

    Returns:
        One difference for each quantity, those of the older run first, in its order. Several rows of one quantity,
        such as those of several seeds, are combined.
    """
    olds, news = _by_key(before), _by_key(after)
    differences = [_difference(key, olds.get(key, []), news.get(key, [])) for key in {**olds, **news}]
    if not incomparable:
        return differences
    return [replace(d, verdict="no verdict", reason=d.reason or incomparable) for d in differences]


def _by_key(rows: Iterable[Row]) -> dict[Key, list[Row]]:
    by_key: dict[Key, list[Row]] = {}
    for row in rows:
        by_key.setdefault(_key(row), []).append(row)
    return by_key


def _key(row: Row) -> Key:
    own = {name: getattr(row, name) for name in Key._fields if name != "parameters"}
    stated = {**row.notes, **vars(row)}
    if isinstance(row, Regret):
        del stated["mapping"]  # which `where` has
    if stated.get("stepped_by") == "gymnasium":
        del stated["stepped_by"]  # those of older rows, which do not state any
    given = stated.pop("parameters", None) or {}
    stated = {name: value for name, value in stated.items() if value not in (None, ())} | given
    parameters = {name: stated[name] for name in DISTINGUISHING if name in stated}
    for name in _NESTED:
        nested = stated.get(name)
        if isinstance(nested, Mapping):
            parameters |= nested
    cluster = stated.get("cluster")
    if isinstance(cluster, Mapping):  # not its restarts, which differ from run to run
        parameters |= {name: cluster[name] for name in ("actors", "shards", "learners") if name in cluster}
    return Key(**own, parameters=", ".join(f"{name}={parameters[name]}" for name in sorted(parameters)))


def _difference(key: Key, olds: Sequence[Row], news: Sequence[Row]) -> Difference:
    origin = weakest(*(row.provenance for row in (*olds, *news)))
    olds, news = ([row for row in rows if row.value is not None] for rows in (olds, news))
    before, after = _median(olds), _median(news)
    difference = Difference(key, before, after, None, None, None, "no verdict", "", origin)
    if before is None or after is None:
        return replace(difference, reason="no value in one of the runs")
    difference = replace(difference, ratio=after / before if before > 0 and after >= 0 else None)
    if all(map(_has_no_noise, (*olds, *news))):
        difference = _by_values(difference, olds, news)
    elif not _is_loss(key.quantity) and (ratio := _ratio_interval(olds, news)):
        difference = _by_ratio(difference, *ratio)
    else:
        difference = _by_difference(difference, before, after, olds, news)
    if any(row.status == "too_noisy" for row in (*olds, *news)):
        difference = replace(difference, verdict="no verdict", reason="too noisy in one of the runs")
    return difference


def _is_loss(quantity: str) -> bool:
    known = declared(quantity)
    return known is not None and known.loss


def _of_a_formula(quantity: str) -> bool:
    known = declared(quantity)
    return known is not None and known.formula


def _median(rows: Sequence[Row]) -> float | None:
    values = [row.value for row in rows if row.value is not None]
    return float(np.median(values)) if values else None


def _has_no_noise(row: Row) -> bool:
    """Whether its value follows from counted cycles, a stated clock or published numbers, and not from measured
    times.
    """
    if row.provenance is Provenance.MEASURED or row.samples or row.low is not None:
        return False
    return row.unit == "cycles" or _has_clock(row) or _of_a_formula(row.quantity)


def _has_clock(row: Row) -> bool:
    return getattr(row, "clock_mhz", None) is not None or "clock_mhz" in (
        getattr(row, "parameters", None) or {}
    )


def _by_values(difference: Difference, olds: Sequence[Row], news: Sequence[Row]) -> Difference:
    if any(len({row.value for row in rows}) > 1 for rows in (olds, news)):
        return replace(
            difference, reason="one of the runs has several values of it, with nothing to tell them apart"
        )
    before, after = olds[0].value or 0.0, news[0].value or 0.0
    if math.isclose(before, after):  # equal up to rounding
        return replace(difference, reason="the same in both runs")
    return _judged(difference, rose=after > before)


def _ratio_interval(olds: Sequence[Row], news: Sequence[Row]) -> tuple[float, float] | None:
    """Return the interval of new over old; None without intervals, or if they are not positive."""
    samples = [row.samples for row in (*olds, *news)]
    if len(samples) == 2 and all(len(s) >= statistics.FEWEST_SAMPLES and min(s) > 0 for s in samples):
        return statistics.ratio_interval(samples[1], samples[0])
    old, new = _interval(olds), _interval(news)
    if old is None or new is None or min(old[0], new[0]) <= 0:
        return None
    return new[0] / old[1], new[1] / old[0]


def _interval(rows: Sequence[Row]) -> tuple[float, float] | None:
    """Return the range that the intervals of several rows span; None if one row has no interval.

    The samples are not pooled: the training with the most episodes would have the most weight.
    """
    intervals = [_own_interval(row) for row in rows]
    if None in intervals:
        return None
    ends = [end for one in intervals if one for end in one]
    return min(ends), max(ends)


def _own_interval(row: Row) -> tuple[float, ...] | None:
    """Return the row's interval from its samples or as stored, widened to contain its value; None without either."""
    if len(row.samples) >= statistics.FEWEST_SAMPLES:
        ends: tuple[float | None, ...] = (*statistics.interval(row.samples), row.value)
    else:
        ends = row.low, row.value, row.high
    return None if None in ends else tuple(end for end in ends if end is not None)


def _by_ratio(difference: Difference, low: float, high: float) -> Difference:
    difference = replace(difference, low=low, high=high)
    if low <= 1 + DRIFT and high >= 1 / (1 + DRIFT):
        return replace(
            difference, reason=f"the ratio, {low:.3f} to {high:.3f}, is within a drift of {DRIFT:.0%}"
        )
    return _judged(difference, rose=low > 1)


def _by_difference(
    difference: Difference, before: float, after: float, olds: Sequence[Row], news: Sequence[Row]
) -> Difference:
    old, new = _interval(olds), _interval(news)
    if old is None or new is None:
        return replace(difference, reason=_why_no_interval([*olds, *news]))
    low, high = new[0] - old[1], new[1] - old[0]
    drift = DRIFT * (1.0 if _is_loss(difference.key.quantity) else max(abs(before), abs(after)))
    if low <= drift and high >= -drift:
        said = f"the difference, {low:.4g} to {high:.4g}, is within a drift of {drift:.4g}"
        return replace(difference, reason=said)
    return _judged(difference, rose=low > 0)


def _why_no_interval(rows: Sequence[Row]) -> str:
    if all(row.provenance is Provenance.MEASURED for row in rows):
        few = f"a row of one of the runs has fewer than {statistics.FEWEST_SAMPLES} samples and none stored"
        return f"no interval: {few}"
    return "no interval: it may be calculated from measured times, and vary as they do"


def _judged(difference: Difference, *, rose: bool) -> Difference:
    quantity, unit = difference.key.quantity, difference.key.unit
    if difference.key.suite in PREDICTING or quantity.startswith("predicted_"):
        return replace(difference, reason="a prediction, which is not better for promising more")
    direction = better(quantity, unit)
    if direction is None:
        return replace(
            difference, reason=f"of {quantity!r} in {unit!r} it is not known whether more is better"
        )
    if direction == "neither":
        return replace(difference, reason=f"of {quantity!r} neither more nor less is better")
    improved = {"more": rose, "less": not rose}[direction]
    return replace(difference, verdict="better" if improved else "worse")
