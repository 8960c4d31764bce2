"""Re-allocated actors: verdicts from made-up rows."""

from pathlib import Path

import pytest

from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from placerl.harness.papers.prl import figure_9
from tests.harness.old_form import details_of, replace
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import compared, final_return, frame_of, verdict


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
    libraries = zip(verdicts, ("sb3", "rllib_2_6_3"), strict=False)
    rows = [compared(3.0, word, library) for word, library in libraries]
    rows += [] if final is None else trainings(final)
    found = verdict("PRL-F9", tmp_path, *rows).finding
    assert found.outcome is outcome
    assert len(found.ours) == len(verdicts) + (final is not None)
    if outcome is Outcome.NOT_RUN:
        assert "Stable-Baselines3 or RLlib" in found.needs
    else:
        assert f"{verdicts.count('faster')} are faster and do not clearly learn less" in found.explanation
        assert ("Not compared: RLlib." in found.explanation) == (len(verdicts) < 2)
        kept, lost = final == 400.0, final == 200.0
        trained = f"keeps the reward in {kept:d} of 1 workloads and costs some in {lost:d}."
        assert ("was not trained" if final is None else trained) in found.explanation


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
