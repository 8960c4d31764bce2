"""The shared kernels built as C++, one work item after the other: a device whose memory is NumPy's."""

import ctypes
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from placerl.primitives.sum_tree.gpu.device_tree import kernel_source

PRELUDE = """
#include <cstring>
#include <utility>
#define LONG long long
#define GLOBAL
#define KERNEL(name) static void name
#define WORK_ITEM work_item
#define ATOMIC_MAX(pointer, value) (*(pointer) = *(pointer) < (value) ? (value) : *(pointer))
static long long work_item;
"""
LAUNCHER = """
template <class... A, size_t... I>
static void call(void (*kernel)(A...), void **arguments, std::index_sequence<I...>) {
    kernel(*static_cast<A *>(arguments[I])...);
}
template <class... A>
static void run(void (*kernel)(A...), long long size, void **arguments) {
    for (work_item = 0; work_item < size; ++work_item)
        call(kernel, arguments, std::index_sequence_for<A...>());
}
extern "C" int launch(const char *name, long long size, void **arguments) {
#define TRY(kernel) if (!std::strcmp(name, #kernel)) { run(kernel, size, arguments); return 1; }
    TRIES
    return 0;
}
"""


@cache
def _library(real: str, more: str) -> ctypes.CDLL:
    compiler = shutil.which("c++") or shutil.which("g++")
    assert compiler, "no C++ compiler"
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "kernels.cpp"), Path(folder, "kernels.so")
        kernels = kernel_source() + more
        # `scale` is compiled only where every device has doubles.
        names = [name for name in re.findall(r"^KERNEL\((\w+)\)", kernels, re.MULTILINE) if name != "scale"]
        tries = " ".join(f"TRY({name})" for name in names)
        source.write_text(f"#define REAL {real}\n{PRELUDE}{kernels}{LAUNCHER.replace('TRIES', tries)}")
        flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        subprocess.run([compiler, *flags, "-o", library, source], check=True)
        return ctypes.CDLL(str(library))


class CppDevice:
    """A `TreeDevice` on the host; `more` is the source of further kernels."""

    def __init__(self, dtype: DTypeLike, more: str = "") -> None:
        self._library = _library("float" if np.dtype(dtype) == np.float32 else "double", more)

    def zeros(self, shape: int, dtype: DTypeLike) -> Any:
        return np.zeros(shape, dtype)

    def upload(self, values: NDArray[Any]) -> Any:
        return values.copy()

    def download(self, array: Any) -> NDArray[Any]:
        return np.array(array)

    def launch(self, name: str, size: int, *arguments: Any) -> None:
        # Of an array its address is passed, of a scalar its value; each is given by where it is stored.
        stored = [
            np.array(a.ctypes.data, np.uintp) if isinstance(a, np.ndarray) else np.array(a) for a in arguments
        ]
        addresses = (ctypes.c_void_p * len(stored))(*(value.ctypes.data for value in stored))
        # Items past the last too, as devices start whole groups.
        assert self._library.launch(name.encode(), ctypes.c_longlong(size + 63), addresses)
