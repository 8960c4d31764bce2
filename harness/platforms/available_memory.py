"""Decides how much memory a measurement may take, so that it never exhausts a small machine or container.

A measurement whose memory grows with the machine's caches or with a workload calls `measurement_bytes` first. If
that is too little, it measures less and its row states the size, or it is not run and its row states the reason.
"""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import psutil

from placerl.harness.core.errors import NotRunError
from placerl.harness.measure.control_groups import V1, ControlGroup, groups, lines
from placerl.primitives.interrupts import whole_imports

try:
    with whole_imports():
        import resource
except ModuleNotFoundError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

PROCESS_BYTES = 2_500_000_000
"""Largest resident memory, in bytes, that a process may reach by measuring, without the files that it maps."""
SHARE = 4
"""A measurement takes at most this fraction (one in 4) of the available memory."""


class NotEnoughMemory(NotRunError):
    """Raised if a measurement needs more memory than it may take here.

    The measurement's row is then stored with status "not_run" and with this message as the reason. The next run tries
    again, because more memory may be available then.
    """


def available_bytes(root: Path = Path("/")) -> int:
    """Return how many bytes this process can still take without swapping or being killed.

    This is the smallest of these numbers: the memory that the system reports as available (`MemAvailable`), the rest
    of the memory limit of this process's control group and of the groups that contain it (version 1 or 2), and the rest
    of the process's own limit of address space (`ulimit -v`). Cached files that the kernel can drop count as available.

    Args:
        root: folder that contains `proc` and the mount points of the control groups.
    """
    return max(0, min([psutil.virtual_memory().available, *_left_in_groups(root), *_left_of_addresses()]))


def measurement_bytes(root: Path = Path("/")) -> int:
    """Return how many more bytes one measurement may take in this process, 0 or more.

    This is a quarter of `available_bytes`, or what this process has left of `PROCESS_BYTES` if that is less. Resident
    pages of mapped files, such as CUDA's libraries, do not count.

    Args:
        root: folder that contains `proc` and the mount points of the control groups.
    """
    held = psutil.Process().memory_info()
    own_bytes = held.rss - getattr(held, "shared", 0)  # only Linux tells how much belongs to files
    return max(0, min(PROCESS_BYTES - own_bytes, available_bytes(root) // SHARE))


def refusal(needed_bytes: int, allowed_bytes: int) -> str:
    """Return the reason for not running a measurement, as text; empty if it may take the memory that it needs.

    Args:
        needed_bytes: memory that the measurement needs.
        allowed_bytes: memory that it may take, from `measurement_bytes`.
    """
    if needed_bytes <= allowed_bytes:
        return ""
    return (
        f"needs {needed_bytes / 1e9:.2f} GB of memory; allowed: {allowed_bytes / 1e9:.2f} GB (a quarter of what is "
        f"available, and at most {PROCESS_BYTES / 1e9:.1f} GB of its own in the whole process)"
    )


def require(needed_bytes: int) -> None:
    """Raise `NotEnoughMemory` unless a measurement may take `needed_bytes` here."""
    if reason := refusal(needed_bytes, measurement_bytes()):
        raise NotEnoughMemory(reason)


def release() -> None:
    """Return freed memory to the system.

    The C library would otherwise keep up to half a gigabyte of it for later.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # the GNU C library's alone
    if trim is not None:
        trim(0)


def _left_of_addresses() -> Iterator[int]:
    """Yield the bytes left of this process's limit of address space (`RLIMIT_AS`), if it has one."""
    if resource is None:
        return
    limit_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit_bytes != resource.RLIM_INFINITY:
        yield limit_bytes - psutil.Process().memory_info().vms


# Control groups


def _left_in_groups(root: Path) -> Iterator[int]:
    for group in groups("memory", root):
        if (left_bytes := _left(group)) is not None:
            yield left_bytes


def _left(group: ControlGroup) -> int | None:
    """Return the bytes left of a group's limit; None if it has none."""
    limits: tuple[str, ...] = ("memory.max", "memory.high")
    used, droppable = "memory.current", "inactive_file"
    if group.version == V1:
        limits = ("memory.limit_in_bytes",)
        used, droppable = "memory.usage_in_bytes", "total_inactive_file"
    stated = [_number(group.folder / name) for name in limits]
    stated_limits = [limit for limit in stated if limit is not None]
    used_bytes = _number(group.folder / used)
    if not stated_limits or used_bytes is None:
        return None
    counters = dict(line.split(" ", 1) for line in lines(group.folder / "memory.stat"))
    return min(stated_limits) - used_bytes + int(counters.get(droppable, 0))


def _number(file: Path) -> int | None:
    """Return the integer in a file; None if there is no such file, or it says "max"."""
    text = "".join(lines(file))
    return int(text) if text.isdigit() else None
