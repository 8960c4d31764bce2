"""What changed between two runs: better, worse, or no verdict.

The runs were made at different times, so a machine that drifts has changed between them: by 10% within minutes,
whatever the intervals inside each run say. A difference counts only beyond that drift. (What must be told apart
more finely is measured side by side: `harness.measure.compare_cases`.)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from harness import comparison
from harness.measurement import Measurement
from harness.provenance import Provenance, weakest

DRIFT = 0.1
"""Part by which a machine may be faster or slower in another run without any change to what it runs."""
DISTINGUISHING = (
    "experiment",
    "null",
    "capacity",
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
    "footprint_bytes",
    "primitives",
)
"""Details that tell rows apart, beside all that stand under "parameters". Seeds do not: they are repetitions."""
_LESS_IS_BETTER = frozenset(
    {"s", "ms", "us", "cycles", "bytes", "W", "J", "regret", "runtime_overhead", "time_over_memory_floor"}
)
"""Units, and quantities whose unit does not say it: a bare "1" may count a loss or a gain."""
_MORE_IS_BETTER = frozenset({
    "1/s", "1/min", "1/J", "1/s/W", "IPS", "IPS/W", "B/s", "GB/s", "FLOP/s",
    "as_printed", "best_interquartile_mean_return", "episode_return", "evaluation_return", "final_return",
    "interquartile_mean_return", "saturating_nodes", "speedup_over_fastest_peer", "throughput_ratio",
})  # fmt: skip
"""The same, where more is better."""
NEITHER_IS_BETTER = frozenset({
    "descriptors", "failure", "gain", "here_over_cluster", "here_over_here", "learner_busy", "link_busy", "null_ratio",
    "rows", "shards_busy", "threads", "writer_busy",
})  # fmt: skip
"""Quantities that describe a run and do not judge it."""


class Key(NamedTuple):
    """What makes two measurements the same one in different runs.

    `parameters` reads "name=value, ..." over what `DISTINGUISHING` names; the other fields are a measurement's own.
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
        ratio: after over before; None without both, or where before is 0.
        low, high: 95% interval of the ratio from the samples of both runs; None with fewer than 5 of either.
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
    nested = row.details.get("parameters")
    if isinstance(nested, Mapping):
        parameters |= nested
    return Key(**own, parameters=", ".join(f"{name}={parameters[name]}" for name in sorted(parameters)))


def _difference(key: Key, olds: list[Measurement], news: list[Measurement]) -> Difference:
    before, after = _median(olds), _median(news)
    ratio = after / before if before and after is not None else None
    origin = weakest(*(row.provenance for row in (*olds, *news)))
    samples = [_samples(olds), _samples(news)]
    if ratio is None:
        reason = "no value in one of the runs" if before is None or after is None else "the first value is 0"
        return Difference(key, before, after, None, None, None, "no verdict", reason, origin)
    if min(map(len, samples)) < comparison.FEWEST_SAMPLES or min(map(min, samples)) <= 0:
        reason = f"no interval: fewer than {comparison.FEWEST_SAMPLES} samples in one of the runs, or not all positive"
        return Difference(key, before, after, ratio, None, None, "no verdict", reason, origin)
    low, high = comparison.ratio_interval(samples[1], samples[0])
    verdict, reason = _judge(key, low, high)
    if any(row.status == "too_noisy" for row in (*olds, *news)):
        verdict, reason = "no verdict", "too noisy in one of the runs"
    return Difference(key, before, after, ratio, low, high, verdict, reason, origin)


def _median(rows: list[Measurement]) -> float | None:
    values = [row.value for row in rows if row.value is not None]
    return float(np.median(values)) if values else None


def _samples(rows: list[Measurement]) -> list[float]:
    return [sample for row in rows for sample in row.samples]


def _judge(key: Key, low: float, high: float) -> tuple[Literal["better", "worse", "no verdict"], str]:
    if low > 1 + DRIFT:
        rose = True
    elif high < 1 / (1 + DRIFT):
        rose = False
    else:
        return "no verdict", f"the ratio, {low:.3f} to {high:.3f}, is within a drift of {DRIFT:.0%}"
    direction = better(key.quantity, key.unit)
    if direction is None:
        return "no verdict", (
            f"of {key.quantity!r} neither more nor less is better"
            if key.quantity in NEITHER_IS_BETTER
            else f"of {key.quantity!r} in {key.unit!r} it is not known whether more is better"
        )
    return ("better" if rose == (direction == "more") else "worse"), ""


def better(quantity: str, unit: str) -> Literal["more", "less"] | None:
    """Whether more of a quantity or less of it is better; None where neither is, or it is not known."""
    if quantity in NEITHER_IS_BETTER:
        return None
    for name in (quantity, unit):
        if name in _LESS_IS_BETTER:
            return "less"
        if name in _MORE_IS_BETTER:
            return "more"
    return None
