"""Training under the mappings with a part on a device, without predictions."""

import pytest

from placerl.harness import workloads
from placerl.harness.core.progress import silent
from placerl.harness.mapping import Mapping
from placerl.harness.validate import on_device, tried
from placerl.harness.workloads import Workload


def parsed(*names: str) -> list[Mapping]:
    return [Mapping.parse(name) for name in names]


def test_a_part_is_on_the_device_and_the_other_is_native_next_to_the_native_mapping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = parsed(
        "native-native-cpu",
        "torch:cuda-native-cpu",
        "torch:cuda-flat-cpu",
        "torch:cuda-flat:cuda-cpu",
        "native-flat:cuda-cpu",
        "torch-flat:cuda-cpu",
        "torch:cuda-fpga-cpu",
    )
    monkeypatch.setattr(tried, "mappings", lambda item: every)
    chosen = on_device.mappings(workloads.load("cartpole-dqn"), "cuda")
    assert list(map(str, chosen)) == [
        "native-native-cpu",
        "torch:cuda-native-cpu",
        "torch:cuda-flat:cuda-cpu",
        "native-flat:cuda-cpu",
    ]
    assert on_device.mappings(workloads.load("cartpole-dqn"), "opencl") == []


def test_each_mapping_trains_in_both_loops_for_enough_rounds_of_an_interval() -> None:
    item = small(workloads.load("cartpole-dqn"))
    rows = on_device.trained(item, 32, 0.1, silent, parsed("native-native-cpu"))
    assert [(row.mapping, row.loop, row.quantity) for row in rows] == [
        ("native-native-cpu", "fused", "gradient_steps_per_s"),
        ("native-native-cpu", "overlapped", "gradient_steps_per_s"),
    ]
    assert all(len(row.samples) >= on_device.FEWEST_ROUNDS and row.low for row in rows)


def small(item: Workload) -> Workload:
    return workloads.override(item, "replay.capacity", 2048, "the test")


def test_without_a_mapping_there_is_nothing_to_train() -> None:
    with pytest.raises(ValueError, match="mappings: found none"):
        on_device.trained(workloads.load("cartpole-dqn"), 32, 1.0, silent, [])


@pytest.mark.gpu
def test_on_a_gpu_every_mapping_with_a_part_on_it_trains() -> None:
    item = small(workloads.load("cartpole-dqn"))
    chosen = on_device.mappings(item, "cuda")
    assert "torch:cuda-native-cpu" in map(str, chosen)
    assert len({mapping.rmm for mapping in chosen}) > 1, "MAP-F13-sharing compares them"
    rows = on_device.trained(item, 32, 0.1, silent, chosen)
    assert all(row.value for row in rows), [row.reason for row in rows]
