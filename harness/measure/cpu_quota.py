"""Reads the CPU quota of this process: how many cores' time its control groups allow it, such as those of a container.

A group with a quota of 0.5 cores may use 50 ms of processor time in each period of 100 ms; then all of its threads are
stopped until the next period. Neither the affinity of a process nor the number of cores shows this. A set of cores
(`cpuset`) is no quota: the kernel keeps the affinity of each thread within it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from placerl.harness.measure.control_groups import V2, ControlGroup, groups, lines

_PERIOD_US = 100_000
"""The kernel's period, where a group states none."""
_NUMBER = re.compile("[1-9][0-9]{0,17}")


@dataclass(frozen=True)
class CpuQuota:
    """The CPU quota of this process.

    Attributes:
        cores: the smallest quota of the groups that contain this process, in cores, > 0; None if there is none.
        file: the file that states it; empty if there is none.
        unreadable: a line for each file of a quota whose content cannot be understood.
    """

    cores: float | None = None
    file: str = ""
    unreadable: tuple[str, ...] = ()

    def whole_cores(self, usable: int) -> int:
        """Return how many cores threads can use at the same time without being stopped by the quota, at least 1.

        Args:
            usable: number of cores on which this process may run.
        """
        return usable if self.cores is None else max(1, min(usable, int(self.cores)))

    @property
    def share(self) -> float:
        """Return the share of one core's time that a thread gets, at most 1."""
        return 1.0 if self.cores is None else min(1.0, self.cores)

    def warning(self, usable: int) -> str:
        """Return a line that says what the quota means for predictions; empty if it takes away nothing."""
        if self.cores is None or self.cores >= usable:
            return ""
        meant = f"are multiplied by {self.share:g}" if self.share < 1 else "assume whole cores"
        return f"machine: found a quota of {self.cores:g} cores ({self.file}); predictions {meant}"


def cpu_quota(root: Path | None = None) -> CpuQuota:
    """Return the CPU quota of this process."""
    limits: list[tuple[float, str]] = []
    unreadable = []
    for group in groups("cpu", root):
        for file, text, period in _stated(group):
            try:
                cores = _cores(text, period)
            except ValueError:
                unreadable.append(f"{file}: found {text!r} in a period of {period!r}; allowed: microseconds")
                continue
            if cores is not None:
                limits.append((cores, str(file)))
    if not limits:
        return CpuQuota(unreadable=tuple(unreadable))
    smallest, stated_in = min(limits)
    return CpuQuota(smallest, stated_in, tuple(unreadable))


def _stated(group: ControlGroup) -> Iterator[tuple[Path, str, str]]:
    """Yield the file of a group's quota, and quota and period as text; nothing if the group has no such file."""
    if group.version == V2:
        file = group.folder / "cpu.max"
        for line in lines(file)[:1]:
            quota, _, period = line.partition(" ")
            yield file, quota, period or str(_PERIOD_US)
        return
    file = group.folder / "cpu.cfs_quota_us"
    for line in lines(file)[:1]:
        yield file, line, next(iter(lines(group.folder / "cpu.cfs_period_us")), str(_PERIOD_US))


def _cores(quota: str, period: str) -> float | None:
    """Return a quota in cores; None if it is unlimited.

    Raises:
        ValueError: it is neither unlimited nor a positive number of microseconds in a positive period.
    """
    if quota in ("max", "-1"):
        return None
    if not _NUMBER.fullmatch(quota) or not _NUMBER.fullmatch(period):
        raise ValueError
    return int(quota) / int(period)
