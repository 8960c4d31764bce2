"""OpenCL devices, through pyopencl."""

import warnings
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.device import opencl_runtime
from placerl.primitives.device.base import (
    Buffer,
    Device,
    Event,
    Graph,
    Groups,
    Kernel,
    Part,
    Stream,
    kernel_names,
    prelude,
)

WORK_GROUP = 64
"""Work items of a group where a kernel does not state them."""


def unavailable_reason() -> str:
    """Return why OpenCL cannot be used here; empty if it can."""
    return opencl_runtime.unavailable_reason()


def check_device(device: int | str) -> None:
    """Raise ValueError unless `create` finds the OpenCL device."""
    opencl_runtime.choose_for_learner(device)


def create(which: int | str = "") -> "OpenclDevice":
    """Return an OpenCL device.

    Args:
        which: position in `opencl_runtime.devices()`, "cpu" for the first CPU, or a part of a device's name.
    """
    return OpenclDevice(opencl_runtime.choose_for_learner(which))


@lru_cache(maxsize=64)
def _built(device: Any, source: str, flush_subnormals: bool) -> Any:
    """Return the program of a source in the device's context."""
    opencl = opencl_runtime.load()
    options = ["-cl-denorms-are-zero"] if flush_subnormals else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", opencl.CompilerWarning)  # some compilers warn that they succeeded
        try:
            return opencl.Program(opencl_runtime.context(device), prelude() + source).build(options)
        except opencl.RuntimeError as error:
            raise RuntimeError(str(error)) from error


@dataclass(frozen=True, eq=False)
class _Bound:
    """A kernel object that always has the same arguments, and these, whose buffers a kernel object does not hold."""

    kernel: Any
    arguments: tuple[Buffer | np.generic, ...]


@dataclass
class _Compiled:
    """A kernel object and its program.

    Attributes:
        program, kernel: pyopencl's.
        has_types: whether pyopencl knows the arguments' types. Otherwise it tries one after the other, which takes
            longer than the launch.
        bound: kernel objects of recorded launches, by their arguments: scalars' bytes and buffers' addresses. Graphs
            share them, because it takes longer to create one than to launch it, and alone hold them.
    """

    program: Any
    kernel: Any
    has_types: bool = False
    bound: WeakValueDictionary[tuple[int | bytes, ...], _Bound] = field(default_factory=WeakValueDictionary)

    def with_arguments(self, name: str, arguments: tuple[Buffer | np.generic, ...]) -> _Bound:
        """Return a kernel object that always has these arguments."""
        key = tuple(one.tobytes() if isinstance(one, np.generic) else one.int_ptr for one in arguments)
        bound = self.bound.get(key)
        if bound is None:
            bound = _Bound(opencl_runtime.load().Kernel(self.program, name), arguments)
            bound.kernel.set_args(*arguments)
            self.bound[key] = bound
        return bound

    def set_arguments(self, arguments: tuple[Buffer | np.generic, ...]) -> None:
        if not self.has_types:
            self.kernel.set_scalar_arg_dtypes(
                [one.dtype if isinstance(one, np.generic) else None for one in arguments]
            )
            self.has_types = True
        self.kernel.set_args(*arguments)


class OpenclEvent(Event):
    """A point in the work of a command queue."""

    def __init__(self, event: Any) -> None:
        self._event = event

    def wait(self) -> None:
        self._event.wait()


class OpenclGraph(Graph):
    """A recorded sequence, after which a stream has an event, and the streams beside it have none that is known."""

    def __init__(self, stream: "OpenclStream", beside: tuple[Any, ...]) -> None:
        super().__init__()
        self._stream, self._beside = stream, beside

    def replay(self) -> None:
        last = None
        for operation in self.operations:
            last = operation()
        self._stream._last = last
        for one in self._beside:
            one._last = None


class OpenclStream(Stream):
    """A command queue that works in order."""

    def __init__(self, device: "OpenclDevice") -> None:
        super().__init__(device)
        self._opencl = opencl_runtime.load()
        self._context = device.context
        self._queue = self._opencl.CommandQueue(self._context)
        self._enqueue = self._opencl.enqueue_nd_range_kernel
        self._last: Any = None  # pyopencl's event of the last work; no marker is needed after it

    def _do(self, call: Any, *arguments: Any, **options: Any) -> None:
        if self._recording is None:
            self._last = call(self._queue, *arguments, **options)
        else:
            self._recording.operations.append(partial(call, self._queue, *arguments, **options))

    def uploaded(self, values: NDArray[Any]) -> Buffer:
        self._require_no_recording("uploaded")
        if not values.size:
            return self.device.allocate(1)
        flags = self._opencl.mem_flags
        return self._opencl.Buffer(
            self._context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=np.ascontiguousarray(values)
        )

    def _upload(self, part: Part, values: NDArray[np.uint8]) -> None:
        self._opencl.enqueue_copy(self._queue, part.buffer, values, dst_offset=part.offset_bytes)

    def _download(self, part: Part, values: NDArray[Any]) -> None:
        self._opencl.enqueue_copy(self._queue, values, part.buffer, src_offset=part.offset_bytes)

    def _clear(self, part: Part) -> None:
        self._do(
            self._opencl.enqueue_fill_buffer, part.buffer, np.uint8(0), part.offset_bytes, part.size_bytes
        )

    def _copy(self, target: Part, source: Part) -> None:
        self._do(
            self._opencl.enqueue_copy,
            target.buffer,
            source.buffer,
            byte_count=target.size_bytes,
            dst_offset=target.offset_bytes,
            src_offset=source.offset_bytes,
        )

    def _launch(self, kernel: Kernel, size: int | Groups, arguments: tuple[Any, ...]) -> None:
        compiled: _Compiled = kernel.handle
        items: tuple[int, ...]
        group: tuple[int, ...]
        if isinstance(size, Groups):
            group = size.items
            items = (size.count * group[0], group[1])
        else:
            items, group = (-(-size // WORK_GROUP) * WORK_GROUP,), (WORK_GROUP,)
        if self._recording is None:
            compiled.set_arguments(arguments)
            self._last = self._enqueue(self._queue, compiled.kernel, items, group)
            return
        bound = compiled.with_arguments(kernel.name, arguments)
        self._recording.used.append(bound)
        self._recording.operations.append(partial(self._enqueue, self._queue, bound.kernel, items, group))

    def _event(self) -> Event:
        # The last work says when all before it was done.
        return OpenclEvent(self._last or self._opencl.enqueue_marker(self._queue))

    def _wait_for(self, other: "OpenclStream") -> None:
        def wait(queue: Any) -> Any:
            event = self._opencl.enqueue_marker(other._queue)
            other._queue.flush()  # a queue may hold its work back, for which another one would wait for ever
            return self._opencl.enqueue_barrier(queue, wait_for=[event])

        self._do(wait)

    def _finish(self) -> None:
        self._queue.finish()

    def _graph(self, beside: tuple[Stream, ...]) -> Graph:
        return OpenclGraph(self, beside)


class OpenclDevice(Device):
    """An OpenCL device.

    Args:
        device: the device, as pyopencl lists it.

    Attributes:
        opencl: the same.
        context: its context.
    """

    kind = "opencl"

    def __init__(self, device: Any) -> None:
        self._opencl = opencl_runtime.load()
        self.opencl, self.context = device, opencl_runtime.context(device)
        self.name = device.name.strip()
        self.place = ("opencl", device)
        self.has_double, self.is_gpu = bool(device.double_fp_config), not opencl_runtime.is_cpu(device)
        self._largest_bytes = device.max_mem_alloc_size

    @property
    def number(self) -> int:  # type: ignore[override]
        return opencl_runtime.devices().index(self.opencl)

    def allocate(self, size_bytes: int) -> Buffer:
        if size_bytes > self._largest_bytes:
            raise MemoryError(
                f"{self.name}: found a buffer of {size_bytes} bytes; allowed: {self._largest_bytes}"
            )
        return self._opencl.Buffer(self.context, self._opencl.mem_flags.READ_WRITE, size_bytes)

    def kernels(
        self, source: str, *, flush_subnormals: bool = False, fuse_products: bool = True
    ) -> dict[str, Kernel]:
        text = source if fuse_products else f"#pragma OPENCL FP_CONTRACT OFF\n{source}"
        program = _built(self.opencl, text, flush_subnormals)
        return {
            name: Kernel(name, _Compiled(program, self._opencl.Kernel(program, name)), is_group)
            for name, is_group in kernel_names(source).items()
        }

    def stream(self) -> OpenclStream:
        return OpenclStream(self)
