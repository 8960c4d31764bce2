"""What is asked of a device is counted, and done by the device."""

import numpy as np
import pytest

from placerl.primitives import device
from placerl.primitives.device import Groups
from tests.primitives.device.recording import Counts, RecordingDevice
from tests.primitives.device.test_device import SCALE, SUMS


def recorded() -> RecordingDevice:
    if reason := device.unavailable_reason("host"):
        pytest.skip(reason)
    return RecordingDevice(device.create("host"))


def test_everything_is_counted() -> None:
    one = recorded()
    kernels, stream = one.kernels(SCALE + SUMS), one.stream()
    assert one.counts == Counts()
    x = stream.uploaded(np.ones(64, np.float32))
    y = stream.zeros(4)
    stream.upload(one.allocate(8), np.zeros(1))
    assert one.counts == Counts(allocations=3, uploads=2)
    one.counts.reset()
    stream.launch(kernels["scale"], 64, x, np.float32(2), np.int64(64))
    stream.launch(kernels["sums"], Groups(1, (16, 4)), x, y, np.int64(64))
    assert stream.download(y, (), np.float32) == 128
    assert one.counts == Counts(downloads=1, launches=2)
    one.counts.reset()
    stream.copy(y, x, 4)
    stream.clear(x, 4)
    stream.event().wait()
    stream.finish()
    assert one.counts == Counts(waits=2)
    assert one.counts.round_trips == 2


def test_a_graph_is_one_call_of_the_host() -> None:
    one = recorded()
    stream, kernel = one.stream(), one.kernels(SCALE)["scale"]
    x = stream.uploaded(np.ones(4, np.float32))
    with stream.recorded() as graph:
        for _ in range(3):
            stream.launch(kernel, 4, x, np.float32(2), np.int64(4))
        with pytest.raises(RuntimeError, match="inside `recorded`"):
            stream.finish()
    one.counts.reset()
    graph.replay()
    assert one.counts == Counts(replays=1)
    with stream.recorded():
        stream.launch(kernel, 4, x, np.float32(2), np.int64(4))
    assert one.counts == Counts(replays=1, recorded=1)
    assert stream.download(x, 4, np.float32).tolist() == [8] * 4


def test_it_is_the_device_that_it_counts() -> None:
    one = recorded()
    inner = device.create("host")
    assert (one.kind, one.place, one.name, one.has_double) == (inner.kind, inner.place, inner.name, True)
    buffer = one.allocate(8)
    assert one.adopted(buffer) is buffer
    assert one.usual_stream().device is one
    with pytest.raises(TypeError, match="stream: found 7"):
        one.stream_at(7)
