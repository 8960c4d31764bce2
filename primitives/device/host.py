"""The host as a device: its C++ compiler builds the kernels, which run one work item after the other.

It needs no driver and no thread, and computes in the same order each time: the results of the other devices are checked
with it, and the kernels themselves where there is no other device.
"""

import ctypes
import os
import platform
import shutil
import subprocess
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives import disk_cache
from placerl.primitives.device.base import (
    Buffer,
    Device,
    Event,
    Groups,
    Kernel,
    Part,
    Stream,
    kernel_names,
    prelude,
)

FLAGS = ("-std=c++17", "-O1", "-fno-strict-aliasing", "-Wall", "-Wextra", "-Wno-unused", "-shared", "-fPIC")
WORK_GROUP = 64
"""Work items of a group where a kernel does not state them: a launch is rounded up to it, as on other devices."""


def _compiler() -> str | None:
    return shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++")


def unavailable_reason() -> str:
    """Return why kernels cannot be built here; empty if they can."""
    return "" if _compiler() else "no C++ compiler: install c++, or name one in CXX"


def create(which: int | str = 0) -> "HostDevice":
    """Return the host as a device.

    Args:
        which: 0, as there is one host.

    Raises:
        ValueError: another number.
    """
    if str(which) != "0":
        raise ValueError(f"device: found {which!r}; allowed: 0")
    return HostDevice()


@lru_cache(maxsize=64)
def _library(source: str, flush_subnormals: bool, fuse_products: bool) -> ctypes.CDLL:
    names = kernel_names(source)
    listed = " ".join(
        f"HOST_{'GROUP_' if is_group else ''}KERNEL({number}, {name})"
        for number, (name, is_group) in enumerate(names.items())
    )
    launch = files(__package__).joinpath("host_launch.h").read_text()
    macros = f"#define HOST_KERNELS {listed}\n#define HOST_FLUSHES_SUBNORMALS {int(flush_subnormals)}\n"
    text = f"{prelude()}{source}\n{macros}{launch}"
    compiler = _compiler()
    assert compiler is not None, "unavailable_reason said that there is one"
    flags = (*FLAGS, *([] if fuse_products else ["-ffp-contract=off"]))

    def make(path: Path) -> None:
        code = path.with_suffix(".cpp")
        code.write_text(text)
        done = subprocess.run(
            [compiler, *flags, "-o", str(path), str(code)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{compiler}: {done.stderr}")

    key = disk_cache.key(text, compiler, platform.machine(), *flags)
    return ctypes.CDLL(str(disk_cache.made(f"host-kernels-{key}.so", make)))


class HostEvent(Event):
    """A point of which the work before it is done."""

    def wait(self) -> None:
        pass


class HostStream(Stream):
    """Work that is done when a call returns."""

    def _upload(self, part: Part, values: NDArray[np.uint8]) -> None:
        part.bytes[:] = values

    def _download(self, part: Part, values: NDArray[Any]) -> None:
        values.reshape(-1).view(np.uint8)[:] = part.bytes

    def _clear(self, part: Part) -> None:
        self._do(partial(part.bytes.fill, 0))

    def _copy(self, target: Part, source: Part) -> None:
        self._do(partial(np.copyto, target.bytes, source.bytes))

    def _launch(self, kernel: Kernel, size: int | Groups, arguments: tuple[Any, ...]) -> None:
        library, number = kernel.handle
        if isinstance(size, Groups):
            count = (ctypes.c_longlong * 3)(size.count, *size.items)
        else:
            count = (ctypes.c_longlong * 3)(-(-size // WORK_GROUP) * WORK_GROUP)
        # Of a buffer its address is passed, of a scalar its value; each is given by where it is stored.
        stored = [
            np.array(a.ctypes.data, np.uintp) if isinstance(a, np.ndarray) else np.array(a) for a in arguments
        ]
        addresses = (ctypes.c_void_p * len(stored))(*(value.ctypes.data for value in stored))

        def launch(used: tuple[Any, ...] = (stored, arguments)) -> None:  # which keeps them alive
            library.launch(number, count, addresses)

        self._do(launch)

    def _event(self) -> Event:
        return HostEvent()

    def _wait_for(self, other: Stream) -> None:
        pass

    def _finish(self) -> None:
        pass

    def _do(self, operation: Any) -> None:
        if self._recording is None:
            operation()
        else:
            self._recording.operations.append(operation)


class HostDevice(Device):
    """The host's memory, and kernels in C++. A buffer is a NumPy array of bytes."""

    kind = "host"
    number = 0
    name = "host C++"
    place = ("host", 0)
    has_double = True
    is_gpu = False

    def allocate(self, size_bytes: int) -> Buffer:
        return np.empty(size_bytes, np.uint8)

    def kernels(
        self, source: str, *, flush_subnormals: bool = False, fuse_products: bool = True
    ) -> dict[str, Kernel]:
        library = _library(source, flush_subnormals, fuse_products)
        return {
            name: Kernel(name, (library, number), is_group)
            for number, (name, is_group) in enumerate(kernel_names(source).items())
        }

    def stream(self) -> HostStream:
        return HostStream(self)

    def adopted(self, memory: Any) -> Buffer:
        return memory if isinstance(memory, np.ndarray) else np.from_dlpack(memory)
