"""Choose the fastest of several ways to compute something by measuring them once on each machine.

All ways give the same bits, so that a choice changes only how long something takes. The choice is stored in
`primitives.disk_cache` under a key of the processor, the name of the choice, and the native extension's contents. If
the cache cannot be read or written, every process measures again.
"""

import json
import platform
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

from placerl.primitives import disk_cache

_CPU_FIELDS = (
    *("vendor_id", "cpu family", "model", "model name", "stepping", "cache size"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision"),
)
"""Fields of `/proc/cpuinfo` on x86, and on Arm."""


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return a text that identifies this machine's processor: architecture, vendor, model and cache size.

    Args:
        cpuinfo: the file that describes the processors; the first one in it counts. If it cannot be read, the text
            comes from Python's module `platform`.
    """
    try:
        first = cpuinfo.read_text().split("\n\n")[0]
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    fields = (line.partition(":") for line in first.splitlines())
    named = {name.strip(): value.strip() for name, _, value in fields}
    return " ".join([platform.machine(), *(named.get(field, "") for field in _CPU_FIELDS)])


def measured_choice(
    kind: str, parts: Sequence[str], measure: Callable[[], Sequence[int]], allowed: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """Return the fastest choice as `measure` found it on this machine, in this call or in an earlier process.

    Args:
        kind: name of what is chosen, such as "blockings", and of its folder in the cache.
        parts: everything that the choice depends on besides the processor and the native extension.
        measure: returns the choice as integers; called only if the cache holds none.
        allowed: for each integer of the choice, its possible values. A cached choice with another value is ignored.
    """
    name = f"{kind}/{disk_cache.key(processor(), _extension_key(), *parts)}.json"
    if cached := _read(name, allowed):
        return cached
    measured = tuple(int(number) for number in measure())
    try:
        (disk_cache.folder() / name).unlink(missing_ok=True)  # what `_read` refused
        disk_cache.made(name, partial(_write, text=json.dumps(measured)))
    except (OSError, RuntimeError):  # not writable, or no home
        pass
    return measured


@cache
def _extension_key() -> str:
    from placerl.primitives import _native

    return disk_cache.key(Path(str(_native.__file__)).read_bytes().hex())


def _read(name: str, allowed: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return what the cache holds; empty if that is nothing, or not a choice."""
    try:
        choice = json.loads((disk_cache.folder() / name).read_bytes())
    except (OSError, RuntimeError, ValueError):  # no file, no home, no JSON
        return ()
    if not isinstance(choice, list) or len(choice) != len(allowed):
        return ()
    if not all(
        type(number) is int and number in values for number, values in zip(choice, allowed, strict=True)
    ):
        return ()
    return tuple(choice)


def _write(path: Path, text: str) -> None:
    path.write_text(text)
