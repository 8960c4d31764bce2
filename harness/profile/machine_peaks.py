"""The roofs of a roofline: how much arithmetic a device does at most, and how fast its memories copy, measured here.

Rows of suite `roofs`, one for each roof of a device, in interleaved rounds:

| quantity | unit | what |
|---|---|---|
| `peak` | FLOP/s | float32 multiply-adds, two operations each |
| `copy_bandwidth` | B/s | a copy between two buffers that together are `footprint_bytes`, read and written counted |

The CPU's are those of one core, as the primitive table is of one thread; OpenCL's and CUDA's of the whole device. The
smaller footprints are served by a cache, the largest by DRAM alone: each of its two buffers is `CACHES` times the last
level's size, four as STREAM's rules ask, or fewer where memory is short. A virtual machine often sees the cache of the
whole socket, whatever its share of it is: the size that the system states is the most that can help, and a footprint
beyond it is beyond any share. Where the memory for it is not there, that row is "not run" and says so. A simulated
FPGA's roofs are modelled (`harness.profile.simulated`).
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from harness.core.progress import Report, part
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.measure.conditions import default_core
from harness.measure.protocol import Case, Protocol, Timing, measure
from harness.platforms import available_memory, this_machine
from primitives import opencl_runtime

SUITE = "roofs"
CACHES = (4, 3, 2, 1.5)
"""How many times the last cache each of two buffers is in DRAM: STREAM's rule, or less where memory is short. A copy of
three times the cache in all still finds nothing there that it wrote before."""
SMALLEST_LAST_BYTES = 2**27  # of a buffer in DRAM, also where no cache is known
PATTERN_BYTES = 2**20 - 3
GIGA = 10**9


@dataclass(frozen=True)
class Roof:
    """One roof, and how to time it.

    Attributes:
        device: as in the primitive table.
        quantity: of the row.
        amount: operations or bytes of a call.
        case: does them.
        details: of the row.
        not_run: why it is not timed; empty where it is.
    """

    device: str
    quantity: str
    amount: float
    case: Case[Any]
    details: dict[str, Any]
    not_run: str = ""


def profile(budget_s: float, report: Report) -> list[Measurement]:
    """Time each roof of each device that is here, one device after the other, so that only one's buffers are there.

    Args:
        budget_s: begin no further round after this time, seconds.
        report: called with the progress.
    """
    devices = [found for found in (list(_cpu()), list(_opencl()), list(_cuda())) if found]
    rows: list[Measurement] = []
    for number, found in enumerate(devices):
        inner = part(report, number, 1, len(devices), "roofs")
        rows += _profile(found, budget_s / len(devices), inner)
    return rows


def _profile(found: list[Roof], budget_s: float, report: Report) -> list[Measurement]:
    """The rows of one device, timed in interleaved rounds."""
    protocol = Protocol(budget_s=budget_s, threads=1, lead_in_calls=1, caller_core=default_core())
    cases = [roof.case for roof in found if not roof.not_run]
    timings = measure(cases, protocol, progress=lambda done, total: report(done, total, found[0].device))
    return [_row(roof, None if roof.not_run else timings[roof.case.name]) for roof in found]


def _row(roof: Roof, timing: Timing | None) -> Measurement:
    def rate(time_s: float | None) -> float | None:
        return None if time_s is None else roof.amount / time_s

    fields: dict[str, Any] = {"status": "not_run", "reason": roof.not_run, "details": roof.details}
    if timing:
        fields = {
            "status": timing.status,
            "reason": timing.reason,
            "value": rate(timing.median_s),
            "low": rate(timing.high_s),
            "high": rate(timing.low_s),
            "samples": tuple(roof.amount / sample for sample in timing.samples_s),
            "details": {**timing.details, **roof.details},
        }
    return Measurement(
        suite=SUITE,
        primitive=roof.quantity,
        device=roof.device,
        quantity=roof.quantity,
        provenance=Provenance.MEASURED,
        **fields,
    )


def _copies(
    device: str,
    cache_bytes: list[int],
    allowed_bytes: int,
    case: Callable[[int], Case[Any]],
    details: dict[str, Any],
) -> Iterator[Roof]:
    """Yield a roof for each size of buffer, smallest first.

    All buffers of a device are there at once: the sizes that would take more than `allowed_bytes` together are not run.
    """
    total_bytes = 0
    for size in buffer_sizes(cache_bytes, allowed_bytes):
        total_bytes += 2 * size
        refused = available_memory.refusal(total_bytes, allowed_bytes)
        why = f"copies within up to {2 * size / 2**20:,.0f} MiB: {refused}" if refused else ""
        row = details | {"footprint_bytes": 2 * size}
        yield Roof(device, "copy_bandwidth", 2.0 * size, case(size), row, why)


def buffer_sizes(cache_bytes: list[int], allowed_bytes: int) -> list[int]:
    """Return the bytes of a buffer of which two fill half of each cache, and of one beyond all of them.

    The last one is as many times the largest cache as memory allows, of `CACHES`; the fewest of these where none fits.

    Args:
        cache_bytes: sizes of the caches, rising; what is smaller than 128 KiB is left out, as a call takes longer.
        allowed_bytes: memory that all buffers may take together, two of each size.
    """
    large = [size for size in cache_bytes if size >= 2**17]
    within = [size // 4 for size in large]
    beyond = [max(SMALLEST_LAST_BYTES, int(times * max(large, default=0))) for times in CACHES]
    fits = [size for size in beyond if 2 * (sum(within) + size) <= allowed_bytes]
    return [*within, max(fits, default=min(beyond))]


# The processor


def _cpu() -> Iterator[Roof]:
    from primitives._native import learner

    def block(_: None, calls: int) -> float:
        return float(calls / learner.peak_gflops(calls * 1e-3))  # a call is a thousand million operations

    peak: Case[None] = Case(
        "cpu peak", lambda: None, lambda _: None, lambda _, rng: None, _nothing, block=block
    )
    yield Roof("cpu", "peak", float(GIGA), peak, {"threads": 1})
    caches = this_machine.describe(measure_links=False).cpu.caches
    sizes = sorted({cache.size_bytes for cache in caches if cache.kind != "instruction"})
    yield from _copies("cpu", sizes, available_memory.measurement_bytes(), _numpy_copy, {"threads": 1})


def source_bytes(size: int) -> np.ndarray:
    """What is copied: random bytes that repeat after a length that divides no buffer.

    Drawn anew, those of the largest buffers would take more of the budget than their copies.
    """
    return np.resize(np.random.default_rng(0).integers(0, 255, PATTERN_BYTES, np.uint8), size)


def expect_copy(found: np.ndarray, source: np.ndarray) -> None:
    """Compare them piece by piece: the buffers are large, and comparing them whole takes half as much again.

    Raises:
        AssertionError: they differ.
    """
    for start in range(0, len(source), PATTERN_BYTES):
        piece = slice(start, start + PATTERN_BYTES)
        if not np.array_equal(found[piece], source[piece]):
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
    yield Roof("opencl", "peak", 2.0 * items * _CHAINS * _ROUNDS, peak, details)
    allowed_bytes = device.global_mem_size // available_memory.SHARE
    if device.host_unified_memory:
        allowed_bytes = available_memory.measurement_bytes()
    copies = partial(_opencl_copy, cl, context, queue)
    yield from _copies("opencl", [device.global_mem_cache_size], allowed_bytes, copies, details)


def _opencl_copy(cl: Any, context: Any, queue: Any, size: int) -> Case[Any]:
    """Source and result are on the device alone: here there is never more of them than a piece."""

    def setup() -> Any:
        source = source_bytes(PATTERN_BYTES)
        buffers = [cl.Buffer(context, cl.mem_flags.READ_WRITE, size) for _ in range(2)]
        for start in range(0, size, PATTERN_BYTES):
            cl.enqueue_copy(queue, buffers[1], source[: size - start], dst_offset=start)
        return *buffers, source

    def call(buffers: Any, _: None) -> None:
        cl.enqueue_copy(queue, buffers[0], buffers[1])

    def check(buffers: Any) -> None:
        call(buffers, None)
        for start in range(0, size, PATTERN_BYTES):
            source = buffers[2][: size - start]
            found = np.empty_like(source)
            cl.enqueue_copy(queue, found, buffers[0], src_offset=start)
            expect_copy(found, source)

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
    yield Roof("cuda", "peak", 2.0 * _SIDE**3, peak, details | {"how": f"product of {_SIDE}^3"})
    free_bytes, _ = torch.cuda.mem_get_info()
    allowed_bytes = free_bytes // available_memory.SHARE
    yield from _copies("cuda", [properties.L2_cache_size], allowed_bytes, _torch_copy, details)


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
