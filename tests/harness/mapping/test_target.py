"""Targets and mappings read back as written, and say which devices they occupy."""

import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.mapping.target import Mapping, Target


@pytest.mark.parametrize(
    "text",
    [
        "torch-native-cpu", "torch:cuda-native-cpu", "fpga:u200-fpga:u200-fpga:u200", "native-native-cpu",
        "native[dynamic]-native-cpu", "torch[fixed16]:cuda:1-native-cpu",
    ],
)  # fmt: skip
def test_a_mapping_reads_back_as_written(text: str) -> None:
    assert str(Mapping.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "torch", "torch-native", "torch-native-cpu-x", "torch:-native-cpu", "-native-cpu",
        "native[fixed32-native-cpu", "[fixed32]-native-cpu", "native:0[fixed32]-native-cpu",
        "native[fixed32][fixed16]-native-cpu",
    ],
)  # fmt: skip
def test_a_malformed_mapping_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(UserError, match="LEARNER-RMM-STORAGE") as refused:
        Mapping.parse(text)
    assert refused.value.found == (text or "''")


def test_a_precision_is_part_of_a_target_and_float32_goes_without_saying() -> None:
    assert Target.parse("torch[fixed16]:cuda") == Target("torch", "cuda", "fixed16")
    assert Target.parse("native[float32]") == Target.parse("native") == Target("native")
    assert Target.parse("native[fixed32]") not in (Target("native"), Target("native", "", "fixed16"))
    assert str(Target("torch", "cuda", "fixed16")) == "torch[fixed16]:cuda"
    assert Target("torch", "cuda", "fixed16").kind == "torch[fixed16]"


def test_an_unknown_precision_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(UserError, match=r"found fixd32; allowed: .*did you mean fixed32"):
        Mapping.parse("native[fixd32]-native-cpu")
    with pytest.raises(UserError, match="found nothing; allowed: float32, fixed32, fixed16, dynamic"):
        Mapping.parse("native[]-native-cpu")


@pytest.mark.parametrize("text", ["native-native[fixed32]-cpu", "native-native-cpu[fixed32]"])
def test_a_precision_belongs_to_the_learner_alone(text: str) -> None:
    with pytest.raises(UserError, match="allowed: of the learner alone"):
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
        ("native[dynamic]", "cpu"),
        ("torch[fixed32]:cuda", "cuda"),
    ],
)
def test_the_device_a_target_occupies(text: str, device: str) -> None:
    assert Target.parse(text).device == device


def test_the_first_cuda_device_is_one_whether_or_not_it_is_numbered() -> None:
    numbered = Mapping.parse("torch[fixed16]:cuda:0-cuda:0-cuda:0")
    assert numbered == Mapping.parse("torch[fixed16]:cuda-cuda-cuda")
    assert (str(numbered), numbered.devices) == ("torch[fixed16]:cuda-cuda-cuda", {"cuda"})
    for other in ("torch:cuda:1", "cuda:1", "cuda:h200", "opencl:0", "fpga:u200"):
        assert str(Target.parse(other)) == other


def test_a_mapping_occupies_each_device_once() -> None:
    assert Mapping.parse("torch:cuda-native-cpu").devices == {"cuda", "cpu"}
    assert Mapping.parse("fpga:u200-fpga:u200-cuda").devices == {"fpga:u200", "cuda"}


def test_targets_and_mappings_are_sorted_by_their_names() -> None:
    names = ["native-flat-cpu", "native-native-cpu", "torch-flat-cpu", "torch:cuda-flat-cpu"]
    assert [str(one) for one in sorted(map(Mapping.parse, reversed(names)))] == names
    assert sorted([Target("b"), Target("a", "2"), Target("a")]) == [
        Target("a"),
        Target("a", "2"),
        Target("b"),
    ]
