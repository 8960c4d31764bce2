import pytest

from harness.errors import UserError
from harness.mapping import Mapping, Target


@pytest.mark.parametrize(
    "text",
    ["torch-native-cpu", "torch:cuda-native-cpu", "fpga:u200-fpga:u200-fpga:u200", "native-native-cpu"],
)
def test_a_mapping_reads_back_as_written(text: str) -> None:
    assert str(Mapping.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "torch", "torch-native", "torch-native-cpu-x", "torch:-native-cpu", "-native-cpu"]
)
def test_a_malformed_mapping_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(UserError, match="LEARNER-RMM-STORAGE"):
        Mapping.parse(text)


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("native", "cpu"),
        ("torch", "cpu"),
        ("torch:cuda", "cuda"),
        ("torch:cuda:1", "cuda:1"),
        ("cuda", "cuda"),
        ("fpga:u200", "fpga:u200"),
        ("cpu", "cpu"),
        ("opencl", "opencl"),
        ("opencl:1", "opencl:1"),
    ],
)
def test_the_device_a_target_occupies(text: str, device: str) -> None:
    assert Target.parse(text).device == device
