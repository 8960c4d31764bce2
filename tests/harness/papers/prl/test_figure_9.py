"""Re-allocated actors: verdicts from made-up rows."""

from pathlib import Path

import pytest

from placerl.harness.compare.parts import OurSide, label
from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from placerl.harness.papers.prl import figure_9
from tests.harness.old_form import details_of, replace
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import compared, final_return, frame_of, verdict

OTHERS = (
    ("rllib", "cartpole-dqn"),
    ("sb3", "mountaincar-ddpg"),
    ("sb3", "pong-dqn"),
    ("rllib", "pong-dqn"),
)
"""The comparisons that PRL's statement on all benchmarks and both libraries also needs."""


def trainings(final: float) -> list[Row]:
    """Training runs whose re-allocated actors end at `final`, the others at 400 and a little more; all begin at 10."""
    return [
        final_return("cartpole-ddpg", curve, end + seed, seed, "PRL-F9")
        for curve, end in (("two actors", 400.0), ("re-allocated", final))
        for seed in range(5)
    ]


@pytest.mark.parametrize(
    ("verdicts", "final", "outcome"),
    [
        (("faster", "faster"), 400.0, Outcome.IN_KIND),
        (("faster", "slower"), 400.0, Outcome.NOT_REPRODUCED),
        (("faster", "faster, but learns less"), 400.0, Outcome.NOT_REPRODUCED),
        (("faster", "faster; returns not compared"), 400.0, Outcome.NO_VERDICT),
        (("faster", "no verdict"), 400.0, Outcome.NO_VERDICT),
        (("faster", "faster"), 200.0, Outcome.NOT_REPRODUCED),  # half of the gain
        (("faster", "faster"), 360.0, Outcome.NO_VERDICT),  # about nine tenths of it
        (("faster", "faster"), None, Outcome.NO_VERDICT),  # re-allocation was not trained
        (("faster",), 400.0, Outcome.NO_VERDICT),  # RLlib was not compared
        (("slower",), 400.0, Outcome.NOT_REPRODUCED),
        ((), 400.0, Outcome.NOT_RUN),
    ],
)
def test_faster_at_the_same_reward(
    verdicts: tuple[str, ...], final: float | None, outcome: Outcome, tmp_path: Path
) -> None:
    """The first comparison is with Stable-Baselines3 on CartPole, the second one with RLlib on MountainCar."""
    places = (("sb3", "cartpole-dqn"), ("rllib_2_6_3", "mountaincar-ddpg"))
    rows = [
        compared(3.0, word, library, workload=name)
        for word, (library, name) in zip(verdicts, places, strict=False)
    ]
    if len(verdicts) == 2:  # the other comparisons agree
        rows += [compared(3.0, "faster", library, workload=name) for library, name in OTHERS]
    rows += [] if final is None else trainings(final)
    found = verdict("PRL-F9", tmp_path, *rows).finding
    assert found.outcome is outcome
    assert len(found.ours) == len(rows) - (0 if final is None else 9)
    if outcome is Outcome.NOT_RUN:
        assert "Stable-Baselines3 or RLlib" in found.needs
    else:
        faster = verdicts.count("faster") + (len(OTHERS) if len(verdicts) == 2 else 0)
        assert f"{faster} are faster and do not clearly learn less" in found.explanation
        assert ("RLlib on mountaincar-ddpg" in found.explanation) == (len(verdicts) < 2)
        kept, lost = final == 400.0, final == 200.0
        trained = f"keeps the reward in {kept:d} of 1 workloads and costs some in {lost:d}."
        assert ("was not trained" if final is None else trained) in found.explanation


@pytest.mark.parametrize(
    ("baseline", "workload"),
    [("sb3", "hopper-ddpg"), (label("sb3", ours=OurSide(native_environments=True)), "cartpole-dqn")],
)
def test_other_workloads_and_other_environments_are_not_judged(
    baseline: str, workload: str, tmp_path: Path
) -> None:
    other = compared(3.0, "faster, but learns less", baseline, workload=workload)
    assert verdict("PRL-F9", tmp_path / "alone", other).finding.outcome is Outcome.NOT_RUN
    found = verdict("PRL-F9", tmp_path / "both", compared(3.0, "faster"), other).finding
    assert found.outcome is Outcome.NO_VERDICT
    assert found.decides.startswith("comparisons (`placerl compare`) with RLlib on cartpole-dqn")


def test_a_noisy_comparison_decides_nothing(tmp_path: Path) -> None:
    noisy = compared(3.0, "slower", status="too_noisy", reason="the interval is 40% of the median")
    assert verdict("PRL-F9", tmp_path, noisy, *trainings(400.0)).finding.outcome is Outcome.NO_VERDICT


def test_nothing_but_re_allocation_tells_the_curves_apart() -> None:
    fixed, moved = (curve.options for curve in figure_9.REALLOCATED.curves)
    assert fixed["processes"] == figure_9.REALLOCATED.actors == 2, "one of them can be given away"
    assert moved == {**fixed, "reallocate": True}


def test_both_curves_are_drawn(tmp_path: Path) -> None:
    rows = [
        final_return("cartpole-ddpg", curve, 400.0, seed, "PRL-F9")
        for curve in ("two actors", "re-allocated")
        for seed in range(5)
    ]
    made = [replace(row, details=details_of(row) | {"environment_steps": [10, 20, 30]}) for row in rows]
    assert points(figure_9.ConvergesFasterAtEqualReward().draw(frame_of(tmp_path, *made))) == {
        "two actors": 2,
        "re-allocated": 2,
    }
