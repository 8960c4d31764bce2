"""PPO Fig. 10 and 11: verdicts from rows of its iterations."""

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.base import Outcome
from placerl.harness.papers.ppo import figures_10_11
from placerl.primitives.fpga.cycles.ppo import PpoIteration
from tests.harness.old_form import details_of, replace
from tests.harness.papers.drawn import points
from tests.harness.papers.ppo.test_table_2 import LARGE, SMALL, finding, rows
from tests.harness.papers.rows import frame_of


def test_times_of_mujoco(tmp_path: Path) -> None:
    faster = [rows("Hopper", item, 1.0, 2.0, s) for item, s in ((SMALL, 4.0), (LARGE, 2.0))]
    assert finding("PPO-F10", tmp_path / "a", *faster).outcome is Outcome.NO_VERDICT
    slower = rows("Hopper", SMALL, 1.0, 0.5, 4.0)
    assert finding("PPO-F10", tmp_path / "b", slower).outcome is Outcome.NOT_REPRODUCED
    assert finding("PPO-F10", tmp_path / "c").outcome is Outcome.NOT_RUN


@pytest.mark.parametrize(
    ("small_s", "large_s", "cycles", "outcome"),
    [
        (4.0, 2.0, 1.5, Outcome.NO_VERDICT),
        (2.0, 4.0, 1.0, Outcome.NOT_REPRODUCED),  # small mini-batches are faster on the CPU, and not here
        (2.0, 4.0, 0.4, Outcome.NO_VERDICT),  # nor are they slower here
        (4.0, 3.9, 3.0, Outcome.NO_VERDICT),  # what is left out may be the same for both
    ],
)
def test_small_mini_batches_slow_down_the_cpu_and_the_accelerator(
    small_s: float, large_s: float, cycles: float, outcome: Outcome, tmp_path: Path
) -> None:
    few, many = rows("Hopper", SMALL, 1.0, 2.0, small_s), rows("Hopper", LARGE, 1.0, 2.0, large_s)
    second = details_of(few[1])["cycles"]["inference"]
    training = {"inference": second, "training": round(cycles * second)}
    few[1] = replace(few[1], details=details_of(few[1]) | {"cycles": training})
    found = finding("PPO-F10", tmp_path, few, many)
    assert found.outcome is outcome
    assert (
        "Of 5 statements, that the accelerator is faster at training and at inferences" in found.explanation
    )
    assert f"the CPU, {outcome is Outcome.NOT_REPRODUCED:d} are refuted" in found.explanation
    values = {number.quantity: (number.value, number.provenance) for number in found.ours}
    name = "Hopper, N=16, T=512, M=64: training over that with M=512"
    assert values[f"{name}, CPU"] == (pytest.approx(small_s / large_s), Provenance.MEASURED)
    assert values[f"{name}, FPGA"] == (pytest.approx(cycles), Provenance.SIMULATED)
    gain = "Hopper, N=16, T=512, M=64: training, FPGA over CPU, at most"
    assert values[gain] == (pytest.approx(small_s / cycles, rel=0.01), Provenance.SIMULATED)


def test_values_of_samples_are_inferences_too(tmp_path: Path) -> None:
    stored = rows("Hopper", SMALL, 1.0, 0.7, 4.0, prepare_s=0.6)
    found = finding("PPO-F10", tmp_path, stored)
    assert found.outcome is Outcome.NO_VERDICT
    values = {number.quantity: number.value for number in found.ours}
    name = "Hopper, N=16, T=512, M=64: inference, FPGA over CPU, at most"
    assert values[name] == pytest.approx(1.3, rel=0.01)


@pytest.mark.parametrize(
    ("infer_s", "learner_s", "outcome"),
    [
        (3.0, 0.8, Outcome.NO_VERDICT),  # training takes 1.25 times as long as the GPU's, at least
        (3.0, 0.5, Outcome.NOT_REPRODUCED),  # twice as long: not slightly
        (3.0, 1.2, Outcome.NO_VERDICT),  # faster, by an upper bound
        (3.0, 0.68, Outcome.NO_VERDICT),  # 1.5 times as long is slightly slower
        (3.0, 0.64, Outcome.NOT_REPRODUCED),
        (1.05, 0.7, Outcome.NOT_REPRODUCED),  # 2.75 s here, where the accelerator with its host takes 3
        (1.0, 1.05, Outcome.NO_VERDICT),  # its interval holds the accelerator's time
        (0.5, 0.8, Outcome.NOT_REPRODUCED),
    ],
)
def test_pong_beside_a_gpu(infer_s: float, learner_s: float, outcome: Outcome, tmp_path: Path) -> None:
    iteration = PpoIteration(4, 128, 32, 3)
    here, there = (rows("Pong", iteration, 1.0, infer_s, learner_s, device) for device in ("cpu", "cuda"))
    assert finding("PPO-F11", tmp_path / "a", here).outcome is Outcome.NOT_RUN
    found = finding("PPO-F11", tmp_path / "b", here, there[:1])
    assert found.outcome is outcome
    assert ("Of 3 statements 0 are refuted" in found.explanation) == (outcome is Outcome.NO_VERDICT)
    numbers = 10 if outcome is Outcome.NOT_REPRODUCED else 5  # as many of a program of Baselines' kind
    assert len(found.ours) == numbers, "training and inferences over both, and the whole over the GPU"


def test_parts_are_drawn_over_the_mini_batch(tmp_path: Path) -> None:
    """Of iterations that differ in more the most that are alike."""
    made = [
        row
        for item in (SMALL, LARGE, PpoIteration(4, 512, 512, 10))
        for row in rows("Hopper", item, 1.0, 2.0, 4.0)
    ]
    figure = figures_10_11.MujocoTimes().draw(frame_of(tmp_path, *made))
    assert points(figure) == {
        "training on the CPU": 2,
        "inferences on the CPU": 2,
        "training on the FPGA, at least (simulated)": 2,
        "inferences on the FPGA, at least (simulated)": 2,
    }
