"""The loop's calls on a platform that is not here, and the loop that is predicted from them."""

import pytest

from placerl.harness import platforms, workloads
from placerl.harness.core.shipped import shipped
from placerl.harness.mapping import absent_platforms
from placerl.harness.mapping.absent_loop import ACTING, host_calls, slowdown
from placerl.harness.mapping.target import Target
from placerl.harness.platforms import PlatformFile, what_if
from placerl.harness.store import reference
from placerl.harness.store.rows import PieceTime, PredictedRate

HOPPER, MAP = workloads.load("hopper-ddpg"), platforms.load("map-tpds23")


def loop(platform: PlatformFile) -> dict[str, PredictedRate]:
    _, rows = absent_platforms.predictions(HOPPER, 256, platform)
    return {row.mapping: row for row in rows if row.strategy == "composed-loop" and row.value}


def test_the_host_s_calls_are_those_of_the_last_run_at_the_nearest_batch_size() -> None:
    host = host_calls("hopper-ddpg", 200)
    assert host is not None
    (acting,) = (
        row.value
        for row in reference.load_one(shipped("results", "reference", "quick.json")).measurements
        if isinstance(row, PieceTime) and (row.workload, row.batch_size) == ("hopper-ddpg", 256)
        if (row.primitive, row.target) == (ACTING, "torch")
    )
    assert host.acting_s[Target("torch")] == acting
    assert "batch size 256 on AMD EPYC, committed run quick of" in host.source
    assert host_calls("pong-dqn", 32) is None


def test_a_round_takes_its_calls_and_what_its_links_take() -> None:
    """One gradient step a round: acting, an insertion, a sample, a batch over the link, the step and the update."""
    mapping = loop(MAP)["torch:cuda-native-cpu"]
    terms_s = mapping.terms_s or {}
    assert sum(terms_s.values()) == pytest.approx(1 / (mapping.value or 0))
    host = host_calls("hopper-ddpg", 256)
    assert host is not None
    assert terms_s["actor"] == host.acting_s[Target("torch")]
    launches_s = absent_platforms.work_of(HOPPER, 256).operations * 9.2e-6
    assert launches_s < terms_s["learner"] < 1.05 * launches_s
    assert host.source in mapping.notes["machine"]


def test_a_slower_host_acts_more_slowly() -> None:
    slow = what_if.with_number(MAP, "device.cpu.dispatch_us", 3.2)
    assert (slowdown(MAP), slowdown(slow)) == (1, 2)
    for mapping, times in (("torch:cuda-native-cpu", "actor"), ("fpga-fpga-fpga", "actor")):
        before, after = ((loop(one)[mapping].terms_s or {})[times] for one in (MAP, slow))
        assert after == pytest.approx(2 * before)


def test_no_part_is_on_a_device_that_the_platform_lacks() -> None:
    devices = {device for mapping in loop(MAP) for device in mapping.split("-")[2:]}
    assert devices == {"cpu", "cuda", "fpga"}
    assert not any(mapping.endswith("native-cuda") and "torch:cuda" not in mapping for mapping in loop(MAP))


def test_a_workload_whose_host_no_run_timed_says_so() -> None:
    _, rows = absent_platforms.predictions(workloads.load("pong-dqn"), 32, MAP)
    (row,) = (row for row in rows if row.strategy == "composed-loop")
    assert row.reason == "needs acting and the loop's own time, which no committed run has for pong-dqn"
