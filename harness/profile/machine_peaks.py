"""Measures the peaks of a roofline: the peak arithmetic of each device, and the copy bandwidth of its memories.

Rows of suite `roofs`, one per peak rate of a device, in interleaved rounds:

| quantity | unit | what |
|---|---|---|
| `peak` | FLOP/s | multiply-adds, two operations each: float32, or its `precision` |
| `copy_bandwidth` | B/s | a copy between two buffers that together are `footprint_bytes`, read and written counted |

If the processor multiplies bfloat16 (AVX-512 BF16, AMX tiles), learners in bfloat16 are compared with a peak of
their own. Elsewhere float32 instructions emulate their products, so they are compared with float32's peak, and the
row of the bfloat16 peak is "not run".

The CPU's peaks are those of one core, because the primitive table is for one thread; those of OpenCL and CUDA are of
the whole device. The smaller footprints fit in a cache. The largest fits only in DRAM: each of its two buffers is
`CACHES` times the size of the last-level cache, four times by STREAM's rule, or fewer if memory is short. A virtual
machine often reports the cache of the whole socket, whatever its own share: a footprint beyond the reported size is
beyond any share. If there is not enough memory, that row is "not run" and says so. A simulated FPGA's peaks are
modelled (`harness.profile.simulated`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from placerl.harness.core.progress import Report, part
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import HowTimed
from placerl.harness.core.suites import Suite
from placerl.harness.measure.conditions import default_core
from placerl.harness.measure.protocol import Case, Protocol, Timing, measure
from placerl.harness.pieces.learners import EMULATED, bfloat16_products
from placerl.harness.platforms import available_memory, this_machine
from placerl.harness.store import rows
from placerl.primitives.device import Stream, opencl_runtime
from placerl.primitives.device.opencl import OpenclDevice
from placerl.primitives.quantization.precision import BFLOAT_16

SUITE = Suite.MACHINE_PEAKS
CACHES = (4, 3, 2, 1.5)
"""Size of each DRAM buffer in multiples of the last-level cache: STREAM's rule, or less if memory is short. Even
with 1.5 times, no part of the buffers' data is still in the cache when it is read again.
"""
SMALLEST_LAST_BYTES = 2**27  # of a buffer in DRAM, also if no cache is known
PATTERN_BYTES = 2**20 - 3
GIGA = 10**9


@dataclass(frozen=True)
class MachinePeak:
    """One peak rate of a device, and how to time it.

    Attributes:
        device: the device, such as "cpu" or "cuda".
        quantity: quantity of its row, "peak" or "copy_bandwidth".
        amount: operations or bytes per call.
        columns: further columns of its row, such as the precision.
        not_run: why it is not timed; empty if it is.
    """

    device: str
    quantity: str
    amount: float
    case: Case[Any]
    columns: dict[str, Any]
    not_run: str = ""


def profile(budget_s: float, report: Report) -> list[rows.MachinePeak]:
    """Time each peak rate of each device of this machine, and return a row for each.

    The devices are timed one after another, so that only one device's buffers exist at a time.

    Args:
        budget_s: no further round begins after this time, seconds.
    """
    devices = [peaks for peaks in (list(_cpu()), list(opencl()), list(cuda())) if peaks]
    peak_rows: list[rows.MachinePeak] = []
    for number, peaks in enumerate(devices):
        inner = part(report, number, 1, len(devices), "machine peaks")
        peak_rows += _profile(peaks, budget_s / len(devices), inner)
    return peak_rows


def _profile(peaks: list[MachinePeak], budget_s: float, report: Report) -> list[rows.MachinePeak]:
    """Return the rows of one device, timed in interleaved rounds."""
    protocol = Protocol(budget_s=budget_s, threads=1, lead_in_calls=1, caller_core=default_core())
    cases = [peak.case for peak in peaks if not peak.not_run]
    timings = measure(cases, protocol, progress=lambda done, total: report(done, total, peaks[0].device))
    return [_row(peak, None if peak.not_run else timings[peak.case.name]) for peak in peaks]


def _row(peak: MachinePeak, timing: Timing | None) -> rows.MachinePeak:
    def rate(time_s: float | None) -> float | None:
        return None if time_s is None else peak.amount / time_s

    fields: dict[str, Any] = {"status": "not_run", "reason": peak.not_run}
    if timing:
        fields = {
            "status": timing.status,
            "reason": timing.reason,
            "value": rate(timing.median_s),
            "low": rate(timing.high_s),
            "high": rate(timing.low_s),
            "samples": tuple(peak.amount / sample for sample in timing.samples_s),
            "timed": HowTimed(**timing.details),
        }
    return rows.MachinePeak(
        suite=SUITE,
        primitive=peak.quantity,
        device=peak.device,
        quantity=peak.quantity,
        provenance=Provenance.MEASURED,
        **fields,
        **peak.columns,
    )


def _copies(
    device: str,
    cache_bytes: list[int],
    allowed_bytes: int,
    case: Callable[[int], Case[Any]],
    columns: dict[str, Any],
) -> Iterator[MachinePeak]:
    """Yield a copy bandwidth for each buffer size, smallest first.

    All buffers of a device exist at the same time: sizes that would exceed `allowed_bytes` together are not run.
    """
    total_bytes = 0
    for size in buffer_sizes(cache_bytes, allowed_bytes):
        total_bytes += 2 * size
        refused = available_memory.refusal(total_bytes, allowed_bytes)
        why = f"copies within up to {2 * size / 2**20:,.0f} MiB: {refused}" if refused else ""
        row = columns | {"footprint_bytes": 2 * size}
        yield MachinePeak(device, "copy_bandwidth", 2.0 * size, case(size), row, why)


def buffer_sizes(cache_bytes: list[int], allowed_bytes: int) -> list[int]:
    """Return the sizes of the buffers to copy, in bytes: one for each cache, and one larger than all caches.

    Two buffers of a cache's size fill half of the cache. The last size is the largest cache times the largest
    number in `CACHES` for which memory suffices, or times the smallest number if memory suffices for none; at
    least `SMALLEST_LAST_BYTES`.

    Args:
        cache_bytes: sizes of the caches, ascending. Those below 128 KiB are left out, because the overhead of a call
            would exceed the time of the copy.
        allowed_bytes: memory for all buffers together, two of each size.
    """
    large = [size for size in cache_bytes if size >= 2**17]
    within = [size // 4 for size in large]
    beyond = [max(SMALLEST_LAST_BYTES, int(times * max(large, default=0))) for times in CACHES]
    fits = [size for size in beyond if 2 * (sum(within) + size) <= allowed_bytes]
    return [*within, max(fits, default=min(beyond))]


# The processor


def cpu_peak() -> MachinePeak:
    """Return the peak of one core in float32."""
    from placerl.primitives._native import learner

    def block(_: None, calls: int) -> float:
        return float(calls / learner.peak_gflops(calls * 1e-3))  # a call is 10^9 operations

    peak: Case[None] = Case(
        "cpu peak", lambda: None, lambda _: None, lambda _, rng: None, _nothing, block=block
    )
    return MachinePeak("cpu", "peak", float(GIGA), peak, {"threads": 1})


def _cpu() -> Iterator[MachinePeak]:
    yield cpu_peak()
    yield _bfloat16_peak()
    caches = this_machine.describe(measure_links=False).cpu.caches
    sizes = sorted({cache.size_bytes for cache in caches if cache.kind != "instruction"})
    yield from _copies("cpu", sizes, available_memory.measurement_bytes(), _numpy_copy, {"threads": 1})


def _bfloat16_peak() -> MachinePeak:
    from placerl.primitives._native import learner

    def block(_: None, calls: int) -> float:
        return float(calls / learner.peak_gflops(calls * 1e-3, products=BFLOAT_16))

    products = bfloat16_products()
    peak: Case[None] = Case(
        f"cpu peak {BFLOAT_16}", lambda: None, lambda _: None, lambda _, rng: None, _nothing, block=block
    )
    columns = {"threads": 1, "precision": BFLOAT_16, "products": products}
    lacking = "needs: a processor with AVX-512 BF16 or AMX; here float32's instructions emulate bfloat16"
    return MachinePeak("cpu", "peak", float(GIGA), peak, columns, lacking if products == EMULATED else "")


def source_bytes(size: int) -> np.ndarray:
    """Return `size` bytes to copy: random bytes, repeated with a period that divides no buffer.

    To draw all bytes of the largest buffers at random would take more of the time budget than to copy them.
    """
    return np.resize(np.random.default_rng(0).integers(0, 255, PATTERN_BYTES, np.uint8), size)


def expect_copy(copy: np.ndarray, source: np.ndarray) -> None:
    """Check that a copy equals its source.

    The buffers are compared piece by piece, because a comparison of large buffers at once would take half as much
    memory again.
    """
    for start in range(0, len(source), PATTERN_BYTES):
        piece = slice(start, start + PATTERN_BYTES)
        if not np.array_equal(copy[piece], source[piece]):
            raise AssertionError("the copy differs from its source")


def _nothing(_: Any, __: Any) -> None:
    """Do nothing; the call of a case with its own clock."""


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
KERNEL(multiply_add)(GLOBAL float16 *out, int rounds) {
    float16 a[8];
    for (int i = 0; i < 8; ++i) a[i] = (float16)(WORK_ITEM + i);
    for (int round = 0; round < rounds; ++round)
        for (int i = 0; i < 8; ++i) a[i] = fma(a[i], (float16)(0.5f), (float16)(1.0f));
    for (int i = 1; i < 8; ++i) a[0] += a[i];
    out[WORK_ITEM] = a[0];
}
"""
"""OpenCL C, for its vectors."""
_ROUNDS, _ITEMS_PER_UNIT, _CHAINS = 4096, 256, 8 * 16


def opencl() -> Iterator[MachinePeak]:
    """Yield the peaks of the first OpenCL device, its arithmetic first; none without a device."""
    if opencl_runtime.unavailable_reason():
        return
    device = OpenclDevice(opencl_runtime.devices()[0])
    facts, stream = device.opencl, device.stream()
    columns = {"name": device.name, "compute_units": facts.max_compute_units}
    items = _ITEMS_PER_UNIT * facts.max_compute_units

    def setup() -> Any:
        return stream, device.kernels(_KERNEL)["multiply_add"], device.allocate(items * 64)

    def call(state: Any, _: None) -> None:
        used, kernel, out = state
        used.launch(kernel, items, out, np.int32(_ROUNDS))

    def check(state: Any) -> None:
        call(state, None)
        values = stream.download(state[2], items * 16, np.float32)
        np.testing.assert_array_equal(values, np.float32(16))  # x = x/2 + 1 converges to 2, eight times

    peak = Case("opencl peak", setup, check, lambda _, rng: None, call, stream.finish)
    yield MachinePeak("opencl", "peak", 2.0 * items * _CHAINS * _ROUNDS, peak, columns)
    allowed_bytes = facts.global_mem_size // available_memory.SHARE
    if facts.host_unified_memory:
        allowed_bytes = available_memory.measurement_bytes()
    copies = partial(_opencl_copy, stream)
    yield from _copies("opencl", [facts.global_mem_cache_size], allowed_bytes, copies, columns)


def _opencl_copy(stream: Stream, size: int) -> Case[Any]:
    """Return a copy whose source and result are only on the device; the host never holds more than a piece."""

    def setup() -> Any:
        source = source_bytes(PATTERN_BYTES)
        buffers = [stream.device.allocate(size) for _ in range(2)]
        for start in range(0, size, PATTERN_BYTES):
            stream.upload(buffers[1], source[: size - start], start)
        return *buffers, source

    def call(buffers: Any, _: None) -> None:
        stream.copy(buffers[0], buffers[1], size)

    def check(buffers: Any) -> None:
        call(buffers, None)
        for start in range(0, size, PATTERN_BYTES):
            source = buffers[2][: size - start]
            expect_copy(stream.download(buffers[0], source.shape, source.dtype, start), source)

    return Case(f"opencl copy {size}", setup, check, lambda _, rng: None, call, stream.finish)


# CUDA

_SIDE = 4096


def cuda() -> Iterator[MachinePeak]:
    """Yield the peaks of the first CUDA device, its arithmetic first; none without a device."""
    import torch

    if not torch.cuda.is_available():
        return
    properties = torch.cuda.get_device_properties(0)
    columns = {"name": properties.name, "tf32": torch.backends.cuda.matmul.allow_tf32}

    def setup() -> Any:
        a, b = (torch.randn(_SIDE, _SIDE, device="cuda") for _ in range(2))
        return a, b, torch.empty_like(a)

    def check(state: Any) -> None:
        a, b, out = state
        torch.mm(a, b, out=out)
        torch.testing.assert_close(out[:64].double(), a[:64].double() @ b.double(), rtol=1e-3, atol=1e-2)

    peak: Case[Any] = Case(
        "cuda peak",
        setup,
        check,
        lambda _, rng: None,
        lambda state, _: torch.mm(state[0], state[1], out=state[2]),
        torch.cuda.synchronize,
    )
    yield MachinePeak("cuda", "peak", 2.0 * _SIDE**3, peak, columns | {"how": f"product of {_SIDE}^3"})
    free_bytes, _ = torch.cuda.mem_get_info()
    allowed_bytes = free_bytes // available_memory.SHARE
    yield from _copies("cuda", [properties.L2_cache_size], allowed_bytes, _torch_copy, columns)


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
