"""The peaks are rates of work that was checked, and the work of a call is counted right."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from placerl.primitives._native import learner as native_learner

from placerl.harness import workloads
from placerl.harness.core.progress import silent
from placerl.harness.measure.protocol import Timing
from placerl.harness.pieces.work import copy_work, infer_work, step_work, tree_work
from placerl.harness.platforms import available_memory, this_machine
from placerl.harness.platforms.machine import Cache
from placerl.harness.profile import machine_peaks
from placerl.primitives.device import opencl_runtime
from placerl.primitives.device.opencl import OpenclDevice
from tests.harness.old_form import replace
from tests.harness.validate.achieved import unmoved


@pytest.fixture(scope="module")
def measured():
    return machine_peaks.profile(0.0, silent)  # one round


def test_every_device_has_a_peak_and_bandwidths(measured):
    found = {(row.device, row.quantity, row.unit) for row in measured}
    devices = {row.device for row in measured}
    assert "cpu" in devices
    for device in devices:
        assert {(device, "peak", "FLOP/s"), (device, "copy_bandwidth", "B/s")} <= found


def test_a_peak_is_its_amount_over_the_time(measured):
    for row in measured:
        assert row.status != "failed", row.reason
        if row.status == "not_run":  # where the tests have little memory, or the processor no bfloat16
            assert row.reason.startswith(("copies within", "needs: a processor with AVX-512 BF16"))
            continue
        assert row.value > 1e6
        assert row.provenance == "measured"
        assert (row.footprint_bytes or 2) % 2 == 0


def test_a_peak_that_fails_its_check_has_no_rate(monkeypatch):
    def broken(_):
        raise AssertionError("wrong")

    case = machine_peaks.Case("a", lambda: None, broken, lambda _, rng: None, lambda _, __: None)
    peak = machine_peaks.MachinePeak("cpu", "peak", 1.0, case, {})
    for name, found in (("_cpu", [peak]), ("opencl", []), ("cuda", [])):
        monkeypatch.setattr(machine_peaks, name, lambda found=found: found)
    (row,) = machine_peaks.profile(0.0, silent)
    assert (row.status, row.value) == ("failed", None)


def idle(name: str) -> machine_peaks.Case[None]:
    return machine_peaks.Case(name, lambda: None, lambda _: None, lambda _, rng: None, lambda _, __: None)


def test_a_row_is_the_rate_at_the_median_and_at_either_end_of_its_interval():
    peak = machine_peaks.MachinePeak("cpu", "peak", 12.0, idle("a"), {"threads": 1})
    timing = Timing("a", "ok", "", unmoved(2.0, 3.0), 2.0, 1.0, 4.0, details={"calls_per_block": 7})
    row = machine_peaks._row(peak, timing)
    assert (row.value, row.low, row.high, row.samples) == (6, 3, 12, (6, 4))
    assert (row.suite, row.primitive, row.quantity, row.unit) == ("roofs", "peak", "peak", "FLOP/s")
    assert (row.timed.calls_per_block, row.threads) == (7, 1)


def test_devices_share_the_time_and_what_is_not_run_is_not_timed(monkeypatch):
    first = machine_peaks.MachinePeak("cpu", "peak", 1.0, idle("a"), {})
    devices = {
        "_cpu": [first, replace(first, case=idle("b"), not_run="no memory")],
        "opencl": [replace(first, device="opencl", case=idle("c"))],
        "cuda": [],
    }
    for name, found in devices.items():
        monkeypatch.setattr(machine_peaks, name, lambda found=found: found)
    asked, said = [], []

    def measured(cases, protocol, progress):
        asked.append(([case.name for case in cases], protocol.budget_s, protocol.threads))
        progress(1, 4)
        return {case.name: Timing(case.name, "ok", "", unmoved(2.0), 2.0) for case in cases}

    monkeypatch.setattr(machine_peaks, "measure", measured)
    rows = machine_peaks.profile(10.0, lambda done, total, what: said.append((done / total, what)))
    assert asked == [(["a"], 5, 1), (["c"], 5, 1)]
    assert [(row.device, row.status, row.value) for row in rows] == [
        ("cpu", "ok", 0.5), ("cpu", "not_run", None), ("opencl", "ok", 0.5)
    ]  # fmt: skip
    assert rows[1].reason == "no memory"
    assert [share for share, _ in said] == [1 / 8, 5 / 8]


def test_a_call_of_the_processor_s_peak_is_a_thousand_million_operations(monkeypatch):
    asked_s = []
    monkeypatch.setattr(native_learner, "peak_gflops", lambda seconds: asked_s.append(seconds) or 4.0)
    peak = next(machine_peaks._cpu())
    assert (peak.quantity, peak.amount) == ("peak", 1e9)
    assert peak.case.block(None, 8) == 2, "eight calls of 10^9 operations, of which 4 x 10^9 take a second"
    assert asked_s == [pytest.approx(8e-3)], "it is measured for a thousandth of a second a call"


@pytest.mark.parametrize(("products", "runs"), [("amx", True), ("avx512bf16", True), ("emulated", False)])
def test_bfloat16_has_a_peak_of_its_own_where_the_processor_multiplies_it(monkeypatch, products, runs):
    asked = []
    monkeypatch.setattr(
        native_learner, "peak_gflops", lambda seconds, products: asked.append((seconds, products)) or 8.0
    )
    monkeypatch.setattr(machine_peaks, "bfloat16_products", lambda: products)
    _, peak, *_ = machine_peaks._cpu()
    assert (peak.quantity, peak.amount) == ("peak", 1e9)
    assert peak.columns == {"threads": 1, "precision": "bfloat16", "products": products}
    assert peak.case.block(None, 8) == 1, "eight calls of 10^9 operations, at 8 x 10^9 a second"
    assert asked == [(pytest.approx(8e-3), "bfloat16")]
    assert (not peak.not_run) == runs
    assert runs or "AMX" in peak.not_run


def test_the_peaks_of_a_cuda_device_are_counted_and_checked_without_one(monkeypatch):
    """On tensors of the CPU: its product and its copies do the same there."""
    properties = SimpleNamespace(name="GPU", L2_cache_size=2**26)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert list(machine_peaks.cuda()) == []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: properties)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (4 * 2**30, 8 * 2**30))
    peak, cached, memory = machine_peaks.cuda()
    assert (peak.device, peak.quantity, peak.amount) == ("cuda", "peak", 2 * 4096**3)
    assert (peak.columns["name"], peak.columns["how"]) == ("GPU", "product of 4096^3")
    assert (cached.quantity, cached.amount, cached.columns["footprint_bytes"]) == (
        "copy_bandwidth",
        2**25,
        2**25,
    )
    assert memory.amount == 2 * 4 * 2**26, (
        "four times the cache in each of two buffers, in a quarter of 4 GiB"
    )
    assert not memory.not_run

    def on_the_cpu(name):
        made = getattr(torch, name)

        def without_device(*arguments, device, **others):
            assert device == "cuda"
            return made(*arguments, **others)

        monkeypatch.setattr(torch, name, without_device)

    for name in ("randn", "randint"):
        on_the_cpu(name)
    monkeypatch.setattr(machine_peaks, "_SIDE", 96)
    small, *_ = machine_peaks.cuda()
    a, b, out = made = small.case.setup()
    small.case.call(made, None)
    torch.testing.assert_close(out, a @ b)
    small.case.check(made)
    product = torch.mm
    with monkeypatch.context() as patch:
        patch.setattr(torch, "mm", lambda a, b, out: out.copy_(1.02 * product(a, b)))
        with pytest.raises(AssertionError):
            small.case.check(made)
    copy = machine_peaks._torch_copy(1000)
    target, source = made = copy.setup()
    assert source.unique().numel() > 100
    assert target.shape == source.shape == (1000,)
    copy.call(made, None)
    assert torch.equal(target, source)
    copy.check(made)


def test_buffers_fit_their_cache_and_the_last_fits_none():
    assert machine_peaks.buffer_sizes([48 * 2**10, 2**20, 64 * 2**20], 2**31) == [2**18, 2**24, 256 * 2**20]
    assert machine_peaks.buffer_sizes([], 2**31) == [2**27]
    assert machine_peaks.buffer_sizes([2**17 - 1, 2**17], 2**31) == [2**15, 2**27], "128 KiB are the least"


@pytest.mark.parametrize(
    ("allowed_mib", "times"),
    # Two buffers of a quarter of the cache, and two of so many times it.
    [(240 + 960 * 4, 4), (240 + 960 * 4 - 1, 3), (240 + 960 * 2, 2), (240 + 960 * 2 - 1, 1.5), (100, 1.5)],
)
def test_where_memory_is_short_the_last_buffer_is_fewer_times_the_cache(allowed_mib, times):
    sizes = machine_peaks.buffer_sizes([480 * 2**20], allowed_mib * 2**20)
    assert sizes == [120 * 2**20, int(times * 480) * 2**20]


def cache(kind, level, size_bytes):
    return Cache(kind=kind, level=level, size_bytes=size_bytes, line_bytes=64, shared_by_cores=1)


@pytest.fixture
def cpu_of(monkeypatch):
    """The peaks of a processor with a last level of so many bytes, where a measurement may take so many."""
    here = this_machine.describe(measure_links=False)

    def fake(last_bytes, allowed_bytes):
        caches = (cache("instruction", 1, 2**30), cache("data", 1, 2**18), cache("unified", 3, last_bytes))
        described = here.model_copy(update={"cpu": here.cpu.model_copy(update={"caches": caches})})
        monkeypatch.setattr(this_machine, "describe", lambda **_: described)
        monkeypatch.setattr(available_memory, "measurement_bytes", lambda: allowed_bytes)
        for other in ("opencl", "cuda"):
            monkeypatch.setattr(machine_peaks, other, lambda: [])

    return fake


def test_where_the_memory_for_dram_is_not_there_its_row_says_so(cpu_of):
    """A cloud's processor: 480 MiB of cache, of which nobody knows what share a virtual machine gets."""
    cpu_of(480 * 2**20, 64 * 2**20)
    rows = machine_peaks.profile(0.0, silent)
    found = {row.footprint_bytes: row for row in rows if row.quantity == "copy_bandwidth"}
    assert list(found) == [2**17, 240 * 2**20, 1440 * 2**20]
    assert [row.status == "not_run" for row in found.values()] == [False, True, True]
    for row in list(found.values())[1:]:
        assert row.value is None
        assert row.reason.endswith(
            "(a quarter of what is available, and at most 2.5 GB of its own in the whole process)"
        )
    assert found[1440 * 2**20].reason.startswith(
        "copies within up to 1,440 MiB: needs 1.76 GB of memory; allowed: 0.07 GB"
    )


def test_buffers_take_no_more_than_is_allowed(cpu_of):
    allowed_bytes = 2**18 // 2 + 2**23 + 2**28  # all three
    cpu_of(2**24, allowed_bytes)
    copies = [peak for peak in machine_peaks._cpu() if peak.quantity != "peak"]
    assert copies
    assert not [copy for copy in copies if copy.not_run]
    cpu_of(2**24, allowed_bytes - 1)
    assert [
        peak.columns["footprint_bytes"]
        for peak in machine_peaks._cpu()
        if peak.not_run and peak.quantity != "peak"
    ] == [2**28]


def test_an_opencl_device_with_memory_of_its_own_is_held_to_that(monkeypatch):
    if reason := opencl_runtime.unavailable_reason():
        pytest.skip(reason)
    real = opencl_runtime.devices()[0]

    class Device:
        host_unified_memory, global_mem_size, global_mem_cache_size = False, 2**30, 2**18

        def __getattr__(self, name):
            return getattr(real, name)

    device = Device()
    monkeypatch.setattr(opencl_runtime, "devices", lambda: [device])
    monkeypatch.setattr(opencl_runtime, "context", lambda device: None)
    monkeypatch.setattr(OpenclDevice, "stream", lambda device: SimpleNamespace(finish=None))
    monkeypatch.setattr(available_memory, "measurement_bytes", lambda: 0)
    assert [bool(peak.not_run) for peak in machine_peaks.opencl()] == [False, False, True], (
        "peak, cache, memory"
    )


def test_the_operations_of_an_opencl_device_are_those_of_its_kernel():
    """A round multiplies and adds eight vectors of 16 numbers."""
    if reason := opencl_runtime.unavailable_reason():
        pytest.skip(reason)
    peak = next(machine_peaks.opencl())
    asked = []
    peak.case.call((SimpleNamespace(launch=lambda *arguments: asked.append(arguments)), None, None), None)
    ((_, items, _, rounds),) = asked
    assert peak.amount == 2 * 8 * 16 * items * int(rounds)


def test_a_kernel_of_an_opencl_device_whose_last_number_is_wrong_is_seen(monkeypatch):
    if reason := opencl_runtime.unavailable_reason():
        pytest.skip(reason)
    stored = "out[WORK_ITEM] = a[0];"
    assert stored in machine_peaks._KERNEL
    last = "if (get_global_id(0) == get_global_size(0) - 1) a[0].sf += 1;"
    monkeypatch.setattr(machine_peaks, "_KERNEL", machine_peaks._KERNEL.replace(stored, last + stored))
    peak = next(machine_peaks.opencl()).case
    with pytest.raises(AssertionError, match="1 / "):
        peak.check(peak.setup())


def test_a_wrong_copy_of_an_opencl_device_is_seen():
    if reason := opencl_runtime.unavailable_reason():
        pytest.skip(reason)
    stream = OpenclDevice(opencl_runtime.devices()[0]).stream()
    size = 2 * machine_peaks.PATTERN_BYTES + 5
    copy = machine_peaks._opencl_copy(stream, size)
    buffers = copy.setup()
    copy.check(buffers)
    for place in (0, machine_peaks.PATTERN_BYTES, size - 1):
        buffers = copy.setup()
        wrong = buffers[2][
            place % machine_peaks.PATTERN_BYTES : place % machine_peaks.PATTERN_BYTES + 1
        ] + np.uint8(1)
        stream.upload(buffers[1], wrong, place)
        with pytest.raises(AssertionError, match="differs"):
            copy.check(buffers)


def test_few_bytes_are_drawn_and_a_wrong_copy_is_seen():
    """All of the largest buffers drawn anew, and compared slowly, took longer than the whole budget."""
    drawn = 2**20 - 3
    source = machine_peaks.source_bytes(4 * 2**20)
    assert source.dtype.itemsize == 1
    assert len(np.unique(source[:drawn])) > 200
    assert np.array_equal(source[drawn:], source[:-drawn])
    assert not np.array_equal(source[2**20 :], source[: -(2**20)]), "a shift by pages is seen"
    copy = source.copy()
    machine_peaks.expect_copy(copy, source)
    copy[-1] += 1
    with pytest.raises(AssertionError, match="differs"):
        machine_peaks.expect_copy(copy, source)


def test_work_by_hand():
    item = workloads.load("cartpole-ddpg")  # 4 observations, 1 action, networks of 4-8-8-1 and 5-8-8-1
    assert infer_work(item).flops == 2 * (4 * 8 + 8 * 8 + 8 * 1)
    words = 4 * 8 + 8 + 8 * 8 + 8 + 8 + 1 + 4
    assert infer_work(item).traffic_bytes == 4 * words
    tree = tree_work(item, 32, update=False)
    levels = 5  # 16^4 < 100,000 leaves <= 16^5
    assert (tree.flops, tree.traffic_bytes) == (32 * levels * 16, 32 * levels * 16 * 4)
    assert tree_work(item, 32, update=True).traffic_bytes == tree.traffic_bytes + 32 * (levels + 1) * 4
    row_bytes = (4 + 1 + 1 + 4) * 4 + 1  # the terminated flag is a byte
    assert copy_work(item, 10, 100).traffic_bytes == 2 * 10 * row_bytes
    assert copy_work(item, 10, 100).footprint_bytes == 110 * row_bytes
    frames = copy_work(workloads.load("pong-dqn"), 1, 2).traffic_bytes
    assert frames == 2 * (2 * 4 * 84 * 84 + 8 + 4 + 1), "a frame's number is a byte, an action eight"


def test_a_steps_arithmetic_grows_with_the_batch_and_its_state_does_not():
    item = workloads.load("cartpole-ddpg")
    small, large = (step_work(item, size) for size in (32, 64))
    # Forward and backward of actor and critic: at least six times the networks' multiply-accumulates.
    assert small.flops >= 6 * 32 * (104 + 112)
    assert large.flops == 2 * small.flops
    assert large.traffic_bytes - small.traffic_bytes == 32 * (2 * 4 + 1 + 1 + 1 + 1) * 4
