"""A stand-in for CuPy: its arrays are NumPy's, and a kernel's CUDA C++ is built as C++, one thread after the other."""

import ctypes
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

_BEFORE = """
#include <cstddef>
#include <utility>
using std::size_t;
struct Dimension { long long x; };
static Dimension blockIdx, blockDim, threadIdx;
#define __global__
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
extern "C" void launch(long long blocks, long long threads, void **arguments) {
    blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x)
            run(KERNEL_NAME, arguments);
}
"""


@cache
def _library(code: str) -> ctypes.CDLL:
    compiler = shutil.which("c++") or shutil.which("g++")
    assert compiler, "no C++ compiler"
    (name,) = re.findall(r"^KERNEL\((\w+)\)", code, re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "kernel.cpp"), Path(folder, "kernel.so")
        source.write_text(f"{_BEFORE}{code}{_AFTER.replace('KERNEL_NAME', name)}")
        flags = [
            "-std=c++17",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fno-strict-aliasing",
            "-shared",
            "-fPIC",
        ]
        subprocess.run([compiler, *flags, "-o", library, source], check=True)
        return ctypes.CDLL(str(library))


class Array(np.ndarray):
    """An array with CuPy's way to fill it from the host."""

    def set(self, values: np.ndarray) -> None:
        self[...] = values


class Stream:
    """Work is done when a call returns."""

    def __init__(self, address: int = 0, non_blocking: bool = False) -> None:
        self.address = address

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None: ...

    def record(self) -> "Stream":
        return self

    def synchronize(self) -> None: ...


class Device(Stream):
    """A device to enter."""


class RawModule:
    def __init__(self, code: str, options: tuple[str, ...]) -> None:
        self._library = _library(code)

    def get_function(self, name: str) -> Any:
        def kernel(blocks: tuple[int], threads: tuple[int], arguments: tuple[Any, ...]) -> None:
            stored = [
                np.array(a.ctypes.data, np.uintp) if isinstance(a, np.ndarray) else np.array(a)
                for a in arguments
            ]
            addresses = (ctypes.c_void_p * len(stored))(*(value.ctypes.data for value in stored))
            self._library.launch(ctypes.c_longlong(*blocks), ctypes.c_longlong(*threads), addresses)

        return kernel


def empty(size: int, dtype: Any) -> Array:
    if size > 2**40:
        raise OutOfMemoryError(f"{size} bytes")
    return np.empty(size, dtype).view(Array)


def asarray(values: Any) -> np.ndarray:
    return np.asarray(values)  # a tensor's memory, not a copy


def asnumpy(values: np.ndarray) -> np.ndarray:
    return np.array(values)


class OutOfMemoryError(Exception):
    """CuPy's own."""


cuda = SimpleNamespace(
    Device=Device,
    Stream=Stream,
    ExternalStream=Stream,
    memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
)
