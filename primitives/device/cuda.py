"""CUDA devices, through CuPy, whose run-time compiler (NVRTC) builds the kernels."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.device.base import (
    Buffer,
    Device,
    Event,
    Graph,
    Groups,
    Kernel,
    Part,
    Stream,
    bytes_of,
    kernel_names,
    prelude,
)
from placerl.primitives.interrupts import whole_imports

THREADS_PER_BLOCK = 128
"""Work items of a group where a kernel does not state them."""


def options(flush_subnormals: bool = False, fuse_products: bool = True) -> tuple[str, ...]:
    """Return the options with which NVRTC compiles kernels."""
    chosen = {"--ftz=true": flush_subnormals, "--fmad=false": not fuse_products}
    return ("--std=c++17", *(option for option, is_chosen in chosen.items() if is_chosen))


def unavailable_reason() -> str:
    """Return why CUDA cannot be used here; empty if it can."""
    try:
        with whole_imports():
            import cupy
    except ImportError:
        return "CuPy is not installed: pip install 'placerl[gpu]'"
    try:
        return "" if cupy.cuda.runtime.getDeviceCount() else "no CUDA device"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no CUDA device: {error}"


def check_device(device: str | int) -> None:
    """Raise ValueError unless there is a CUDA device of this number."""
    import cupy

    count = cupy.cuda.runtime.getDeviceCount()
    if not str(device).isdecimal() or int(device) >= count:
        raise ValueError(
            f"device: found {device!r}; allowed: a CUDA device of this machine, which has {count}"
        )


def create(which: int | str = 0) -> "CudaDevice":
    """Return a CUDA device, by its number."""
    import cupy

    return CudaDevice(cupy, int(which))


class CudaEvent(Event):
    """A point in the work of a CUDA stream."""

    def __init__(self, event: Any) -> None:
        self._event = event

    def wait(self) -> None:
        self._event.synchronize()


class CudaGraph(Graph):
    """A CUDA graph, and the buffers that it reads and writes."""

    def __init__(self, stream: "CudaStream") -> None:
        super().__init__()
        self.stream = stream
        self.captured: Any = None

    def replay(self) -> None:
        with self.stream.current():
            self.captured.launch()


class CudaStream(Stream):
    """A CUDA stream.

    Args:
        handle: CuPy's stream; None for the one that is CuPy's current stream at each call.
    """

    def __init__(self, device: "CudaDevice", handle: Any) -> None:
        super().__init__(device)
        self._cupy, self._number, self._handle = device.cupy, device.number, handle

    @contextmanager
    def current(self) -> Iterator[Any]:
        """Make the stream CuPy's current one in a `with` block, and yield it."""
        with self._cupy.cuda.Device(self._number):
            if self._handle is None:
                yield self._cupy.cuda.get_current_stream()
            else:
                with self._handle:
                    yield self._handle

    def zeros(self, size_bytes: int) -> Buffer:
        with self.current():  # CuPy's pool keeps memory by stream
            return super().zeros(size_bytes)

    def uploaded(self, values: NDArray[Any]) -> Buffer:
        self._require_no_recording("uploaded")
        with self.current():
            # Goes through pinned memory that CuPy holds until it is read, so that the host does not wait.
            return self._cupy.asarray(bytes_of(values) if values.size else np.zeros(1, np.uint8))

    def _upload(self, part: Part, values: NDArray[np.uint8]) -> None:
        with self.current() as stream:
            part.bytes.set(values)
            stream.synchronize()

    def _download(self, part: Part, values: NDArray[Any]) -> None:
        with self.current():
            values.reshape(-1).view(np.uint8)[:] = self._cupy.asnumpy(part.bytes)

    def _clear(self, part: Part) -> None:
        self._use(part.buffer)
        with self.current():
            part.bytes.fill(0)

    def _copy(self, target: Part, source: Part) -> None:
        self._use(target.buffer, source.buffer)
        with self.current():
            target.bytes[:] = source.bytes

    def _launch(self, kernel: Kernel, size: int | Groups, arguments: tuple[Any, ...]) -> None:
        self._use(*arguments)
        with self.current():
            if isinstance(size, Groups):
                kernel.handle((size.count,), size.items, arguments)
            else:
                kernel.handle((-(-size // THREADS_PER_BLOCK),), (THREADS_PER_BLOCK,), arguments)

    def _event(self) -> Event:
        with self.current() as stream:
            return CudaEvent(stream.record(self._cupy.cuda.Event(disable_timing=True)))

    def _wait_for(self, other: "CudaStream") -> None:
        with other.current() as stream:
            event = stream.record(self._cupy.cuda.Event(disable_timing=True))
        with self.current() as stream:
            stream.wait_event(event)

    def _finish(self) -> None:
        with self.current() as stream:
            stream.synchronize()

    @contextmanager
    def _recorded(self, beside: tuple[Stream, ...]) -> Iterator[Graph]:
        with self.current() as stream:
            stream.begin_capture()  # of the streams, too, that wait for this one
            try:
                with super()._recorded(beside) as graph:
                    yield graph
            finally:
                graph.captured = stream.end_capture()  # type: ignore[attr-defined]

    def _graph(self, beside: tuple[Stream, ...]) -> Graph:
        return CudaGraph(self)

    def _use(self, *arguments: Any) -> None:
        """Keep the buffers of a graph, of which CUDA holds only the addresses."""
        if self._recording is not None:
            self._recording.used += arguments


class CudaDevice(Device):
    """A CUDA device.

    `place` is ("cuda", number). A buffer is a CuPy array of bytes.

    Attributes:
        cupy: the module `cupy`.
    """

    kind = "cuda"
    has_double = True
    is_gpu = True

    def __init__(self, cupy: Any, number: int) -> None:
        self.cupy, self.number = cupy, number
        self.name, self.place = f"cuda:{number}", ("cuda", number)

    def allocate(self, size_bytes: int) -> Buffer:
        with self.cupy.cuda.Device(self.number):
            try:
                return self.cupy.empty(size_bytes, np.uint8)
            except self.cupy.cuda.memory.OutOfMemoryError as error:
                raise MemoryError(f"CUDA device {self.number}: {error}") from error

    def kernels(
        self, source: str, *, flush_subnormals: bool = False, fuse_products: bool = True
    ) -> dict[str, Kernel]:
        with self.cupy.cuda.Device(self.number):
            module = self.cupy.RawModule(
                code=prelude() + source, options=options(flush_subnormals, fuse_products)
            )
            return {
                name: Kernel(name, module.get_function(name), is_group)
                for name, is_group in kernel_names(source).items()
            }

    def stream(self) -> CudaStream:
        with self.cupy.cuda.Device(self.number):
            return CudaStream(self, self.cupy.cuda.Stream(non_blocking=True))

    def usual_stream(self) -> CudaStream:
        return CudaStream(self, None)

    def stream_at(self, address: int) -> CudaStream:
        return CudaStream(self, self.cupy.cuda.ExternalStream(address))

    def finish(self) -> None:
        """Wait until the work of all streams is done, also of those of other libraries."""
        self.cupy.cuda.Device(self.number).synchronize()

    def adopted(self, memory: Any) -> Buffer:
        with self.cupy.cuda.Device(self.number):
            return self.cupy.asarray(memory)
