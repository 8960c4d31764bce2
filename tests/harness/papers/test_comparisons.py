"""What claims may rest on of a comparison: "faster" only where this project does not clearly learn less."""

from pathlib import Path

import pytest

from placerl.harness.compare.equal_steps import FASTER, LEARNS_LESS, NOT_COMPARED
from placerl.harness.compare.parts import ComparedPart, label
from placerl.harness.papers.comparisons import beside, gains, gains_on_gpu
from tests.harness.papers.rows import compared, frame_of

ON_GPU = "torch:cuda-native-cpu"


@pytest.mark.parametrize(
    ("stored", "part", "verdict"),
    [
        (FASTER, ComparedPart.TRAINING, "faster"),
        (LEARNS_LESS, ComparedPart.TRAINING, "no verdict"),
        (NOT_COMPARED, ComparedPart.TRAINING, "no verdict"),
        ("slower", ComparedPart.TRAINING, "slower"),
        ("no verdict", ComparedPart.TRAINING, "no verdict"),
        # Of parts that train nothing there are no returns to compare.
        (NOT_COMPARED, ComparedPart.LEARNER_AND_REPLAY, "faster"),
        (NOT_COMPARED, ComparedPart.REPLAY, "faster"),
        ("slower", ComparedPart.REPLAY, "slower"),
    ],
)
def test_a_training_is_faster_only_where_it_learns_no_less(
    tmp_path: Path, stored: str, part: ComparedPart, verdict: str
) -> None:
    frame = frame_of(tmp_path, compared(2.0, stored, primitive=str(part)))
    (gain,) = gains(frame, "sb3")
    assert (gain.ratio.value, gain.verdict) == (2.0, verdict)


def test_a_noisy_comparison_is_faster_nowhere(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, compared(2.0, FASTER, status="too_noisy", reason="wide"))
    assert [gain.verdict for gain in gains(frame, "sb3")] == ["no verdict"]


def test_a_gain_is_of_the_baselines_asked_for(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, compared(2.0, FASTER), compared(3.0, FASTER, "rllib"))
    assert [gain.ratio.value for gain in gains(frame, "rllib", "sb3")] == [3.0, 2.0]
    assert gains(frame, "cpprb") == ()
    (gain,) = gains(frame, "sb3")
    assert (gain.ratio.quantity, gain.ratio.unit) == ("cartpole-dqn, batch size 64: gain over sb3", "ratio")


def test_a_gain_on_the_gpu_has_the_networks_of_both_on_it(tmp_path: Path) -> None:
    known = {"baseline": "sb3", "verdict": FASTER}
    frame = frame_of(
        tmp_path,
        compared(2.0, FASTER),
        compared(3.0, FASTER, device="cuda:0"),
        compared(4.0, FASTER, details=known | {"mapping": "torch:cuda-native-cpu"}),
        compared(5.0, FASTER, "rllib", device="cuda:0"),
    )
    assert [gain.ratio.value for gain in gains_on_gpu(frame, "sb3")] == [3.0]


def test_a_gain_on_the_gpu_is_also_under_a_mapping_that_was_named(tmp_path: Path) -> None:
    """The predictions choose no learner on the GPU where the CPU is faster."""
    named = label("sb3", mapping=ON_GPU)
    alone = label("sb3", ComparedPart.LEARNER_AND_REPLAY, mapping=ON_GPU)
    frame = frame_of(
        tmp_path,
        *(
            compared(
                value,
                FASTER,
                baseline,
                device="cuda",
                details={"baseline": baseline, "verdict": FASTER, "mapping": ON_GPU},
            )
            for value, baseline in ((2.0, named), (3.0, alone))
        ),
    )
    assert [gain.ratio.value for gain in gains_on_gpu(frame, "sb3")] == [2.0]
    assert gains(frame, "sb3") == ()


def test_the_cells_of_a_baseline_are_those_of_every_workload() -> None:
    assert beside("sb3", "rllib") == ("compare/*/sb3", "compare/*/rllib")
