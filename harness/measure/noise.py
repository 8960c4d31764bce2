"""Measures how quiet the machine is: whether something else uses the cores on which measurements are about to run.

A fixed loop of about 5 us runs for 0.3 s in all, on each usable core in turn, and the kernel's counters say how much
processor time everything but this process takes meanwhile. The noise score is the larger of two numbers: the mean time
of the loop on the worst core, in multiples of its time at full speed (its 10% quantile), and 1 + the share of the
usable cores that others keep busy. A score of 2 means that the same work may take twice as long.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from placerl.harness.measure.pace import FULL_QUANTILE, kernel

QUIET = 1.05
"""Noise score below which a machine counts as quiet: then noise moves no time by more than about 5%."""
SECONDS = 0.3
_LEAD_IN = 0.2
"""Fraction of the loop's runs on a core that do not count, since the core may have to leave a low clock frequency."""
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
Clock = Callable[[], float]


@dataclass(frozen=True)
class Noise:
    """The noise of a machine.

    Attributes:
        score: how many times as long as on a quiet machine the same work may take, 1 or more; `QUIET` is the limit.
        loop_mean, loop_median, loop_p90: mean, median and 90% quantile of the fixed loop's time on the worst core, in
            multiples of its time at full speed.
        busy_cores: usable cores that anything but this process kept busy, on average, with the stolen ones; None if the
            system does not report it.
        stolen_cores: usable cores that a hypervisor gave to others, on average; None if it is not reported.
        load_average: threads that ran or waited, on average over the last minute.
        pressure_percent: share of the last 10 seconds in which some thread waited for a core; None if not reported.
    """

    score: float
    loop_mean: float
    loop_median: float
    loop_p90: float
    busy_cores: float | None
    stolen_cores: float | None
    load_average: float
    pressure_percent: float | None

    @property
    def is_quiet(self) -> bool:
        """Whether the noise score is below the limit, `QUIET`."""
        return self.score < QUIET

    def warning(self) -> str:
        """Return a line that says how busy the machine is; empty if it is quiet."""
        if self.is_quiet:
            return ""
        known = self.busy_cores is not None
        load = f"a load of {self.busy_cores:.1f} busy cores next to this process, " if known else ""
        return f"machine: found {load}noise score {self.score:.2f}; quiet is below {QUIET:g}: numbers will be off"

    def to_json(self) -> dict[str, Any]:
        """Return the noise as a dict of its attributes."""
        return asdict(self)


class BusyTime(NamedTuple):
    """Processor time since the system started, summed over some cores.

    Attributes:
        busy_s: seconds in which the cores ran anything, or a hypervisor's other guests.
        stolen_s: those of the other guests.
    """

    busy_s: float
    stolen_s: float


_last: Noise | None = None


def last_noise() -> Noise | None:
    """Return the noise that this process measured last; None if it measured none."""
    return _last


def measure_noise(cores: Sequence[int], root: Path = Path("/")) -> Noise:
    """Measure how quiet the machine is, in about 0.3 s; the threads of this process should be idle meanwhile.

    Args:
        cores: numbers of the cores to look at, at least one, on which this process may run.
        root: folder that contains `proc`.
    """
    global _last
    before, start_s, own_s = busy_time(cores, root), time.perf_counter(), time.process_time()
    loops = [loop_times(core, SECONDS / len(cores)) for core in cores]
    after, end_s = busy_time(cores, root), time.perf_counter()
    own_s = time.process_time() - own_s
    _last = noise_of(
        loops,
        BusyTime(after.busy_s - before.busy_s, after.stolen_s - before.stolen_s)
        if before and after
        else None,
        took_s=end_s - start_s,
        own_s=own_s,
        load_average=os.getloadavg()[0],
        pressure_percent=pressure_percent(root),
    )
    return _last


def noise_of(
    loops: Sequence[npt.NDArray[np.float64]],
    busy: BusyTime | None,
    *,
    took_s: float,
    own_s: float,
    load_average: float,
    pressure_percent: float | None,
) -> Noise:
    """Compute the noise of a machine from readings.

    Args:
        loops: seconds of each run of the fixed loop, for each core, at least one.
        busy: processor time of all cores during the readings; None if unknown.
        load_average, pressure_percent: as `Noise` has them.
    """
    mean, median, p90 = max(map(_in_multiples, loops))
    busy_cores = stolen_cores = None
    if busy is not None:
        # The kernel counts in ticks, so that up to two of them may be counted for the wrong process.
        busy_cores = max(0.0, busy.busy_s - own_s - 2 * _TICK_S) / took_s
        stolen_cores = busy.stolen_s / took_s
    score = max(mean, 1 + (busy_cores or 0.0) / len(loops))
    return Noise(score, mean, median, p90, busy_cores, stolen_cores, load_average, pressure_percent)


def _in_multiples(times_s: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """Return mean, median and 90% quantile in multiples of the time at full speed; the mean is 1 or more."""
    warm_s = times_s[int(_LEAD_IN * len(times_s)) :]
    full_s = float(np.quantile(warm_s, FULL_QUANTILE))
    mean, median, p90 = (
        float(time_s) / full_s for time_s in (warm_s.mean(), *np.quantile(warm_s, (0.5, 0.9)))
    )
    return max(1.0, mean), median, p90


def loop_times(
    core: int, seconds: float, clock: Clock = time.perf_counter, work: Callable[[], object] = kernel
) -> npt.NDArray[np.float64]:
    """Run the fixed loop on a core, and return the seconds of each run, without gaps between them.

    Args:
        core: number of the core; where the system permits no pinning, the loop runs on any.
    """
    usable = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(0, {core})
    try:
        stamps_s = [clock()]
        while stamps_s[-1] - stamps_s[0] < seconds:
            work()
            stamps_s.append(clock())
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, usable)
    return np.diff(stamps_s)


def busy_time(cores: Sequence[int], root: Path = Path("/")) -> BusyTime | None:
    """Return the processor time that some cores have spent so far; None if the system does not report it."""
    wanted, counts = {f"cpu{core}" for core in cores}, []
    try:
        for line in (root / "proc/stat").read_text().splitlines():
            name, *ticks = line.split()
            if name in wanted:
                user, nice, system, _idle, _wait, irq, softirq, stolen = map(int, ticks[:8])
                counts.append((user + nice + system + irq + softirq + stolen, stolen))
    except (OSError, ValueError):
        return None
    if len(counts) < len(wanted):
        return None
    busy, stolen = (sum(ticks) * _TICK_S for ticks in zip(*counts, strict=True))
    return BusyTime(busy, stolen)


def pressure_percent(root: Path = Path("/")) -> float | None:
    """Return the share of the last 10 seconds in which some thread waited for a core, in percent; None if unknown."""
    try:
        first, *_ = (root / "proc/pressure/cpu").read_text().splitlines()
        facts = dict(word.split("=") for word in first.split()[1:])
        return float(facts["avg10"])
    except (OSError, ValueError, KeyError):
        return None
