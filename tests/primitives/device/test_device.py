"""Every kind of device does what `Device` and `Stream` say, and so does the language that kernels share."""

import copy
import gc
import math
import pickle

import numpy as np
import pytest

from placerl.primitives import device
from placerl.primitives.backend import BackendUnavailableError
from placerl.primitives.device import Groups
from tests.primitives.device.kinds import device_of, every_kind, every_kind_with_barriers

SCALE = """
KERNEL(scale)(GLOBAL float *x, float by, LONG count) {
    if (WORK_ITEM < count)
        x[WORK_ITEM] *= by;
}
"""
TYPES = """
KERNEL(types)
(GLOBAL double *out, int a, LONG b, UINT c, ULONG d, float e, double f, GLOBAL const BYTE *g, LONG count) {
    if (WORK_ITEM >= count)
        return;
    out[0] = a, out[1] = b, out[2] = c, out[3] = d, out[4] = e, out[5] = f, out[6] = g[0];
}
"""
ATOMICS = """
KERNEL(atomics)(GLOBAL int *most, GLOBAL float *sum, GLOBAL float *kept, GLOBAL float *out, LONG count) {
    const LONG b = WORK_ITEM;
    if (b >= count)
        return;
    ATOMIC_MAX(most, (int)(b * 7 % 101));
    ATOMIC_ADD(sum, 1.0f);
    out[b] = ATOMIC_EXCHANGE(kept, (float)b + 1.0f);
}
"""
SUMS = """
GROUP_KERNEL(sums, 16, 4)(GLOBAL const float *x, GLOBAL float *y, LONG count) {
    LOCAL float part[64];
    PRIVATE(float, sum)[2];
    const LONG begin = GROUP * count;
    ITEMS {
        for (int i = 0; i < 2; ++i)
            MINE(sum)[i] = 0;
    }
    ITEMS {
        for (LONG n = LOCAL_Y * 16 + LOCAL_X; n < count; n += 64)
            MINE(sum)[n % 2] += x[begin + n];
        part[LOCAL_Y * 16 + LOCAL_X] = MINE(sum)[0] + MINE(sum)[1];
    }
    for (int width = 32; width > 0; width /= 2) {
        PHASE {
            const int item = LOCAL_Y * 16 + LOCAL_X;
            if (item < width)
                part[item] += part[item + width];
        }
    }
    ITEMS {
        if (LOCAL_X == 0 && LOCAL_Y == 0)
            y[GROUP] = part[0];
    }
}
"""
FUNCTIONS = {
    **{
        name: getattr(np, name)
        for name in ("ceil", "cos", "exp", "expm1", "fabs", "floor", "log", "log1p", "rint", "sin", "sqrt")
    },
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf),
}


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@every_kind
def test_copies_between_host_and_device(kind: str) -> None:
    stream = device_of(kind).stream()
    buffer = stream.zeros(48)
    assert stream.download(buffer, 6, np.int64).tolist() == [0] * 6
    values = np.arange(6, dtype=np.int64).reshape(2, 3)
    stream.upload(buffer, values[:, ::2], offset_bytes=8)  # not contiguous
    values[:] = 9
    assert stream.download(buffer, (3, 2), np.int64).tolist() == [[0, 0], [2, 3], [5, 0]]
    assert stream.download(buffer, (), np.int64, offset_bytes=16) == 2
    stream.clear(buffer, 8, offset_bytes=16)
    other = stream.uploaded(np.arange(6, dtype=np.int64))
    stream.copy(other, buffer, 16, target_offset_bytes=8, source_offset_bytes=16)
    assert stream.download(other, 6, np.int64).tolist() == [0, 0, 3, 3, 4, 5]
    stream.upload(buffer, np.zeros(0))
    assert stream.download(buffer, (0, 3), np.float32).shape == (0, 3)
    stream.uploaded(np.zeros(0))
    stream.finish()


@every_kind
def test_what_is_uploaded_is_a_copy(kind: str) -> None:
    stream = device_of(kind).stream()
    values = floats(1, 2)
    buffer = stream.uploaded(values)
    values[:] = 0
    assert stream.download(buffer, 2, np.float32).tolist() == [1, 2]


@every_kind
def test_a_launch_covers_exactly_the_items(kind: str) -> None:
    """Devices start whole groups of items; the kernel leaves those past the last alone."""
    one = device_of(kind)
    stream, kernel = one.stream(), one.kernels(SCALE)["scale"]
    for count in (1, 63, 64, 65, 1000):
        x = stream.uploaded(np.ones(2048, np.float32))
        stream.launch(kernel, count, x, np.float32(3), np.int64(count))
        assert stream.download(x, 2048, np.float32).sum() == 2048 + 2 * count


@every_kind
def test_arguments_of_every_type(kind: str) -> None:
    one = device_of(kind)
    if not one.has_double:
        pytest.skip("no double precision")
    stream, kernel = one.stream(), one.kernels(TYPES)["types"]
    out, byte = stream.zeros(7 * 8), stream.uploaded(np.array([200], np.uint8))
    given = -(2**31), -(2**40), 2**32 - 1, 2**52, 0.5, 1 / 3
    scalars = [
        kind(value)
        for kind, value in zip(
            (np.int32, np.int64, np.uint32, np.uint64, np.float32, np.float64), given, strict=True
        )
    ]
    stream.launch(kernel, 1, out, *scalars, byte, np.int64(1))
    assert stream.download(out, 7, np.float64).tolist() == [*given, 200]


@every_kind
def test_atomic_operations(kind: str) -> None:
    one = device_of(kind)
    stream, kernel, count = one.stream(), one.kernels(ATOMICS)["atomics"], 1000
    most, total, kept, out = (stream.zeros(4 * count) for _ in range(4))
    stream.launch(kernel, count, most, total, kept, out, np.int64(count))
    assert stream.download(most, (), np.int32) == 100
    assert stream.download(total, (), np.float32) == count
    last = stream.download(kept, 1, np.float32)
    seen = np.sort(np.append(stream.download(out, count, np.float32), last))
    assert seen.tolist() == list(range(count + 1)), "every value was exchanged once"


@every_kind_with_barriers
def test_items_of_a_group_wait_for_each_other(kind: str) -> None:
    one = device_of(kind)
    stream, kernel = one.stream(), one.kernels(SUMS)["sums"]
    x = np.arange(12 * 250, dtype=np.float32)
    result = stream.zeros(12 * 4)
    stream.launch(kernel, Groups(12, (16, 4)), stream.uploaded(x), result, np.int64(250))
    assert stream.download(result, 12, np.float32).tolist() == x.reshape(12, 250).sum(1).tolist()


@every_kind_with_barriers
def test_a_launch_has_more_groups_than_cuda_s_y_and_z_take(kind: str) -> None:
    one, count = device_of(kind), 65_536 + 3
    stream, x = one.stream(), np.arange(count, dtype=np.float32)
    result = stream.zeros(4 * count)
    stream.launch(one.kernels(SUMS)["sums"], Groups(count, (16, 4)), stream.uploaded(x), result, np.int64(1))
    assert np.array_equal(stream.download(result, count, np.float32), x)


@every_kind_with_barriers
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_of_every_precision(kind: str, dtype: type) -> None:
    one = device_of(kind)
    if dtype == np.float64 and not one.has_double:
        pytest.skip("no double precision")
    real = "float" if dtype == np.float32 else "double"
    lines = "".join(f"y[{i} * count + b] = {name}(x[b]);" for i, name in enumerate(FUNCTIONS))
    source = f"""
    KERNEL(functions)(GLOBAL const {real} *x, GLOBAL {real} *y, GLOBAL {real} *z, LONG count) {{
        const LONG b = WORK_ITEM;
        if (b >= count)
            return;
        {lines}
        z[b] = pow(x[b], x[b]);
        z[count] = INFINITY, z[count + 1] = NAN;
        z[count + 2] = isfinite(x[0]) && !isfinite(z[count]) && !isfinite(z[count + 1]);
    }}""".replace("    KERNEL", "KERNEL")
    stream, kernel = one.stream(), one.kernels(source)["functions"]
    x = np.linspace(0.01, 3, 50).astype(dtype)
    size = np.dtype(dtype).itemsize
    y, z = stream.zeros(len(FUNCTIONS) * 50 * size), stream.zeros(53 * size)
    stream.launch(kernel, 50, stream.uploaded(x), y, z, np.int64(50))
    found = stream.download(y, (len(FUNCTIONS), 50), dtype)
    for row, (name, function) in zip(found, FUNCTIONS.items(), strict=True):
        np.testing.assert_allclose(row, function(x), rtol=8 * np.finfo(dtype).eps, err_msg=name)
    *powers, infinite, nan, right = stream.download(z, 53, dtype)
    np.testing.assert_allclose(powers, x**x, rtol=8 * np.finfo(dtype).eps)
    assert (infinite, right) == (np.inf, 1)
    assert np.isnan(nan)


@every_kind
def test_a_graph_is_recorded_and_replayed(kind: str) -> None:
    one = device_of(kind)
    stream, kernel = one.stream(), one.kernels(SCALE)["scale"]
    x, y, other = (stream.uploaded(floats(1, 2)) for _ in range(3))
    with stream.recorded() as graph:
        stream.launch(kernel, 2, x, np.float32(3), np.int64(2))
        stream.copy(y, x, 8)
        stream.launch(kernel, 2, x, np.float32(10), np.int64(1))
        stream.clear(x, 4, offset_bytes=4)
    assert stream.download(x, 2, np.float32).tolist() == [1, 2], "nothing is done while it is recorded"
    stream.launch(kernel, 2, other, np.float32(7), np.int64(2))  # changes no argument of the graph
    graph.replay()
    assert stream.download(x, 2, np.float32).tolist() == [30, 0]
    assert stream.download(y, 2, np.float32).tolist() == [3, 6]
    stream.upload(x, floats(1, 1))
    graph.replay()
    graph.replay()
    assert stream.download(x, 2, np.float32).tolist() == [900, 0]
    assert stream.download(y, 2, np.float32).tolist() == [90, 0]
    assert stream.download(other, 2, np.float32).tolist() == [7, 14]


@every_kind
def test_a_launch_in_a_graph_has_the_sign_of_its_zero(kind: str) -> None:
    one = device_of(kind)
    stream, kernel = one.stream(), one.kernels(SCALE)["scale"]
    x, y = stream.uploaded(floats(1)), stream.zeros(8)
    with stream.recorded() as graph:
        for number, zero in enumerate(floats(0.0, -0.0)):
            stream.clear(x, 4)
            stream.launch(kernel, 1, x, zero, np.int64(1))
            stream.copy(y, x, 4, target_offset_bytes=4 * number)
    graph.replay()
    assert np.signbit(stream.download(y, 2, np.float32)).tolist() == [False, True]


@every_kind
def test_a_graph_holds_its_buffers(kind: str) -> None:
    one = device_of(kind)
    stream, kernel = one.stream(), one.kernels(SCALE)["scale"]
    result = stream.zeros(8)

    def record() -> device.Graph:
        x = stream.uploaded(floats(1, 2))
        with stream.recorded() as graph:
            stream.launch(kernel, 2, x, np.float32(3), np.int64(2))
            stream.copy(result, x, 8)
        return graph

    graph = record()
    gc.collect()
    others = [stream.uploaded(floats(9, 9)) for _ in range(8)]
    graph.replay()
    assert stream.download(result, 2, np.float32).tolist() == [3, 6]
    assert stream.download(others[0], 2, np.float32).tolist() == [9, 9]


@every_kind
def test_the_host_neither_copies_nor_waits_in_a_graph(kind: str) -> None:
    stream = device_of(kind).stream()
    buffer = stream.zeros(8)
    with stream.recorded():
        for call in (
            lambda: stream.upload(buffer, floats(1)),
            lambda: stream.download(buffer, 1, np.float32),
            stream.event,
            stream.finish,
        ):
            with pytest.raises(RuntimeError, match="inside `recorded`; allowed: launch, copy, clear"):
                call()
    stream.finish()


@every_kind
def test_a_failed_recording_leaves_the_stream_usable(kind: str) -> None:
    stream = device_of(kind).stream()
    with pytest.raises(KeyError), stream.recorded():
        raise KeyError
    assert stream.download(stream.zeros(4), (), np.int32) == 0


@every_kind
def test_after_an_event_the_work_before_it_is_done(kind: str) -> None:
    stream = device_of(kind).stream()
    buffer = stream.zeros(1 << 20)
    stream.upload(buffer, np.ones(1 << 20, np.uint8))
    stream.clear(buffer, 1 << 19)
    stream.event().wait()
    assert stream.download(buffer, 1 << 20, np.uint8).sum() == 1 << 19


@every_kind
def test_streams_wait_for_each_other_also_in_a_graph(kind: str) -> None:
    one = device_of(kind)
    first, second = one.stream(), one.stream()
    # Enough work that what does not wait for it is done first.
    count, kernel = 1 << 20, one.kernels(SCALE)["scale"]
    x, y = first.uploaded(np.ones(count, np.float32)), first.zeros(4 * count)
    first.finish()

    def work() -> None:
        first.launch(kernel, count, x, np.float32(2), np.int64(count))
        second.wait_for(first)
        second.copy(y, x, 4 * count)
        first.wait_for(second)
        first.launch(kernel, count, x, np.float32(3), np.int64(count))
        second.launch(kernel, count, y, np.float32(5), np.int64(count))

    work()
    first.wait_for(second)
    with first.recorded(second) as graph:
        work()
    graph.replay()
    assert np.unique(first.download(y, count, np.float32)).tolist() == [60]
    assert np.unique(first.download(x, count, np.float32)).tolist() == [36]
    second.event().wait()


@every_kind
def test_too_large_a_buffer(kind: str) -> None:
    with pytest.raises(MemoryError):
        device_of(kind).allocate(2**60)


@every_kind
def test_a_mistake_in_a_kernel_is_named(kind: str) -> None:
    one = device_of(kind)
    if kind == "stand-in":
        pytest.skip("the compiler is CuPy's")
    with pytest.raises(RuntimeError, match="undefined_name"):
        one.kernels("KERNEL(bad)(int x) { undefined_name; }")


@every_kind
def test_a_launch_of_the_wrong_size_is_refused(kind: str) -> None:
    one = device_of(kind)
    kernel = one.kernels(SCALE)["scale"]
    stream = one.stream()
    x = stream.zeros(8)
    with pytest.raises(ValueError, match="scale: found size 0; allowed: at least 1"):
        stream.launch(kernel, 0, x, np.float32(1), np.int64(1))
    with pytest.raises(ValueError, match="allowed: a number of work items"):
        stream.launch(kernel, Groups(1, (4, 1)), x, np.float32(1), np.int64(1))


@every_kind_with_barriers
def test_a_group_that_is_too_large_is_refused(kind: str) -> None:
    one = device_of(kind)
    kernel, stream = one.kernels(SUMS)["sums"], one.stream()
    x = stream.zeros(4)
    for size, allowed in [
        (4, "allowed: Groups"),
        (Groups(1, (257, 1)), "at most 256 items a group"),
        (Groups(0, (16, 4)), "at least 1"),
        (Groups(2**31, (16, 4)), "at most 2,147,483,647 groups"),
    ]:
        with pytest.raises(ValueError, match=allowed):
            stream.launch(kernel, size, x, x, np.int64(1))


@every_kind
def test_a_copy_is_the_device_itself(kind: str) -> None:
    one = device_of(kind)
    assert copy.copy(one) is one
    assert copy.deepcopy([one])[0] is one
    assert one.adopted(buffer := one.allocate(8)) is buffer or kind in ("stand-in", "cuda")


@pytest.mark.parametrize("kind", ["host", "opencl", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_pickle_is_opened_on_the_same_device(kind: str) -> None:
    one = device_of(kind)
    other = pickle.loads(pickle.dumps(one))
    assert (other.kind, other.number, other.place, other.name) == (one.kind, one.number, one.place, one.name)


@pytest.mark.parametrize("kind", ["host", "opencl"])
def test_only_cuda_has_streams_with_addresses(kind: str) -> None:
    with pytest.raises(TypeError, match="stream: found 7; allowed on"):
        device_of(kind).stream_at(7)


def test_unknown_devices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="kind: found 'metal'; allowed: opencl, cuda, host"):
        device.create("metal")
    with pytest.raises(ValueError, match="device: found 1; allowed: 0"):
        device.create("host", 1)
    monkeypatch.setattr("placerl.primitives.device.host.unavailable_reason", lambda: "no compiler")
    with pytest.raises(BackendUnavailableError, match="device 'host' is not available: no compiler"):
        device.create("host")
