"""The conditions of a measurement: where it was pinned, how many threads, what else ran, which versions."""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from typing import Any

from threadpoolctl import threadpool_info, threadpool_limits

_PACKAGES = ("placerl", "numpy", "scipy", "torch", "gymnasium", "mujoco", "pyopencl", "cupy-cuda13x")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def _thread_ids() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/task")}


@contextmanager
def pinned(cores: Iterable[int] | None) -> Iterator[None]:
    """Keeps every thread of this process on some cores for as long as it lasts, then puts each back.

    Args:
        cores: numbers of cores that this process may use now; None changes nothing.

    Raises:
        ValueError: no core is given, or one that this process may not use.
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
        for thread in _thread_ids():  # those that began meanwhile inherited the pinning
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, before.get(thread, usable))


@contextmanager
def caller_pinned(core: int | None) -> Iterator[None]:
    """Keeps the calling thread, and no other, on one core for as long as it lasts.

    Threads of libraries that were there before keep the cores that they had; those that begin meanwhile are
    pinned with their caller.

    Args:
        core: one that the thread may use now; None changes nothing.

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
    """Where measurements pin their thread: the last core, or nowhere where there is only one."""
    usable = os.sched_getaffinity(0)
    return max(usable) if len(usable) > 1 else None


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Lets PyTorch compute with so many threads for as long as it lasts.

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
    """Return how many threads NumPy's matrix products may use at most; None where no known library computes them."""
    counts = [found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"]
    return max(counts, default=None)


def set_blas_threads(threads: int) -> None:
    """Let NumPy's matrix products use so many threads from now on.

    Its library starts a thread for every core. Where the process may use one core alone they wait for one another's
    time slice, and a product of microseconds takes milliseconds.

    Args:
        threads: 1 or more.
    """
    threadpool_limits(threads, user_api="blas")


def versions() -> dict[str, str]:
    """Versions of Python and of those packages that measurements depend on, where they are installed."""
    found = {"python": sys.version.split()[0]}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def conditions() -> dict[str, Any]:
    """What may bear on a measurement made now, as JSON.

    Returns:
        `cores` this process may use, `torch_threads` (None while PyTorch is not loaded), `blas_threads` (None where
        NumPy's library cannot be asked), `thread_variables` of the environment, `load_average` over 1, 5 and 15
        minutes, `time` (UTC) and `versions`.
    """
    torch = sys.modules.get("torch")
    return {
        "cores": sorted(os.sched_getaffinity(0)),
        "torch_threads": torch.get_num_threads() if torch else None,
        "blas_threads": blas_threads(),
        "thread_variables": {name: os.environ[name] for name in _THREAD_VARIABLES if name in os.environ},
        "load_average": list(os.getloadavg()),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": versions(),
    }
