"""Sets and describes the conditions of a measurement: pinned cores, numbers of threads, other load, and versions."""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from typing import Any

from threadpoolctl import threadpool_info, threadpool_limits

from placerl.harness.measure.cpu_quota import cpu_quota
from placerl.harness.measure.noise import last_noise

_PACKAGES = ("placerl", "numpy", "scipy", "torch", "gymnasium", "mujoco", "pyopencl", "cupy-cuda13x")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def usable_cores() -> list[int]:
    """Return the numbers of the cores that the calling thread may run on, ascending.

    Cores that the machine has but this process is kept from, as by `taskset` or a container's CPU set, do not count.
    If a quota (`harness.measure.cpu_quota`) allows fewer cores at the same time, only the first of them are returned,
    at least one: threads on more cores would be stopped together whenever the quota is spent.
    """
    cores = sorted(os.sched_getaffinity(0))
    return cores[: cpu_quota().whole_cores(len(cores))]


def _thread_ids() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/task")}


def quota_warning() -> str:
    """Return a line that says what this process's CPU quota means for predictions; empty if it takes away nothing."""
    return cpu_quota().warning(len(os.sched_getaffinity(0)))


@contextmanager
def pinned(cores: Iterable[int] | None) -> Iterator[None]:
    """Pin every thread of this process to the given cores for the duration of the block.

    Args:
        cores: numbers of cores that this process may use; None changes nothing.

    Raises:
        ValueError: `cores` is empty, or holds a core that this process may not use.
    """
    if cores is None:
        yield
        return
    wanted, usable = set(cores), os.sched_getaffinity(0)
    if not wanted or not wanted <= usable:
        raise ValueError(f"cores: found {sorted(wanted)}; allowed: some of {sorted(usable)}")
    before = {}
    for thread in _thread_ids():
        with suppress(ProcessLookupError):  # a thread may end meanwhile
            before[thread] = os.sched_getaffinity(thread)
            os.sched_setaffinity(thread, wanted)
    try:
        yield
    finally:
        for thread in _thread_ids():  # threads started meanwhile inherited the pinning
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, before.get(thread, usable))


@contextmanager
def caller_pinned(core: int | None) -> Iterator[None]:
    """Pin the calling thread alone to one core for the duration of the block.

    Threads that libraries started before keep their cores; threads started during the block inherit the pinning.

    Args:
        core: a core that the thread may use; None changes nothing.

    Raises:
        ValueError: a core that the thread may not use.
    """
    if core is None:
        yield
        return
    usable = os.sched_getaffinity(0)
    if core not in usable:
        raise ValueError(f"core: found {core}; allowed: one of {sorted(usable)}")
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


def default_core() -> int | None:
    """Return the core to which measurements pin their thread: the last one, or None if there is only one."""
    usable = usable_cores()
    return usable[-1] if len(usable) > 1 else None


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Set PyTorch's number of threads for the duration of the block.

    Args:
        threads: 1 or more; None changes nothing, and does not load PyTorch.
    """
    if threads is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def blas_threads() -> int | None:
    """Return the maximum threads of NumPy's matrix products; None if NumPy uses no known library for them."""
    counts = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max(counts, default=None)


def set_blas_threads(threads: int) -> None:
    """Set the number of threads of NumPy's matrix products.

    The library starts one thread per core. If the process may use only one core, they wait for each other's time
    slices, and a product of microseconds takes milliseconds.
    """
    threadpool_limits(threads, user_api="blas")


def versions() -> dict[str, str]:
    """Return the versions, by name, of Python and of the installed packages that affect measurements."""
    return dict(_versions())


@cache  # each row of a measurement has them, and packages' files are searched for them
def _versions() -> dict[str, str]:
    by_package = {"python": sys.version.split()[0]}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            by_package[package] = metadata.version(package)
    return by_package


def shared_conditions() -> dict[str, Any]:
    """Return what else limits or uses the cores of this process, as JSON, under the same names as `conditions`.

    Returns:
        `quota_cores` of its control groups (None if there is none), and `noise` (`harness.measure.noise`) as this
        process measured it last, such as at the start of a command (None if it did not).
    """
    noise = last_noise()
    return {"quota_cores": cpu_quota().cores, "noise": noise.to_json() if noise else None}


def conditions() -> dict[str, Any]:
    """Return the conditions that may affect a measurement made now, as JSON.

    Returns:
        `cores` this process may use, `torch_threads` (None if PyTorch is not loaded), `blas_threads` (None if NumPy's
        library does not report it), `thread_variables` of the environment, `load_average` over 1, 5 and 15 minutes,
        `time` (UTC), `versions`, and all of `shared_conditions`.
    """
    torch = sys.modules.get("torch")
    return {
        "cores": usable_cores(),
        "torch_threads": torch.get_num_threads() if torch else None,
        "blas_threads": blas_threads(),
        "thread_variables": {name: os.environ[name] for name in _THREAD_VARIABLES if name in os.environ},
        "load_average": list(os.getloadavg()),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": versions(),
        **shared_conditions(),
    }
