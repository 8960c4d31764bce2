"""The throughput that sampling ahead brings, and its cost in reward: each outcome, from made-up rows."""

from pathlib import Path
from typing import Any

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers import Finding, Outcome
from placerl.harness.papers.map import relaxed_loop
from placerl.harness.papers.map.predictions import NEEDS_FAST_ACTORS
from tests.harness.papers.map.test_figure_10 import WIGGLE, curves
from tests.harness.papers.map.test_predictions import acting, run
from tests.harness.papers.rows import TOO_FEW, final_return, frame_of, verdict


def finding(folder: Path, *rows: Row) -> Finding:
    return verdict("MAP-V-A", folder, *rows).finding


def both(relaxed: float, overlapped: float, size: int = 256, **more: Any) -> list[Row]:
    return [run(relaxed, size, **more), run(overlapped, size, loop="overlapped", **more)]


@pytest.mark.parametrize(
    ("gains", "outcome"),
    [
        ([1.3, 1.1], Outcome.IN_KIND),
        ([1.3, 1.0], Outcome.NO_VERDICT),
        ([1.3, 0.8], Outcome.NOT_REPRODUCED),
    ],
)
def test_it_brings_throughput_in_every_cell_or_not(
    tmp_path: Path, gains: list[float], outcome: Outcome
) -> None:
    rows = [row for size, gain in zip((32, 256), gains, strict=True) for row in both(100 * gain, 100, size)]
    found = finding(tmp_path, *rows)
    assert found.outcome is outcome
    assert [number.value for number in found.ours] == pytest.approx(gains)


@pytest.mark.parametrize("gain", [1.3, 0.8])
@pytest.mark.parametrize("hidden", [True, False])
def test_a_gain_that_slow_actors_hide_is_listed_and_not_judged(
    gain: float, hidden: bool, tmp_path: Path
) -> None:
    """The learner takes 10 ms a gradient step."""
    overlapped = run(100, 256, loop="overlapped")
    cell = [acting(100 * gain, 256, 11e-3 if hidden else 9e-3), overlapped]
    shown = Outcome.IN_KIND if gain > 1 else Outcome.NOT_REPRODUCED
    found = finding(tmp_path / "alone", *cell)
    assert found.outcome is (Outcome.NOT_RUN if hidden else shown)
    assert found.needs == (NEEDS_FAST_ACTORS if hidden else "")
    assert ("(not judged: the actors are the slowest part)" in found.ours[0].quantity) == hidden
    others = finding(tmp_path / "up", *cell, *both(130, 100, 32))
    assert others.outcome is (Outcome.IN_KIND if hidden else shown)
    said = "Not judged are 1 of 2 cells: the actors are the slowest part."
    assert (said in others.explanation) == hidden
    assert len(others.ours) == 2
    down = finding(tmp_path / "down", *cell, *both(80, 100, 32))
    assert down.outcome is Outcome.NOT_REPRODUCED


def test_the_fastest_mapping_of_a_cell_counts(tmp_path: Path) -> None:
    rows = [*both(100, 200), *both(150, 100, mapping="native-native-cpu")]
    (gain,) = finding(tmp_path, *rows).ours
    assert gain.value == pytest.approx(1.5)


def test_loops_that_differ_in_more_and_simulated_runs_say_nothing(tmp_path: Path) -> None:
    simulated = both(300, 100, mapping="fpga-native-cpu", provenance=Provenance.SIMULATED)
    rows = [run(150), run(100, loop="fused"), run(100, loop="strict"), *simulated]
    found = finding(tmp_path, *rows)
    assert found.outcome is Outcome.NOT_RUN
    assert found.needs == relaxed_loop.NEEDS


def test_noise_decides_nothing(tmp_path: Path) -> None:
    assert finding(tmp_path, *both(150, 100, **TOO_FEW)).outcome is Outcome.NO_VERDICT


def test_the_cost_in_reward_stands_next_to_it(tmp_path: Path) -> None:
    trained = [
        final_return("cartpole-ddpg", curve, final + WIGGLE[seed], seed, "MAP-F10")
        for curve, final in curves(412, 212, 412).items()
        for seed in range(5)
    ]
    found = relaxed_loop.SamplingAheadBringsThroughput().judge(frame_of(tmp_path, *both(150, 100), *trained))
    assert [number.value for number in found.ours] == pytest.approx([1.5, 0.5])
    assert "(Fig. 10)" in found.explanation
