"""A device that counts what is asked of another one: launches, copies, waits of the host, and allocations."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.device.base import Buffer, Device, Event, Graph, Groups, Kernel, Part, Stream


@dataclass
class Counts:
    """What was asked of a device.

    Attributes:
        allocations: new buffers.
        uploads: copies from the host, which the host waits for.
        downloads: copies to the host, which the host waits for.
        waits: other waits of the host, for an event or a stream.
        launches: kernels that the host started one by one.
        replays: graphs that the host started.
        recorded: launches that were recorded in a graph.
    """

    allocations: int = 0
    uploads: int = 0
    downloads: int = 0
    waits: int = 0
    launches: int = 0
    replays: int = 0
    recorded: int = 0

    @property
    def round_trips(self) -> int:
        """How often the host waited for the device."""
        return self.uploads + self.downloads + self.waits

    def reset(self) -> None:
        """Count from 0 again."""
        self.__init__()  # type: ignore[misc]


class RecordingEvent(Event):
    """An event whose waits are counted."""

    def __init__(self, event: Event, counts: Counts) -> None:
        self._event, self._counts = event, counts

    def wait(self) -> None:
        self._counts.waits += 1
        self._event.wait()


class RecordingGraph(Graph):
    """A graph whose replays are counted."""

    def __init__(self, graph: Graph, counts: Counts) -> None:
        super().__init__(graph.operations)
        self._graph, self._counts = graph, counts

    def replay(self) -> None:
        self._counts.replays += 1
        self._graph.replay()


class RecordingStream(Stream):
    """A stream whose calls are counted.

    Args:
        device: the recording device.
        stream: the stream that does the work.
    """

    def __init__(self, device: "RecordingDevice", stream: Stream) -> None:
        super().__init__(device)
        self._stream, self._counts = stream, device.counts

    def zeros(self, size_bytes: int) -> Buffer:
        self._counts.allocations += 1
        return self._stream.zeros(size_bytes)

    def uploaded(self, values: NDArray[Any]) -> Buffer:
        self._counts.allocations += 1
        self._counts.uploads += 1
        return self._stream.uploaded(values)

    def _upload(self, part: Part, values: NDArray[np.uint8]) -> None:
        self._counts.uploads += 1
        self._stream._upload(part, values)

    def _download(self, part: Part, values: NDArray[Any]) -> None:
        self._counts.downloads += 1
        self._stream._download(part, values)

    def _clear(self, part: Part) -> None:
        self._stream._clear(part)

    def _copy(self, target: Part, source: Part) -> None:
        self._stream._copy(target, source)

    def _launch(self, kernel: Kernel, size: int | Groups, arguments: tuple[Any, ...]) -> None:
        if self._recording is None:
            self._counts.launches += 1
        else:
            self._counts.recorded += 1
        self._stream._launch(kernel, size, arguments)

    def _event(self) -> Event:
        return RecordingEvent(self._stream.event(), self._counts)

    def _wait_for(self, other: "RecordingStream") -> None:
        self._stream.wait_for(other._stream)

    def _finish(self) -> None:
        self._counts.waits += 1
        self._stream.finish()

    @contextmanager
    def _recorded(self, beside: Any) -> Iterator[Graph]:
        with self._stream.recorded(*(one._stream for one in beside)) as graph:
            for one in (self, *beside):
                one._recording = graph
            try:
                yield RecordingGraph(graph, self._counts)
            finally:
                for one in (self, *beside):
                    one._recording = None


class RecordingDevice(Device):
    """A device that counts what is asked of another one, which does the work.

    Args:
        device: that device.

    Attributes:
        counts: the counts of all streams.
    """

    def __init__(self, device: Device) -> None:
        self._device, self.counts = device, Counts()
        self.kind, self.number = device.kind, device.number  # type: ignore[misc]
        self.name, self.place, self.has_double = device.name, device.place, device.has_double
        self.is_gpu = device.is_gpu

    def allocate(self, size_bytes: int) -> Buffer:
        self.counts.allocations += 1
        return self._device.allocate(size_bytes)

    def kernels(
        self, source: str, *, flush_subnormals: bool = False, fuse_products: bool = True
    ) -> dict[str, Kernel]:
        return self._device.kernels(source, flush_subnormals=flush_subnormals, fuse_products=fuse_products)

    def stream(self) -> RecordingStream:
        return RecordingStream(self, self._device.stream())

    def usual_stream(self) -> RecordingStream:
        return RecordingStream(self, self._device.usual_stream())

    def stream_at(self, address: int) -> RecordingStream:
        return RecordingStream(self, self._device.stream_at(address))

    def adopted(self, memory: Any) -> Buffer:
        return self._device.adopted(memory)
