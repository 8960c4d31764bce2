"""Computes the roofline: every profiled primitive with the upper limits of its device (Williams et al. 2009).

A primitive is a timed operation, such as `learner.step`. Its arithmetic and traffic are counted from shapes
(`harness.pieces.work`). Roofs, the upper limits, are measured on the same machine
(`harness.profile.machine_peaks`); those of a simulated FPGA are modelled. A memory's roof applies to the primitives
whose data fits into the memory.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.core.suites import Suite
from placerl.harness.papers.evidence import number, records, select
from placerl.harness.papers.number import Number, merge_rows, ratio, scaled
from placerl.harness.profile import machine_peaks as measured_roofs
from placerl.harness.profile import simulated
from placerl.harness.report.rows.primitives import PEAK, DeviceRoof, RooflinePoint
from placerl.harness.report.tables import optional_size
from placerl.primitives.quantization.precision import BFLOAT_16

COUNTED = "counted from shapes (placerl.harness.pieces.work)"
PRECISIONS = (BFLOAT_16,)
"""Precisions other than float32 in which a gradient step has the same operations as in float32."""
_BINARY = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def roofs(frame: pd.DataFrame) -> list[DeviceRoof]:
    """Return the roofs of all devices, the upper limits of their rates: peak arithmetic and memory bandwidth.

    A simulated device's roofs are stored with each workload; equal ones are merged.
    """
    last: dict[tuple[Any, ...], Any] = {}
    for row in records(select(frame, suite=measured_roofs.SUITE)):
        size, bounded, precision = row.footprint_bytes, row.primitives or "", row.precision or ""
        last[row.device, bounded, row.quantity, precision, size, row.workload] = row
    agreeing: dict[tuple[Any, ...], list[Any]] = {}
    for (*place, _), row in last.items():
        agreeing.setdefault((*place, row.value), []).append(row)
    device_roofs = [
        _one(bounded, precision, size, rows) for (_, bounded, _, precision, size, _), rows in agreeing.items()
    ]
    return sorted(
        device_roofs,
        key=lambda r: (
            r.device,
            r.primitives,
            not r.is_peak,
            r.precision,
            r.footprint_bytes or 0,
            r.workloads,
        ),
    )


def _one(primitives: str, precision: str, size: int | None, rows: Sequence[Any]) -> DeviceRoof:
    name = _memory(size)
    if rows[0].quantity == PEAK:
        name = f"{PEAK} in {precision}" if precision else PEAK
    workloads = tuple(sorted({row.workload for row in rows} - {""}))
    rates = [number(row, name) for row in rows]
    rate = replace(rates[-1], rows=merge_rows(rates))
    return DeviceRoof(rows[0].device, workloads, primitives, name, size, rate, rows[-1].status, precision)


def _memory(size: int | None) -> str:
    if size is None:
        return "memory on the chip"
    scale, unit = next((scale, unit) for scale, unit in (*_BINARY, (1, "B")) if size >= scale)
    return f"copy within {size / scale:.4g} {unit}"


def points(frame: pd.DataFrame, device_roofs: Sequence[DeviceRoof]) -> Iterator[RooflinePoint]:
    """Yield the rate of each profiled primitive (a timed operation) with the upper limit of its device, its roof.

    Primitives whose operations and bytes are unknown are left out. If a device's memory beyond its caches was not
    measured, a primitive whose data does not fit into the caches has no roof.
    """
    missing = frame[(frame["suite"] == measured_roofs.SUITE) & (frame["status"] == "not_run")]
    caches_alone = set(missing[missing["quantity"] != PEAK]["device"])
    for suite in (Suite.PROFILE, Suite.PRECISION_PROFILE, simulated.SUITE):
        for row in records(select(frame, suite=suite, quantity="time_per_call")):
            precision = str(row.backend).partition("[")[2].rstrip("]")
            if suite == Suite.PRECISION_PROFILE and precision not in PRECISIONS:
                continue  # float32, which is profiled without it too, or fixed point, whose operations are others
            if (work := row.work) and row.value > 0:
                roofs = [r for r in device_roofs if _bounds(r, row)]
                yield _point(row, work, _of_precision(roofs, precision), row.device in caches_alone)


def _of_precision(roofs: Sequence[DeviceRoof], precision: str) -> list[DeviceRoof]:
    """Return the roofs of a precision: its own peak if the device has one, else that of float32, which emulates it."""
    own = any(roof.is_peak and roof.precision == precision for roof in roofs)
    wanted = precision if own else ""
    return [roof for roof in roofs if not roof.is_peak or roof.precision == wanted]


def _bounds(roof: DeviceRoof, row: Any) -> bool:
    if row.workload not in (roof.workloads or (row.workload,)) or row.device != roof.device:
        return False
    if row.primitive in simulated.BANKED.values():  # the peaks are those of one sub-tree
        return False
    if row.primitive == simulated.PIPELINE:  # its units differ from those of the other learner
        return roof.primitives == simulated.PIPELINE
    return str(row.primitive).startswith(roof.primitives)


def _point(row: Any, work: dict[str, int], roofs: Sequence[DeviceRoof], caches_alone: bool) -> RooflinePoint:
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
        share = scaled(ratio("share of the roof", achieved, roof), 100, "%")
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
    """Return an amount divided by a time; its provenance is that of the count, which is weaker than a clock's."""
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
    intensity: Number | None, memory: DeviceRoof | None, roofs: Sequence[DeviceRoof]
) -> tuple[Number | None, DeviceRoof | None]:
    """Return the lower of the peak and the memory's limit, and which one it is; None if unknown."""
    peak = next((roof for roof in roofs if roof.is_peak), None)
    if memory is None or (intensity and peak is None):
        return None, None
    if intensity is None:
        return memory.rate, memory
    assert peak is not None
    if memory.rate.value * intensity.value >= peak.rate.value:
        return peak.rate, peak
    rate, factor = memory.rate, intensity.value
    roof = replace(
        scaled(rate, factor, peak.rate.unit),
        quantity="roof",
        provenance=weakest(rate.provenance, intensity.provenance),
        source="bandwidth x intensity",
        rows=merge_rows([rate]),
    )
    return roof, memory


def serving(
    roofs: Iterable[DeviceRoof], footprint_bytes: int, caches_alone: bool = False
) -> DeviceRoof | None:
    """Return the memory from which data of a given size is read.

    It is the smallest measured memory that holds the data, or the largest one if none does.

    Args:
        caches_alone: whether the largest memory was not measured; the result is then None for data that fits no
            cache.
    """
    memories = sorted((r for r in roofs if not r.is_peak), key=lambda r: r.footprint_bytes or 0)
    return next(
        (r for r in memories if r.footprint_bytes is None or r.footprint_bytes >= footprint_bytes),
        memories[-1] if memories and not caches_alone else None,
    )
