"""Device assignments: hardware counts, backends do not."""

from types import SimpleNamespace

import pytest

from placerl.harness.mapping import Mapping
from placerl.harness.mapping.assignments import Assignment, baseline_supports
from placerl.primitives.device import opencl_runtime


@pytest.mark.parametrize(
    ("mapping", "assignment"),
    [
        ("native-native-cpu", "cpu-cpu"),
        ("torch-flat-cpu", "cpu-cpu"),
        ("torch:cuda-native-cpu", "cuda-cpu"),
        ("torch:cuda-cuda-cpu", "cuda-cuda"),
        ("fpga:u200-fpga:u200-fpga:u200", "fpga-fpga"),
        ("native-fpga-fpga", "cpu-fpga"),
    ],
)
def test_the_device_of_each_part(mapping: str, assignment: str) -> None:
    found = Assignment.of(Mapping.parse(mapping))
    assert str(found) == assignment
    assert Assignment.parse(assignment) == found
    assert found.simulated == ("fpga" in assignment)


@pytest.mark.parametrize(
    ("kind", "vendor", "device"),
    [
        (2, "Intel(R) Corporation", "cpu"),
        (4, "NVIDIA Corporation", "cuda"),
        (4, "Intel(R) Corporation", "opencl"),
    ],
)
def test_opencl_on_this_cpu_is_the_cpu_and_on_a_cuda_device_is_that(
    kind: int, vendor: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = SimpleNamespace(type=kind, vendor=vendor, name="one")
    monkeypatch.setattr(
        opencl_runtime, "load", lambda: SimpleNamespace(device_type=SimpleNamespace(CPU=2, GPU=4))
    )
    monkeypatch.setattr(opencl_runtime, "devices", lambda: (only,))
    assert Assignment.of(Mapping.parse("opencl:0-opencl-cpu")) == Assignment(device, device)
    assert Assignment.of(Mapping.parse("opencl:7-native-cpu")) == Assignment("opencl", "cpu"), (
        "there is no such device"
    )


def test_the_learner_takes_a_cpu_and_the_tree_the_first_device(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        SimpleNamespace(type=kind, vendor="any", name=name) for kind, name in ((4, "graphics"), (2, "cpu"))
    ]
    monkeypatch.setattr(
        opencl_runtime, "load", lambda: SimpleNamespace(device_type=SimpleNamespace(CPU=2, GPU=4))
    )
    monkeypatch.setattr(opencl_runtime, "devices", lambda: tuple(found))
    assert str(Assignment.of(Mapping.parse("opencl-opencl-cpu"))) == "cpu-opencl"
    assert str(Assignment.of(Mapping.parse("opencl:0-native-cpu"))) == "opencl-cpu"


@pytest.mark.parametrize(
    ("assignment", "supported"),
    [("cpu-cpu", True), ("cuda-cpu", True), ("cuda-cuda", False), ("opencl-cpu", False), ("cpu-fpga", False)],
)
def test_libraries_train_with_pytorch_and_keep_their_replay_on_the_cpu(
    assignment: str, supported: bool
) -> None:
    assert baseline_supports(Assignment.parse(assignment)) is supported
