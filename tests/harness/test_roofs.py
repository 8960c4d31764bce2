"""The roofs are rates of work that was checked, and the work of a call is counted right."""

import numpy as np
import pytest

from harness import roofs, workload
from harness.cases.work import copy_work, infer_work, step_work, tree_work
from harness.progress import silent


@pytest.fixture(scope="module")
def measured():
    return roofs.profile(0.0, silent)  # one round


def test_every_device_has_a_peak_and_bandwidths(measured):
    found = {(row.device, row.quantity, row.unit) for row in measured}
    devices = {row.device for row in measured}
    assert "cpu" in devices
    for device in devices:
        assert {(device, "peak", "FLOP/s"), (device, "copy_bandwidth", "B/s")} <= found


def test_a_roof_is_its_amount_over_the_time(measured):
    for row in measured:
        assert row.status != "failed", row.reason
        assert row.value > 1e6
        assert row.provenance == "measured"
        assert row.details.get("footprint_bytes", 2) % 2 == 0


def test_a_roof_that_fails_its_check_has_no_rate(monkeypatch):
    def broken(_):
        raise AssertionError("wrong")

    case = roofs.Case("a", lambda: None, broken, lambda _, rng: None, lambda _, __: None)
    roof = roofs.Roof("cpu", "peak", "FLOP/s", 1.0, case, {})
    for name, found in (("_cpu", [roof]), ("_opencl", []), ("_cuda", [])):
        monkeypatch.setattr(roofs, name, lambda found=found: found)
    (row,) = roofs.profile(0.0, silent)
    assert (row.status, row.value) == ("failed", None)


def test_buffers_fit_their_cache_and_the_last_fits_none():
    assert roofs.buffer_sizes([48 * 2**10, 2**20, 32 * 2**20]) == [2**18, 2**23, 320 * 2**20]
    assert roofs.buffer_sizes([]) == [2**27]


def test_few_bytes_are_drawn_and_a_wrong_copy_is_seen():
    """All of the largest buffers drawn anew, and compared slowly, took longer than the whole budget."""
    drawn = 2**20 - 3
    source = roofs.source_bytes(4 * 2**20)
    assert source.dtype.itemsize == 1
    assert len(np.unique(source[:drawn])) > 200
    assert np.array_equal(source[drawn:], source[:-drawn])
    assert not np.array_equal(source[2**20 :], source[: -(2**20)]), "a shift by pages is seen"
    copy = source.copy()
    roofs.expect_copy(copy, source)
    copy[-1] += 1
    with pytest.raises(AssertionError, match="differs"):
        roofs.expect_copy(copy, source)


def test_work_by_hand():
    item = workload.load("cartpole-ddpg")  # 4 observations, 1 action, networks of 4-8-8-1 and 5-8-8-1
    assert infer_work(item).flops == 2 * (4 * 8 + 8 * 8 + 8 * 1)
    words = 4 * 8 + 8 + 8 * 8 + 8 + 8 + 1 + 4
    assert infer_work(item).traffic_bytes == 4 * words
    tree = tree_work(item, 32, update=False)
    levels = 5  # 16^4 < 100,000 leaves <= 16^5
    assert (tree.flops, tree.traffic_bytes) == (32 * levels * 16, 32 * levels * 16 * 4)
    assert tree_work(item, 32, update=True).traffic_bytes == tree.traffic_bytes + 32 * (levels + 1) * 4
    assert copy_work(item, 10, 100).traffic_bytes == 2 * 10 * 11 * 4  # 2 x 4 + 1 + 2 words a transition


def test_a_steps_arithmetic_grows_with_the_batch_and_its_state_does_not():
    item = workload.load("cartpole-ddpg")
    small, large = (step_work(item, size) for size in (32, 64))
    # Forward and backward of actor and critic: at least six times the networks' multiply-accumulates.
    assert small.flops >= 6 * 32 * (104 + 112)
    assert large.flops == 2 * small.flops
    assert large.traffic_bytes - small.traffic_bytes == 32 * (2 * 4 + 1 + 1 + 1 + 1) * 4
