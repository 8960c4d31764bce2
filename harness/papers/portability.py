"""Computes PRL's performance portability over machines (6.4) for claims, validations and reports.

It is the harmonic mean over machines of the best throughput that each machine reached.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.core.suites import Suite
from placerl.harness.mapping.metrics import portability
from placerl.harness.papers.evidence import number, records, select
from placerl.harness.papers.number import Number, merge_rows, scaled


@dataclass(frozen=True)
class BesideBaseline:
    """The performance portability of this project and of another library (a baseline) over the machines that ran both.

    Attributes:
        workload, batch_size: what the machines trained.
        ours, theirs: this project's and the library's portability: the harmonic mean over the machines of the best
            experiences per second.
    """

    workload: str
    batch_size: int
    baseline: str
    machines: int
    ours: Number
    theirs: Number


def beside_baselines(everywhere: pd.DataFrame) -> Iterator[BesideBaseline]:
    """Yield the portability of this project and of other libraries (baselines), from comparisons on several machines.

    Args:
        everywhere: the last measurements of every machine, one per row (`harness.papers.evidence.last_attempts` of any
            code).
    """
    rows = select(everywhere, suite=Suite.COMPARE, primitive="training", quantity="gradient_steps_per_s")
    best: dict[tuple[str, int, str], dict[str, dict[str, Number]]] = {}
    for row in records(rows[rows["batch_size"].notna() & (rows["value"] > 0)]):
        part = row.part
        if part in ("ours", "theirs"):
            place = row.workload, int(row.batch_size), str(row.baseline)
            on = best.setdefault(place, {}).setdefault(row.fingerprint, {})
            n = experiences(row)
            if part not in on or n.value > on[part].value:
                on[part] = n
    for (workload, size, baseline), machines in sorted(best.items()):
        pairs = [on for on in machines.values() if len(on) == 2]
        if len(pairs) > 1:
            ours, theirs = (harmonic_mean([on[part] for on in pairs]) for part in ("ours", "theirs"))
            yield BesideBaseline(workload, size, baseline, len(pairs), ours, theirs)


def experiences(row: Any) -> Number:
    """Return experiences per second: the stored gradient steps per second times the batch size."""
    return scaled(number(row, "experiences a second"), int(row.batch_size))


def harmonic_mean(best: Sequence[Number | None]) -> Number:
    """Return the harmonic mean of the machines' best throughputs, with an interval from their intervals.

    Args:
        best: the best throughput of each machine, at least one; None for a machine that cannot run the workload,
            which makes the mean 0.
    """
    there = [n for n in best if n is not None]
    lows = [n.low for n in there if n.low is not None]
    highs = [n.high for n in there if n.high is not None]
    known = len(lows) == len(highs) == len(best) and min(lows) > 0
    return Number(
        "harmonic mean of each machine's best throughput",
        portability([None if n is None else n.value for n in best]),
        "1/s",
        weakest(Provenance.MEASURED, *(n.provenance for n in there)),
        "",
        portability(lows) if known else None,
        portability(highs) if known else None,
        merge_rows(there),
    )
