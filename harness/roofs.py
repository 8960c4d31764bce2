"""The roofs of a roofline: how much arithmetic a device does at most, and how fast its memories copy, measured here.

Rows of suite `roofs`, one for each roof of a device, in interleaved rounds:

| quantity | unit | what |
|---|---|---|
| `peak` | FLOP/s | float32 multiply-adds, two operations each |
| `copy_bandwidth` | B/s | a copy between two buffers that together are `footprint_bytes`, read and written counted |

The CPU's are those of one core, as the primitive table is of one thread; OpenCL's and CUDA's of the whole device. The
smaller footprints are served by a cache. A simulated FPGA's are modelled
(`harness.simulated_profile`).
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness import machine
from harness.conditions import default_core
from harness.measure import Case, Protocol, measure
from harness.measurement import Measurement
from harness.progress import Report
from harness.provenance import Provenance
from primitives import opencl_runtime

SUITE = "roofs"
LARGEST_BYTES = 2**28
GIGA = 10**9


@dataclass(frozen=True)
class Roof:
    """One roof, and how to time it.

    Attributes:
        device: as in the primitive table.
        quantity, unit: of the row.
        amount: operations or bytes of a call.
        case: does them.
        details: of the row.
    """

    device: str
    quantity: str
    unit: str
    amount: float
    case: Case[Any]
    details: dict[str, Any]


def profile(budget_s: float, report: Report) -> list[Measurement]:
    """A row for each roof of each device that is here.

    Args:
        budget_s: begin no further round after this time, seconds.
        report: called with the progress.
    """
    found = [*_cpu(), *_opencl(), *_cuda()]
    protocol = Protocol(budget_s=budget_s, threads=1, lead_in_calls=1, caller_core=default_core())
    timings = measure(
        [roof.case for roof in found], protocol, progress=lambda done, total: report(done, total, "roofs")
    )
    return [_row(roof, timings[roof.case.name]) for roof in found]


def _row(roof: Roof, timing: Any) -> Measurement:
    def rate(time_s: float | None) -> float | None:
        return None if time_s is None else roof.amount / time_s

    return Measurement(
        suite=SUITE,
        primitive=roof.quantity,
        device=roof.device,
        quantity=roof.quantity,
        unit=roof.unit,
        provenance=Provenance.MEASURED,
        status=timing.status,
        reason=timing.reason,
        value=rate(timing.median_s),
        low=rate(timing.high_s),
        high=rate(timing.low_s),
        samples=tuple(roof.amount / sample for sample in timing.samples_s),
        details={**timing.details, **roof.details},
    )


def _copy(device: str, size_bytes: int, case: Case[Any], details: dict[str, Any]) -> Roof:
    footprint = {"footprint_bytes": 2 * size_bytes}
    return Roof(device, "copy_bandwidth", "B/s", 2.0 * size_bytes, case, footprint | details)


def buffer_sizes(cache_bytes: list[int]) -> list[int]:
    """Bytes of a buffer of which two fill half of each cache, and of one that no cache holds a tenth of.

    Args:
        cache_bytes: sizes of the caches, rising; what is smaller than 128 KiB is left out, as a call takes longer.
    """
    large = [size for size in cache_bytes if size >= 2**17]
    return [size // 4 for size in large] + [max(LARGEST_BYTES // 2, 10 * max(large, default=0))]


# The processor


def _cpu() -> Iterator[Roof]:
    from primitives._native import learner

    def block(_: None, calls: int) -> float:
        return float(calls / learner.peak_gflops(calls * 1e-3))  # a call is a thousand million operations

    peak: Case[None] = Case(
        "cpu peak", lambda: None, lambda _: None, lambda _, rng: None, _nothing, block=block
    )
    yield Roof("cpu", "peak", "FLOP/s", float(GIGA), peak, {"threads": 1})
    caches = machine.describe(measure_links=False).cpu.caches
    for size in buffer_sizes(sorted({cache.size_bytes for cache in caches if cache.kind != "instruction"})):
        yield _copy("cpu", size, _numpy_copy(size), {"threads": 1})


def source_bytes(size: int) -> np.ndarray:
    """What is copied: random bytes that repeat after a length that divides no buffer.

    Drawn anew, those of the largest buffers would take more of the budget than their copies.
    """
    return np.resize(np.random.default_rng(0).integers(0, 255, 2**20 - 3, np.uint8), size)


def expect_copy(found: np.ndarray, source: np.ndarray) -> None:
    """In one pass, as the buffers are large.

    Raises:
        AssertionError: they differ.
    """
    if not np.array_equal(found, source):
        raise AssertionError("the copy differs from its source")


def _nothing(_: Any, __: Any) -> None:
    """What a case calls whose clock is elsewhere."""


def _numpy_copy(size: int) -> Case[Any]:
    def setup() -> tuple[np.ndarray, np.ndarray]:
        source = source_bytes(size)
        return np.zeros_like(source), source

    def check(buffers: tuple[np.ndarray, np.ndarray]) -> None:
        np.copyto(*buffers)
        expect_copy(*buffers)

    return Case(f"cpu copy {size}", setup, check, lambda _, rng: None, lambda buffers, _: np.copyto(*buffers))


# OpenCL

_KERNEL = """
__kernel void multiply_add(__global float16 *out, int rounds) {
    float16 a[8];
    for (int i = 0; i < 8; ++i) a[i] = (float16)(get_global_id(0) + i);
    for (int round = 0; round < rounds; ++round)
        for (int i = 0; i < 8; ++i) a[i] = fma(a[i], (float16)(0.5f), (float16)(1.0f));
    for (int i = 1; i < 8; ++i) a[0] += a[i];
    out[get_global_id(0)] = a[0];
}
"""
_ROUNDS, _ITEMS_PER_UNIT, _CHAINS = 4096, 256, 8 * 16


def _opencl() -> Iterator[Roof]:
    if opencl_runtime.unavailable_reason():
        return
    cl = opencl_runtime.load()
    device = opencl_runtime.devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    details = {"name": device.name.strip(), "compute_units": device.max_compute_units}
    items = _ITEMS_PER_UNIT * device.max_compute_units

    def setup() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cl.CompilerWarning)  # a compiler that says it has succeeded
            program = cl.Program(context, _KERNEL).build()
        return program.multiply_add, cl.Buffer(context, cl.mem_flags.READ_WRITE, items * 64)

    def call(made: Any, _: None) -> None:
        kernel, out = made
        kernel(queue, (items,), None, out, np.int32(_ROUNDS))

    def check(made: Any) -> None:
        call(made, None)
        found = np.empty(items * 16, np.float32)
        cl.enqueue_copy(queue, found, made[1])
        np.testing.assert_array_equal(found, np.float32(16))  # x = x/2 + 1 goes to 2, eight times

    finish = queue.finish
    peak = Case("opencl peak", setup, check, lambda _, rng: None, call, finish)
    yield Roof("opencl", "peak", "FLOP/s", 2.0 * items * _CHAINS * _ROUNDS, peak, details)
    for size in buffer_sizes([device.global_mem_cache_size]):
        yield _copy("opencl", size, _opencl_copy(cl, context, queue, size), details)


def _opencl_copy(cl: Any, context: Any, queue: Any, size: int) -> Case[Any]:
    def setup() -> Any:
        source = source_bytes(size)
        flags = cl.mem_flags.READ_WRITE
        there = cl.Buffer(context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=source)
        return cl.Buffer(context, flags, size), there, source

    def call(buffers: Any, _: None) -> None:
        cl.enqueue_copy(queue, buffers[0], buffers[1])

    def check(buffers: Any) -> None:
        call(buffers, None)
        found = np.empty(size, np.uint8)
        cl.enqueue_copy(queue, found, buffers[0])
        expect_copy(found, buffers[2])

    return Case(f"opencl copy {size}", setup, check, lambda _, rng: None, call, queue.finish)


# CUDA

_SIDE = 4096


def _cuda() -> Iterator[Roof]:
    import torch

    if not torch.cuda.is_available():
        return
    properties = torch.cuda.get_device_properties(0)
    details = {"name": properties.name, "tf32": torch.backends.cuda.matmul.allow_tf32}

    def setup() -> Any:
        a, b = (torch.randn(_SIDE, _SIDE, device="cuda") for _ in range(2))
        return a, b, torch.empty_like(a)

    def check(made: Any) -> None:
        a, b, out = made
        torch.mm(a, b, out=out)
        torch.testing.assert_close(out[:64].double(), a[:64].double() @ b.double(), rtol=1e-3, atol=1e-2)

    peak: Case[Any] = Case(
        "cuda peak",
        setup,
        check,
        lambda _, rng: None,
        lambda made, _: torch.mm(made[0], made[1], out=made[2]),
        torch.cuda.synchronize,
    )
    yield Roof("cuda", "peak", "FLOP/s", 2.0 * _SIDE**3, peak, details | {"how": f"product of {_SIDE}^3"})
    for size in buffer_sizes([properties.L2_cache_size]):
        yield _copy("cuda", size, _torch_copy(size), details)


def _torch_copy(size: int) -> Case[Any]:
    import torch

    def setup() -> Any:
        source = torch.randint(0, 255, (size,), dtype=torch.uint8, device="cuda")
        return torch.zeros_like(source), source

    def check(buffers: Any) -> None:
        buffers[0].copy_(buffers[1])
        assert torch.equal(*buffers), "the copy differs"

    return Case(
        f"cuda copy {size}",
        setup,
        check,
        lambda _, rng: None,
        lambda buffers, _: buffers[0].copy_(buffers[1]),
        torch.cuda.synchronize,
    )
