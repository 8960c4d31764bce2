"""A stand-in for CuPy: its arrays are NumPy's, and a kernel's CUDA C++ is built as C++, one thread after the other.

Kernels with barriers are not run: that needs threads. `cuda.Stream` captures graphs.
"""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from placerl.primitives.device.base import kernel_names

_BEFORE = """
#include <cstddef>
#include <utility>
using std::size_t;
struct Dimension { long long x, y, z; };
static Dimension blockIdx, blockDim, threadIdx;
#define __CUDACC__
#define __global__
#define __device__
#define __forceinline__ inline
template <class T> static T atomicExch(T *p, T v) { return std::exchange(*p, v); }
template <class T> static T atomicAdd(T *p, T v) { return std::exchange(*p, *p + v); }
template <class T> static T atomicMax(T *p, T v) { return std::exchange(*p, *p < v ? v : *p); }
"""
_AFTER = """
template <class... A, size_t... I>
static void call(void (*kernel)(A...), void **arguments, std::index_sequence<I...>) {
    kernel(*static_cast<A *>(arguments[I])...);
}
template <class... A>
static void run(void (*kernel)(A...), void **arguments) {
    call(kernel, arguments, std::index_sequence_for<A...>());
}
extern "C" void launch(int number, long long blocks, long long threads, void **arguments) {
    blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x)
            switch (number) { CASES }
}
"""
_FLAGS = (
    "-std=c++17",
    "-O1",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-function",
    "-fno-strict-aliasing",
    "-shared",
    "-fPIC",
)
_captured: list[Callable[[], object]] | None = None


def _do(operation: Callable[[], object]) -> None:
    if _captured is None:
        operation()
    else:
        _captured.append(operation)


@cache
def _library(code: str) -> ctypes.CDLL:
    compiler = shutil.which("c++") or shutil.which("g++")
    assert compiler, "no C++ compiler"
    names = kernel_names(code)
    assert not any(names.values()), "a kernel with barriers"
    cases = " ".join(f"case {number}: run({name}, arguments); break;" for number, name in enumerate(names))
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "kernel.cpp"), Path(folder, "kernel.so")
        source.write_text(f"{_BEFORE}{code}{_AFTER.replace('CASES', cases)}")
        subprocess.run([compiler, *_FLAGS, "-o", library, source], check=True)
        return ctypes.CDLL(str(library))


class Array(np.ndarray):
    """An array with CuPy's way to fill it from the host."""

    def set(self, values: np.ndarray) -> None:
        assert _captured is None, "a copy from the host in a graph"
        np.copyto(self, values)

    def fill(self, value: Any) -> None:
        _do(partial(super().fill, value))

    def __setitem__(self, key: Any, value: Any) -> None:
        _do(partial(super().__setitem__, key, value))


class Event:
    """A point of which the work before it is done."""

    def __init__(self, disable_timing: bool) -> None: ...

    def synchronize(self) -> None: ...


class Graph:
    """What a stream captured."""

    def __init__(self, operations: list[Callable[[], object]]) -> None:
        self._operations = operations

    def launch(self) -> None:
        for operation in self._operations:
            operation()


class Stream:
    """Work is done when a call returns."""

    def __init__(self, address: int = 0, non_blocking: bool = False) -> None:
        self.address = address

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None: ...

    def record(self, event: Event) -> Event:
        return event

    def synchronize(self) -> None: ...

    def wait_event(self, event: Event) -> None: ...

    def begin_capture(self) -> None:
        global _captured
        _captured = []

    def end_capture(self) -> Graph:
        global _captured
        assert _captured is not None
        graph, _captured = Graph(_captured), None
        return graph


class Device(Stream):
    """A device to enter."""


class RawModule:
    def __init__(self, code: str, options: tuple[str, ...]) -> None:
        self._library = _library(code)
        self._numbers = {name: number for number, name in enumerate(kernel_names(code))}

    def get_function(self, name: str) -> Any:
        def kernel(blocks: tuple[int], threads: tuple[int], arguments: tuple[Any, ...]) -> None:
            stored = [
                np.array(a.ctypes.data, np.uintp) if isinstance(a, np.ndarray) else np.array(a)
                for a in arguments
            ]
            addresses = (ctypes.c_void_p * len(stored))(*(value.ctypes.data for value in stored))
            sizes = ctypes.c_longlong(*blocks), ctypes.c_longlong(*threads)

            def launch(used: Any = (stored, arguments)) -> None:
                self._library.launch(self._numbers[name], *sizes, addresses)

            _do(launch)

        return kernel


def empty(size: int, dtype: Any) -> Array:
    if size > 2**40:
        raise OutOfMemoryError(f"{size} bytes")
    return np.empty(size, dtype).view(Array)


def asarray(values: Any) -> np.ndarray:
    """A copy of an array of the host; of what counts as the device's, such as a tensor, its memory."""
    return (np.array(values) if type(values) is np.ndarray else np.asarray(values)).view(Array)


def asnumpy(values: np.ndarray) -> np.ndarray:
    return np.array(values)


class OutOfMemoryError(Exception):
    """CuPy's own."""


cuda = SimpleNamespace(
    Device=Device,
    Stream=Stream,
    ExternalStream=Stream,
    Event=Event,
    get_current_stream=Stream,
    memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
)
