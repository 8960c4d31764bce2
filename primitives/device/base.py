"""What every device offers: memory, streams of work, kernels, graphs and events."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from math import prod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from placerl.primitives.backend import BackendUnavailableError

KINDS = ("opencl", "cuda", "host")
Buffer = Any
"""A piece of a device's memory, as the library of the device has it. To a kernel it is a pointer."""
GROUP_ITEMS_MAX = 256
"""The most work items of a work group: what `PRIVATE` of `prelude.h` has room for on the host."""


GROUPS_MAX = 2**31 - 1
"""The most groups of a launch: what CUDA takes along x."""


class Part(NamedTuple):
    """Consecutive bytes of a buffer."""

    buffer: Buffer
    offset_bytes: int
    size_bytes: int

    @property
    def bytes(self) -> Any:
        """Those of a buffer that is an array of bytes, as a view."""
        return self.buffer[self.offset_bytes : self.offset_bytes + self.size_bytes]


@dataclass(frozen=True)
class Groups:
    """The size of a launch of a `GROUP_KERNEL`.

    Attributes:
        count: number of groups; they lie along x, because CUDA takes but 65,535 along y and z.
        items: work items of a group along x and y, as the kernel states them; at most `GROUP_ITEMS_MAX` in all.
    """

    count: int
    items: tuple[int, int]


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel. It belongs to one caller: on OpenCL it keeps the arguments of its last launch.

    Attributes:
        name: the kernel's name in its source.
        handle: what the device launches.
        is_group: whether it is a `GROUP_KERNEL`, whose launches have `Groups`.
    """

    name: str
    handle: Any
    is_group: bool


class Event(ABC):
    """A point in a stream's work."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until the work before this point is done."""


@dataclass
class Graph:
    """A recorded sequence of launches, copies and clears.

    Attributes:
        operations: the sequence; a subclass of `Stream` may keep it elsewhere.
        used: what holds the arguments of its launches, some of whose buffers nothing else may hold.
    """

    operations: list[Callable[[], object]] = field(default_factory=list)
    used: list[Any] = field(default_factory=list)

    def replay(self) -> None:
        """Start the whole sequence on the stream that recorded it, on the same buffers and scalars."""
        for operation in self.operations:
            operation()


class Stream(ABC):
    """Work that a device does in order, alongside the work of its other streams (OpenCL: a command queue).

    Sizes and offsets are bytes. Launches, copies on the device and clears may return before they are done.
    """

    def __init__(self, device: "Device") -> None:
        self.device = device
        self._recording: Graph | None = None

    def zeros(self, size_bytes: int) -> Buffer:
        """Return a new buffer of zeros.

        Raises:
            MemoryError: the device has no room for it.
        """
        buffer = self.device.allocate(max(1, size_bytes))
        self.clear(buffer, max(1, size_bytes))
        return buffer

    def uploaded(self, values: NDArray[Any]) -> Buffer:
        """Return a new buffer with a copy of an array of the host, which may be changed when the call returns.

        Raises:
            MemoryError: the device has no room for it.
        """
        buffer = self.device.allocate(max(1, values.nbytes))
        self.upload(buffer, values)
        return buffer

    def upload(self, buffer: Buffer, values: NDArray[Any], offset_bytes: int = 0) -> None:
        """Copy an array of the host into a buffer, contiguously. It may be changed when the call returns."""
        self._require_no_recording("upload")
        if values.size:
            self._upload(Part(buffer, offset_bytes, values.nbytes), bytes_of(values))

    def download(
        self, buffer: Buffer, shape: int | tuple[int, ...], dtype: DTypeLike, offset_bytes: int = 0
    ) -> NDArray[Any]:
        """Return a copy on the host of an array in a buffer; waits for the work before it."""
        self._require_no_recording("download")
        values = np.empty(shape, dtype)
        if values.size:
            self._download(Part(buffer, offset_bytes, values.nbytes), values)
        return values

    def clear(self, buffer: Buffer, size_bytes: int, offset_bytes: int = 0) -> None:
        """Set bytes of a buffer to 0."""
        self._clear(Part(buffer, offset_bytes, size_bytes))

    def copy(
        self,
        target: Buffer,
        source: Buffer,
        size_bytes: int,
        target_offset_bytes: int = 0,
        source_offset_bytes: int = 0,
    ) -> None:
        """Copy bytes from one buffer of the device to another."""
        self._copy(
            Part(target, target_offset_bytes, size_bytes), Part(source, source_offset_bytes, size_bytes)
        )

    def launch(self, kernel: Kernel, size: int | Groups, *arguments: Buffer | np.generic) -> None:
        """Start a kernel.

        Args:
            size: number of work items of a `KERNEL`, at least 1; the `Groups` of a `GROUP_KERNEL`.
            arguments: buffers, and NumPy scalars of exactly the kernel's types.
        """
        check_size(kernel, size)
        self._launch(kernel, size, arguments)

    def event(self) -> Event:
        """Return the point after all work so far."""
        self._require_no_recording("event")
        return self._event()

    def wait_for(self, other: "Stream") -> None:
        """Let the work after this call wait for all work of another stream so far; the host does not wait."""
        self._wait_for(other)

    def finish(self) -> None:
        """Wait until all work is done."""
        self._require_no_recording("finish")
        self._finish()

    @abstractmethod
    def _upload(self, part: Part, values: NDArray[np.uint8]) -> None: ...

    @abstractmethod
    def _download(self, part: Part, values: NDArray[Any]) -> None: ...

    @abstractmethod
    def _clear(self, part: Part) -> None: ...

    @abstractmethod
    def _copy(self, target: Part, source: Part) -> None: ...

    @abstractmethod
    def _launch(self, kernel: Kernel, size: int | Groups, arguments: tuple[Any, ...]) -> None: ...

    @abstractmethod
    def _event(self) -> Event: ...

    @abstractmethod
    def _wait_for(self, other: Any) -> None: ...

    @abstractmethod
    def _finish(self) -> None: ...

    def recorded(self, *beside: "Stream") -> AbstractContextManager[Graph]:
        """Record what is launched, copied on the device and cleared in a `with` block, instead of doing it.

        Args:
            beside: other streams of the device, whose work is recorded, too. It waits for what this stream has to do
                before the graph, and what this stream has to do after the graph waits for it.

        Yields:
            The graph, which can be replayed when the block is left.
        """
        return self._recorded(beside)

    @contextmanager
    def _recorded(self, beside: tuple["Stream", ...]) -> Iterator[Graph]:
        graph = self._graph(beside)
        for one in (self, *beside):
            one._recording = graph
        for one in beside:
            one.wait_for(self)
        try:
            yield graph
        finally:
            for one in beside:
                self.wait_for(one)
            for one in (self, *beside):
                one._recording = None

    def _graph(self, beside: tuple["Stream", ...]) -> Graph:
        return Graph()

    def _require_no_recording(self, call: str) -> None:
        if self._recording is not None:
            raise RuntimeError(
                f"{call}: found a call inside `recorded`; allowed: launch, copy, clear, wait_for"
            )


class Device(ABC):
    """One device of this machine. It may be used from several threads; its streams and kernels may not.

    A pickle is opened on the device of the same kind and number; a copy is the device itself.

    Attributes:
        kind: one of `KINDS`.
        number: position among the devices of this kind.
        name: the device's name.
        place: identifies its memory: buffers may be exchanged with what has an equal `place`.
        has_double: whether kernels can use float64.
        is_gpu: whether it idles unless tens of thousands of work items run at once.
    """

    kind: ClassVar[str]
    number: int
    name: str
    place: Hashable
    has_double: bool
    is_gpu: bool

    @abstractmethod
    def allocate(self, size_bytes: int) -> Buffer:
        """Return a new buffer, not initialised.

        Raises:
            MemoryError: the device has no room for it.
        """

    @abstractmethod
    def kernels(
        self, source: str, *, flush_subnormals: bool = False, fuse_products: bool = True
    ) -> dict[str, Kernel]:
        """Compile kernels, and return new objects for them by name.

        Args:
            source: in what `prelude.h`, which is put before it, makes the same for all devices.
            flush_subnormals: whether numbers below the smallest normal one count as 0.
            fuse_products: whether the device may compute a product and a sum with one rounding.

        Raises:
            RuntimeError: the source does not compile; the message is the compiler's.
        """

    @abstractmethod
    def stream(self) -> Stream:
        """Return a new stream, which waits for no other."""

    def usual_stream(self) -> Stream:
        """Return the stream that other libraries of the device use by default, where there is one; else a new one."""
        return self.stream()

    def stream_at(self, address: int) -> Stream:
        """Return a stream of another library, given by its address.

        Raises:
            TypeError: the device has no streams with addresses.
        """
        raise TypeError(
            f"stream: found {address!r}; allowed on {self.kind}: a Stream of this device, or None"
        )

    def adopted(self, memory: Any) -> Buffer:
        """Return memory of another library on this device, such as a PyTorch tensor's, as a buffer, without a copy."""
        return memory

    def __reduce__(self) -> tuple[Callable[..., "Device"], tuple[str, int]]:
        return create, (self.kind, self.number)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def unavailable_reason(kind: str) -> str:
    """Return why a kind of device cannot be used here; empty if it can."""
    reason: str = _module(kind).unavailable_reason()
    return reason


def create(kind: str, which: int | str | None = None) -> Device:
    """Return a device of this machine.

    Args:
        kind: "opencl", "cuda", or "host": C++ that the host's compiler builds, with which the results of the others
            are checked.
        which: number of the device; on OpenCL also "cpu", or a part of its name. By default the first.

    Raises:
        ValueError: there is no such kind or device.
        BackendUnavailableError: this kind cannot be used on this machine.
    """
    module = _module(kind)
    if reason := module.unavailable_reason():
        raise BackendUnavailableError(f"device {kind!r} is not available: {reason}")
    device: Device = module.create() if which is None else module.create(which)
    return device


def _module(kind: str) -> Any:
    if kind not in KINDS:
        raise ValueError(f"kind: found {kind!r}; allowed: {', '.join(KINDS)}")
    return import_module(f"{__package__}.{kind}")


@cache
def prelude() -> str:
    """Return the source that is put before every kernel's."""
    return files(__package__).joinpath("prelude.h").read_text()


def kernel_names(source: str) -> dict[str, bool]:
    """Return the names of a source's kernels in their order, and of each whether it is a `GROUP_KERNEL`."""
    kernels = re.findall(r"^(GROUP_)?KERNEL\((\w+)", source, re.MULTILINE)
    return {name: bool(group) for group, name in kernels}


def bytes_of(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of an array, contiguous: a view where the array is."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def check_size(kernel: Kernel, size: int | Groups) -> None:
    """Check the size of a launch.

    Raises:
        ValueError: the kernel is launched in the other way, with no items, or with too large groups.
    """
    groups = size if isinstance(size, Groups) else None
    if kernel.is_group != bool(groups):
        allowed = "Groups" if kernel.is_group else "a number of work items"
        raise ValueError(f"{kernel.name}: found size {size}; allowed: {allowed}")
    least = min(size.count, *size.items) if isinstance(size, Groups) else size
    if least < 1 or (groups and (prod(groups.items) > GROUP_ITEMS_MAX or groups.count > GROUPS_MAX)):
        limits = f"at most {GROUP_ITEMS_MAX} items a group, and at most {GROUPS_MAX:,} groups"
        raise ValueError(f"{kernel.name}: found size {size}; allowed: at least 1, {limits}")
