"""Refuses bundles that cannot be what a machine measured, and says why.

A bundle can still be invented with care: nothing in it proves that a machine exists. What is refused is what
contradicts itself, the card, this version's workloads, or arithmetic.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from placerl.harness import workloads
from placerl.harness.machines.bundle import Bundle, RunRow, workload_hash
from placerl.harness.machines.card import Card, Unit
from placerl.harness.machines.work_of import work_of
from placerl.harness.measure.statistics import FEWEST_SAMPLES

HIGHEST_HZ = 7e9
FLOPS_A_CYCLE = {"avx512": 64, "avx2": 32, "portable": 32}
"""Most float32 operations of a core in a cycle: two multiply-adds as wide as a vector (Arm's are as wide as AVX2's)."""
ROOF_SLACK = 0.85
"""A time counts as impossible below this share of the least time: the card's figures have errors, too."""
CALL_SLACK = 0.3
NEEDED = (
    *("interpreter", "call.native", "call.numpy", "call.torch", "noise.again"),
    *("multiply_add.float32", "multiply_add.float32.all", "copy.16KiB", "copy.256MiB"),
    *("latency.16KiB", "latency.256MiB"),
)
"""Figures without which a card says too little."""
_UNITS: tuple[tuple[str, Unit], ...] = (
    (r"(multiply_add|product)\..+|.+\.peak", "FLOP/s"),
    (r"copy\..+|.+\.(upload|download)", "B/s"),
    (r"interpreter|(call|latency|hand_over)\..+|.+\.launch", "s"),
    (r"environment\..+", "1/s"),
    (r"noise\.again", "1"),
)
"""Patterns of the names of figures, with the unit of each (`placerl.harness.machines.probes`)."""
_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_LATENCY = re.compile(rf"latency\.(\d+)({'|'.join(_BYTES)})")
LARGEST_NOISE = 1.5
"""Factor by which two copies of one probe may differ."""
_WHOLE_CALLS = ("sum_tree.", "storage.", "learner.step", "actor.infer", "environment.step")
_DIGITS = 5


def problems(bundle: Bundle) -> list[str]:
    """Return why a bundle is refused, a line for each reason; empty if it is accepted.

    Args:
        bundle: as `Bundle.read` returns it, so that version, hash and fields are right.
    """
    return [
        *_of_card(bundle.card),
        *_of_several(bundle.rows),
        *(line for number, row in enumerate(bundle.rows) for line in _of_row(number, row, bundle.card)),
    ]


def _of_card(card: Card) -> Iterator[str]:
    if card.hash != card.content_hash():
        yield f"card.hash: found {card.hash!r}; allowed: that of the card's content: it was edited"
    values = card.values()
    for name in NEEDED:
        if name not in values:
            yield f"card.figures: found no {name}; allowed: a card with it"
    most = HIGHEST_HZ * FLOPS_A_CYCLE.get(card.facts.simd_level, FLOPS_A_CYCLE["avx512"])
    if values.get("multiply_add.float32", 0.0) > most:
        found = f"{values['multiply_add.float32']:.3g} FLOP/s"
        yield f"card.figures.multiply_add.float32: found {found}; allowed: at most {most:.3g} with its vectors"
    for one in card.figures:
        unit = next((unit for pattern, unit in _UNITS if re.fullmatch(pattern, one.name)), one.unit)
        if one.unit != unit:
            yield f"card.figures.{one.name}: found the unit {one.unit}; allowed: {unit}"
    loads = {
        int(size[1]) * _BYTES[size[2]]: value
        for name, value in values.items()
        if (size := _LATENCY.fullmatch(name))
    }
    in_order = [loads[size] for size in sorted(loads)]  # a card may list them in any order
    if any(larger < 0.5 * smaller for smaller, larger in pairwise(in_order)):
        yield "card.figures.latency: found a larger footprint that is twice as fast; allowed: slower ones"
    if not 1 / LARGEST_NOISE <= values.get("noise.again", 1.0) <= LARGEST_NOISE:
        found = f"{values['noise.again']:.3g}"
        yield f"card.figures.noise.again: found {found}; allowed: at most {LARGEST_NOISE} times apart"


def _of_several(rows: tuple[RunRow, ...]) -> Iterator[str]:
    for key, count in Counter(row.key for row in rows).items():
        if count > 1:
            yield f"rows: found {count} of {', '.join(map(str, key))}; allowed: one"
    shapes: dict[tuple[float, ...], RunRow] = {}
    for row in rows:
        if len(row.samples) < FEWEST_SAMPLES:
            continue
        shape = tuple(round(one / row.samples[0], _DIGITS) for one in row.samples)
        other = shapes.setdefault(shape, row)
        if other is not row and not _same_part(other, row):
            found = f"the samples of {other.primitive} on {other.target} times a number"
            yield f"rows: {row.primitive} on {row.target}: found {found}; allowed: samples of its own"


def _same_part(one: RunRow, other: RunRow) -> bool:
    """Return whether two rows are one part of a call under two names, as a profile has them."""
    names = {row.primitive.rpartition(".")[2] for row in (one, other)}
    return one.key[:2] == other.key[:2] and len(names) == 1 and one.samples == other.samples


def _of_row(number: int, row: RunRow, card: Card) -> Iterator[str]:
    where = f"rows[{number}]: {row.primitive} on {row.target}"
    if row.workload not in workloads.names():
        yield f"{where}: workload: found {row.workload!r}; allowed: {', '.join(workloads.names())}"
        return
    if row.workload_hash != workload_hash(row.workload):
        yield f"{where}: workload_hash: found another workload under the name {row.workload!r}; allowed: this version's"
        return
    if not row.checked:
        yield f"{where}: checked: found false; allowed: times of outputs that were checked"
    if min(row.samples) <= 0:
        yield f"{where}: samples: found {min(row.samples):.3g} s; allowed: more than 0"
        return
    if abs(median(row.samples) / row.time_s - 1) > 1e-3:
        found = f"{row.time_s:.4g} s next to samples with a median of {median(row.samples):.4g} s"
        yield f"{where}: time_s: found {found}; allowed: the samples' median"
    if row.low_s is not None and row.high_s is not None and not row.low_s <= row.time_s <= row.high_s:
        yield f"{where}: low_s, high_s: found an interval without the time; allowed: one around it"
    least_s, of = least_time_s(row, card)
    if row.time_s < least_s:
        yield f"{where}: time_s: found {row.time_s:.3g} s; allowed: at least {least_s:.3g} s, by the card's {of}"


def least_time_s(row: RunRow, card: Card) -> tuple[float, str]:
    """Return the least seconds that a call can take by the card's figures, and the name of the figure that says so."""
    values, bounds = card.values(), [(0.0, "")]
    if row.primitive.startswith(_WHOLE_CALLS) and "call.native" in values:
        bounds.append((CALL_SLACK * values["call.native"], "call.native"))
    work = work_of(row.workload, row.batch_size, row.primitive)
    if work is not None:
        on_cpu = row.device == "cpu"
        peak = "multiply_add.float32" if on_cpu else f"{row.device.partition(':')[0]}.peak"
        if row.device.startswith("opencl"):  # which may be this processor, with all of its cores
            peak = max(("multiply_add.float32.all", peak), key=lambda name: values.get(name, 0.0))
        if peak in values:
            bounds.append((ROOF_SLACK * work.flops / values[peak], peak))
        if on_cpu and "copy.16KiB" in values:
            bounds.append((ROOF_SLACK * work.traffic_bytes / values["copy.16KiB"], "copy.16KiB"))
    return max(bounds)
