"""Computes what the report shows about the machine: its description, its noise, and the memory of runs."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.measure.timed_case import NOISE_LIMIT, PART_LIMIT
from placerl.harness.papers.evidence import number, records, select
from placerl.harness.papers.number import Number, format_value
from placerl.harness.report.rows.runs import Fact, NoisyRows
from placerl.harness.store import peak_memory
from placerl.harness.store.store import RunRecord

LARGEST_CELLS = 5
"""How many cells, those with the largest peaks of memory, are shown."""
_NAMES = (("primitive", "name"), ("kind", "level"), ("kind", "device"), ("source", "target"), ("name",))
"""Fields that name a device, a cache, a link or another small table of a machine's description."""
UNITS = {"_bytes_per_s": (1e9, "GB/s"), "_mhz": (1.0, "MHz"), "_bytes": (0.0, "")}


def readable(name: str, value: Any) -> tuple[str, str]:
    """Return the name and the value of a fact about the machine as text for readers.

    Returns:
        The name without the suffix of its unit, and the value in a readable unit, such as "16 GiB".
    """
    if isinstance(value, bool):
        return name.replace("_", " "), "yes" if value else "no"
    if isinstance(value, list):
        return name.replace("_", " "), ", ".join(map(str, value)) or "none"
    for suffix, (scale, unit) in UNITS.items():
        if isinstance(value, int | float) and f"_{name}".endswith(suffix):
            if not scale:
                power = max(p for p in range(4) if p == 0 or value >= 1024**p)
                scale, unit = 1024.0**power, ("B", "KiB", "MiB", "GiB")[power]
            label = f"_{name}".removesuffix(suffix).strip("_") or "speed"
            return label.replace("_", " "), f"{format_value(value / scale)} {unit}"
    text = format_value(value) if isinstance(value, int | float) else str(value)
    return name.replace("_", " "), text


def facts(machine: Mapping[str, Any], group: str = "machine") -> Iterator[Fact]:
    """Yield the description of a machine as facts for the page.

    A nested table becomes a group of facts, and each table in a list becomes one fact.
    """
    for name, value in machine.items():
        place = f"{group}, {name}" if group != "machine" else str(name)
        if isinstance(value, Mapping):
            yield from facts(value, place)
        elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            for item in value:
                yield _one_fact(place, item)
        elif value not in (None, "", []):
            yield Fact(group, *readable(str(name), value))


def in_a_line(machine: Mapping[str, Any]) -> str:
    """Return a machine's processor, its cores, its memory and the accelerators as text."""
    by_name = {(fact.group, fact.name): fact.value for fact in facts(machine)}
    cores = by_name.get(("cpu", "usable cores")) or by_name.get(("cpu", "cores"))
    listed = [each for each in machine.get("accelerators", []) if each.get("usable")]
    processor = by_name.get(("cpu", "model"), "–")
    accelerators = [_accelerator(each, processor) for each in listed]
    parts = [
        processor,
        f"{cores} cores" if cores else "",
        by_name.get(("cpu", "memory"), ""),
        f"accelerators: {', '.join(accelerators) or 'none'}",
    ]
    return ", ".join(filter(None, parts))


def letters(runs: Iterable[RunRecord]) -> dict[str, str]:
    """Return a letter for each machine by its fingerprint, the machine of the last run first; A1, B1, ... follow Z."""
    newest = sorted(runs, key=lambda run: run.started_at, reverse=True)
    machines = dict.fromkeys(run.fingerprint for run in newest)
    return {machine: _letter(*divmod(place, 26)) for place, machine in enumerate(machines)}


def _letter(turn: int, place: int) -> str:
    return f"{chr(ord('A') + place)}{turn or ''}"


def device_name(machine: Mapping[str, Any], kind: str) -> str:
    """Return the name of a machine's processor ("cpu"), or of its first accelerator of a kind; empty if unknown."""
    if kind == "cpu":
        return str(machine.get("cpu", {}).get("model", ""))
    names = [each.get("name", "") for each in machine.get("accelerators", []) if each.get("kind") == kind]
    return str(names[0]) if names else ""


def _accelerator(described: Mapping[str, Any], processor: str) -> str:
    """Return a device's name and its name in mappings; OpenCL also lists the processor, under its own name."""
    name, kind = described.get("name"), described.get("kind")
    shown = "OpenCL on the CPU" if (kind, name) == ("opencl", processor) else name
    return f"{shown} ({described.get('device')})"


def _one_fact(group: str, item: Mapping[str, Any]) -> Fact:
    """Return a small table as one fact: the values of the first of `_NAMES` name it, the others form its value."""
    names = next((names for names in _NAMES if set(names) <= set(item)), tuple(item)[:1])
    others = [(name, value) for name, value in item.items() if name not in names]
    words = [": ".join(readable(name, value)) for name, value in others if value not in (None, "", [])]
    return Fact(group, " ".join(str(item[name]) for name in names), "; ".join(words) or "yes")


def noise(frame: pd.DataFrame) -> Iterator[Number]:
    """Yield numbers that describe the noise of the machine during a run.

    They say how many profiled times there are, how many of these are too noisy and how wide their intervals are, and
    give for each comparison the ratio of two timings of this project in the same rounds (the A/A null).
    """
    timed = _timed(frame)
    if len(timed):
        widths = 100 * ((timed["high"] - timed["low"]) / timed["value"]).dropna()
        rows = tuple(map(int, timed.index))
        measured = Provenance.MEASURED
        yield Number("profiled times", len(timed), "count", measured, rows=rows)
        noisy = int((timed["status"] == "too_noisy").sum())
        yield Number("of them too noisy for a verdict", noisy, "count", measured, rows=rows)
        if len(widths):
            yield Number("median width of their 95% intervals", widths.median(), "%", measured, rows=rows)
        wide = timed["high"] - timed["low"] > NOISE_LIMIT * timed["value"]
        if len(parts := timed[wide & (timed["status"] == "ok")]):
            of_all = f"at most {PART_LIMIT:.0%} of the whole round"
            what = f"interval wider than {NOISE_LIMIT:.0%}, but {of_all}, so not noisy"
            yield Number(what, len(parts), "count", measured, rows=tuple(map(int, parts.index)))
    for row in records(select(frame, suite=Suite.COMPARE, quantity="null_ratio")):
        yield number(row, f"A/A null, {row.workload} compared with {row.baseline}")


def _timed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the primitive tables that hold a measured time."""
    provenance = str(Provenance.MEASURED)
    return select(frame, suite=Suite.PROFILE, quantity="time_per_call", provenance=provenance)


def core_speed(frame: pd.DataFrame) -> Iterator[Number]:
    """Yield numbers that say how much of the timed work ran at full core speed.

    They are: how many measurements have a known speed; how many of these ran slower in part, so that their times were
    converted to full speed; and the share of work at full speed in the median, the lowest and the highest
    measurement. Nothing is yielded if no measurement states the speed.
    """
    stated = [(row, row.timed.pace) for row in records(_timed(frame))]
    paces = [(row, pace) for row, pace in stated if isinstance(pace, Mapping)]  # a store may hold anything
    known = [(row, pace) for row, pace in paces if isinstance(pace.get("full_speed_share"), int | float)]
    if known:
        percent = pd.Series([100 * float(pace["full_speed_share"]) for _, pace in known])
        moved = sum(float(pace["full_speed_share"]) < 1 for _, pace in known)
        rows, measured = tuple(int(row.Index) for row, _ in known), Provenance.MEASURED
        yield Number("timed rows whose core speed was read", len(known), "count", measured, rows=rows)
        yield Number(
            "of them partly run below full speed, and converted to it", moved, "count", measured, rows=rows
        )
        yield Number("pieces at full speed, median row", percent.median(), "%", measured, rows=rows)
        yield Number("pieces at full speed, lowest row", percent.min(), "%", measured, rows=rows)
        yield Number("pieces at full speed, highest row", percent.max(), "%", measured, rows=rows)


def noisy_rows(frame: pd.DataFrame) -> Iterator[NoisyRows]:
    """Yield how many time measurements of each kind are too noisy for a verdict, and then how many of all kinds.

    The kind is the first part of the name of the timed operation, such as "learner" of "learner.step". Nothing is
    yielded if nothing was timed.
    """
    timed = _timed(frame)
    if len(timed):
        for kind, some in timed.groupby(timed["primitive"].str.split(".").str[0]):
            yield _noisy_rows(str(kind), some)
        yield _noisy_rows("all", timed)


def _noisy_rows(kind: str, timed: pd.DataFrame) -> NoisyRows:
    rows, measured = tuple(map(int, timed.index)), Provenance.MEASURED
    noisy = int((timed["status"] == "too_noisy").sum())
    return NoisyRows(
        kind,
        Number("timed rows", len(timed), "count", measured, rows=rows),
        Number("too noisy", noisy, "count", measured, rows=rows),
        Number("share too noisy", 100 * noisy / len(timed), "%", measured, rows=rows, digits=2),
    )


def memory(frame: pd.DataFrame) -> Iterator[Number]:
    """Yield the peak memory of each run, of its main and of its largest process, and of the cells with the largest."""
    rows = select(frame, suite=peak_memory.SUITE, quantity=peak_memory.QUANTITY)
    of_cells = rows["of_cell"].notna()
    for (_, tier, process), some in rows[~of_cells].groupby(["run", "tier", "primitive"], sort=False):
        (highest,) = records(some.nlargest(1, "value"))
        yield number(highest, f"{process}, {tier} run")
    largest = rows[of_cells & (rows["primitive"] == peak_memory.LARGEST)]
    for row in records(largest.nlargest(LARGEST_CELLS, "value")):
        yield number(row, f"largest process in {row.of_cell}, {row.tier} run")
