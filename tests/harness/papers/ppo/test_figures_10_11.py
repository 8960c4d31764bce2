"""PPO Fig. 10 and 11: verdicts from rows of its iterations."""

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness.papers.base import Outcome
from placerl.harness.papers.ppo import figures_10_11
from placerl.primitives.fpga.cycles.ppo import PpoIteration
from tests.harness.papers.drawn import points
from tests.harness.papers.ppo.test_table_2 import LARGE, SMALL, finding, rows
from tests.harness.papers.rows import frame_of


def test_times_of_mujoco(tmp_path: Path) -> None:
    faster = [rows("Hopper", item, 1.0, 2.0, s) for item, s in ((SMALL, 4.0), (LARGE, 2.0))]
    assert finding("PPO-F10", tmp_path / "a", *faster).outcome is Outcome.NO_VERDICT
    slower = rows("Hopper", SMALL, 1.0, 0.5, 4.0)
    assert finding("PPO-F10", tmp_path / "b", slower).outcome is Outcome.NOT_REPRODUCED
    assert finding("PPO-F10", tmp_path / "c").outcome is Outcome.NOT_RUN


def test_values_of_samples_are_inferences_too(tmp_path: Path) -> None:
    made = rows("Hopper", SMALL, 1.0, 0.7, 4.0, prepare_s=0.6)
    found = finding("PPO-F10", tmp_path, made)
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
        (0.5, 0.8, Outcome.NOT_REPRODUCED),
    ],
)
def test_pong_beside_a_gpu(infer_s: float, learner_s: float, outcome: Outcome, tmp_path: Path) -> None:
    iteration = PpoIteration(4, 128, 32, 3)
    here, there = (rows("Pong", iteration, 1.0, infer_s, learner_s, device) for device in ("cpu", "cuda"))
    assert finding("PPO-F11", tmp_path / "a", here).outcome is Outcome.NOT_RUN
    assert finding("PPO-F11", tmp_path / "b", here, there[:1]).outcome is outcome


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
