"""The roofline: every primitive of the profile beside what its device does at most (Williams et al. 2009).

Arithmetic and traffic are counted from shapes (`harness.profile.cases.work`), roofs are measured on the same machine
(`harness.profile.machine_peaks`), those of a simulated FPGA modelled. A memory's roof counts for the primitives that
fit into it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from harness.core.provenance import Provenance, weakest
from harness.papers.evidence import detail, number, records, select
from harness.papers.number import Number, merge_rows, ratio
from harness.profile import machine_peaks as measured_roofs
from harness.profile import simulated
from harness.report.content import Roof, RooflinePoint
from harness.report.tables import optional_size

COUNTED = "counted from shapes (harness.profile.cases.work)"
_BINARY = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def roofs(frame: pd.DataFrame) -> list[Roof]:
    """Every roof once; a simulated device's come with each workload: those that agree are one roof."""
    last: dict[tuple[Any, ...], Any] = {}
    for row in records(select(frame, suite=measured_roofs.SUITE)):
        size, bounded = detail(row, "footprint_bytes"), str(detail(row, "primitives") or "")
        last[row.device, bounded, row.quantity, size, row.workload] = row
    agreeing: dict[tuple[Any, ...], list[Any]] = {}
    for (*place, _), row in last.items():
        agreeing.setdefault((*place, row.value), []).append(row)
    found = [_one(bounded, size, rows) for (_, bounded, _, size, _), rows in agreeing.items()]
    return sorted(
        found, key=lambda r: (r.device, r.primitives, r.name != "peak", r.footprint_bytes or 0, r.workloads)
    )


def _one(primitives: str, size: int | None, rows: Sequence[Any]) -> Roof:
    name = "peak" if rows[0].quantity == "peak" else _memory(size)
    workloads = tuple(sorted({row.workload for row in rows} - {""}))
    rates = [number(row, name) for row in rows]
    rate = replace(rates[-1], rows=merge_rows(rates))
    return Roof(rows[0].device, workloads, primitives, name, size, rate, rows[-1].status)


def _memory(size: int | None) -> str:
    if size is None:
        return "memory on the chip"
    scale, unit = next((scale, unit) for scale, unit in (*_BINARY, (1, "B")) if size >= scale)
    return f"copy within {size / scale:.4g} {unit}"


def points(frame: pd.DataFrame, found: Sequence[Roof]) -> Iterator[RooflinePoint]:
    """Each profiled primitive whose work shapes tell.

    Where a device's memory beyond its caches was not measured, what the caches do not hold has no roof.
    """
    missing = frame[(frame["suite"] == measured_roofs.SUITE) & (frame["status"] == "not_run")]
    caches_alone = set(missing["device"])
    for suite in ("profile", simulated.SUITE):
        for row in records(select(frame, suite=suite, quantity="time_per_call")):
            if (work := row.details.get("work")) and row.value > 0:
                roofs = [r for r in found if _bounds(r, row)]
                yield _point(row, work, roofs, row.device in caches_alone)


def _bounds(roof: Roof, row: Any) -> bool:
    if row.workload not in (roof.workloads or (row.workload,)) or row.device != roof.device:
        return False
    if row.primitive == simulated.PIPELINE:  # its units are not those of the other learner
        return roof.primitives == simulated.PIPELINE
    return str(row.primitive).startswith(roof.primitives)


def _point(row: Any, work: dict[str, int], roofs: Sequence[Roof], caches_alone: bool) -> RooflinePoint:
    time = number(row, "time per call")
    flops, traffic = (_counted(words, work[name], unit) for words, name, unit in _WORK)
    intensity = None
    if flops.value:
        intensity = Number(
            "intensity", flops.value / traffic.value, "FLOP/B", Provenance.MODELLED, "arithmetic / traffic"
        )
    achieved = _rate(flops if intensity else traffic, time)
    roof, by = _roof(intensity, serving(roofs, work["footprint_bytes"], caches_alone), roofs)
    share = None
    if roof:
        share = _percent(ratio("share of the roof", achieved, roof))
    status = by.status if by and row.status == "ok" else row.status
    return RooflinePoint(
        row.workload,
        row.primitive,
        row.backend,
        row.device,
        optional_size(row.batch_size),
        time,
        flops,
        traffic,
        intensity,
        achieved,
        roof,
        by.name if by else "",
        share,
        status,
    )


_WORK = (("arithmetic", "flops", "FLOP"), ("traffic", "traffic_bytes", "B"))


def _counted(words: str, value: int, unit: str) -> Number:
    return Number(words, float(value), unit, Provenance.MODELLED, COUNTED)


def _rate(amount: Number, time: Number) -> Number:
    """An amount over a time: its provenance is the count's, which is weaker than a clock's."""
    low, high = (None if bound is None else amount.value / bound for bound in (time.high, time.low))
    provenance = weakest(amount.provenance, time.provenance)
    return Number(
        "achieved",
        amount.value / time.value,
        f"{amount.unit}/s",
        provenance,
        amount.source,
        low,
        high,
        time.rows,
    )


def _roof(
    intensity: Number | None, memory: Roof | None, roofs: Sequence[Roof]
) -> tuple[Number | None, Roof | None]:
    """The lower one of the peak and of what the memory can feed, and which that is; None where it is not known."""
    peak = next((roof for roof in roofs if roof.name == "peak"), None)
    if memory is None or (intensity and peak is None):
        return None, None
    if intensity is None:
        return memory.rate, memory
    assert peak is not None
    if memory.rate.value * intensity.value >= peak.rate.value:
        return peak.rate, peak
    rate, factor = memory.rate, intensity.value
    low, high = (None if bound is None else factor * bound for bound in (rate.low, rate.high))
    return (
        Number(
            "roof",
            factor * rate.value,
            peak.rate.unit,
            weakest(rate.provenance, intensity.provenance),
            "bandwidth x intensity",
            low,
            high,
            merge_rows([rate]),
        ),
        memory,
    )


def serving(roofs: Iterable[Roof], footprint_bytes: int, caches_alone: bool = False) -> Roof | None:
    """Return the memory that serves a footprint: the smallest that was measured with one as large, else the largest.

    Args:
        roofs: of a device.
        footprint_bytes: of what it serves.
        caches_alone: the largest was not measured: what is in none of these is served by none of them.
    """
    memories = sorted((r for r in roofs if r.name != "peak"), key=lambda r: r.footprint_bytes or 0)
    return next(
        (r for r in memories if r.footprint_bytes is None or r.footprint_bytes >= footprint_bytes),
        memories[-1] if memories and not caches_alone else None,
    )


def _percent(share: Number) -> Number:
    low, high = (None if bound is None else 100 * bound for bound in (share.low, share.high))
    return Number(
        share.quantity, 100 * share.value, "%", share.provenance, share.source, low, high, share.rows
    )
