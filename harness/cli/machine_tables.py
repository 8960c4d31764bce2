"""Prints the description of a machine as tables."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from placerl.harness.measure.noise import QUIET, Noise
from placerl.harness.platforms.machine import Machine


def show(machine: Machine, console: Console) -> None:
    """Print the description of a machine as tables on a console; used by `placerl doctor`."""
    cpu = machine.cpu
    facts = Table(title="Machine", show_header=False)
    facts.add_row("processor", cpu.model)
    facts.add_row(
        "cores", f"{cpu.usable_cores} usable of {cpu.logical_cores} ({cpu.physical_cores} physical)"
    )
    if cpu.quota_cores is not None:
        facts.add_row("CPU quota", f"{cpu.quota_cores:g} cores ({cpu.quota_file})")
    facts.add_row("SIMD level", cpu.simd_level)
    for cache in cpu.caches:
        shared = f"shared by {cache.shared_by_cores}" if cache.shared_by_cores > 1 else "per core"
        facts.add_row(
            f"L{cache.level} {cache.kind}",
            f"{_size(cache.size_bytes)}, {shared}, lines of {cache.line_bytes} B",
        )
    facts.add_row("memory", _size(cpu.memory_bytes))
    facts.add_row("system", machine.system)
    facts.add_row("fingerprint", machine.fingerprint)
    if machine.noise is not None:
        facts.add_row("noise", _noise(machine.noise))
    console.print(facts)
    _show_rows(
        console,
        "Devices",
        ("device", "name", "memory", "usable"),
        [("cpu", cpu.model, _size(cpu.memory_bytes), "yes")]
        + [(a.device, a.name, _size(a.memory_bytes), _yes(a.usable, a.reason)) for a in machine.accelerators],
    )
    _show_rows(
        console,
        "Backends",
        ("primitive", "backend", "available"),
        [(b.primitive, b.name, _yes(b.available, b.reason)) for b in machine.backends],
    )
    _show_rows(
        console,
        "Links (measured)",
        ("from", "to", "GB/s"),
        [(link.source, link.target, f"{link.bytes_per_s / 1e9:.1f}") for link in machine.links],
    )
    _show_rows(
        console, "Power", ("meter", "readable"), [(m.name, _yes(m.readable, m.reason)) for m in machine.power]
    )
    for problem in machine.problems:
        console.print(f"could not look: {problem}", markup=False)


def _yes(value: bool, reason: str) -> str:
    return "yes" if value else f"no: {reason}"


def _show_rows(console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(title=title)
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*map(Text, row))  # Rich would read `placerl[gpu]` as a style
    console.print(table)


def _size(size_bytes: int | None) -> str:
    if size_bytes is None:
        return ""
    gibibytes = size_bytes / 2**30
    return f"{gibibytes:.1f} GiB" if gibibytes >= 1 else f"{size_bytes / 2**10:,.0f} KiB"


def _noise(noise: Noise) -> str:
    others = "" if noise.busy_cores is None else f"; others keep {noise.busy_cores:.1f} cores busy"
    state = "quiet" if noise.is_quiet else "not quiet"
    return f"score {noise.score:.2f}: {state} (quiet is below {QUIET:g}){others}"
