"""PAL Fig. 12 from made-up rows."""

from dataclasses import replace
from pathlib import Path

import pytest

from placerl.harness.papers import Outcome
from placerl.harness.papers.pal import figure_10, figure_12
from placerl.harness.papers.pal.figure_10_runs import COLLECTION, CONSUMPTION, TRAINING
from tests.harness.papers.drawn import points
from tests.harness.papers.pal.test_figure_10 import curves, row
from tests.harness.papers.rows import TOO_FEW, frame_of


def test_a_training_in_turns_on_one_core_is_no_split(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, *curves(1), row(TRAINING, 0, 1, 80))
    found = figure_12.EquationSplitsCores().judge(frame)
    assert (found.outcome, found.needs, found.ours) == (
        Outcome.NOT_RUN,
        figure_10.NEEDS_CURVES,
        (),
    )


def test_noise_hides_which_split_is_the_fastest(tmp_path: Path) -> None:
    runs = [(0, 1, 80.0), (1, 3, 280.0), (2, 2, 250.0)]
    rows = [*curves(4), *(row(TRAINING, a, b, rate) for a, b, rate in runs)]
    rows[-1] = replace(rows[-1], **TOO_FEW)
    assert figure_12.EquationSplitsCores().judge(frame_of(tmp_path, *rows)).outcome is Outcome.NO_VERDICT


@pytest.mark.parametrize(
    ("other", "outcome"),
    [
        (250, Outcome.IN_KIND),
        (286, Outcome.IN_KIND),  # 2% slower, and 4% at the ends of the intervals
        (290, Outcome.NO_VERDICT),  # 3% slower: its interval holds 5%
        (299, Outcome.NO_VERDICT),
        (400, Outcome.NOT_REPRODUCED),
    ],
)
def test_equation_5_is_judged_by_the_fastest_split(tmp_path: Path, other: float, outcome: Outcome) -> None:
    runs = [(0, 1, 80.0), (1, 3, 280.0), (2, 2, other), (3, 1, 90.0)]
    frame = frame_of(tmp_path, *curves(4), *(row(TRAINING, a, b, rate) for a, b, rate in runs))
    found = figure_12.EquationSplitsCores().judge(frame)
    assert found.outcome is outcome
    assert found.ours[-1].value == pytest.approx(100 * (1 - 280 / other))
    unsure = replace(row(TRAINING, 2, 2, other), low=None, high=None)
    rows = [*curves(4), unsure, *(row(TRAINING, a, b, rate) for a, b, rate in runs if (a, b) != (2, 2))]
    assert (
        figure_12.EquationSplitsCores().judge(frame_of(tmp_path / "unsure", *rows)).outcome
        is Outcome.NO_VERDICT
    )


@pytest.mark.parametrize(
    ("others", "outcome"),
    [
        ((275.0, 278.0), Outcome.NO_VERDICT),  # neither is 5% slower than 280: any choice would have passed
        ((275.0, 262.0), Outcome.NO_VERDICT),  # 6% slower, with 2% of noise
        ((275.0, 250.0), Outcome.IN_KIND),
    ],
)
def test_a_choice_among_splits_that_are_all_as_fast_shows_nothing(
    tmp_path: Path, others: tuple[float, float], outcome: Outcome
) -> None:
    runs = [(0, 1, 80.0), (1, 3, 280.0), (2, 2, others[0]), (3, 1, others[1])]
    rows = [*curves(4), *(row(TRAINING, a, b, rate) for a, b, rate in runs)]
    found = figure_12.EquationSplitsCores().judge(frame_of(tmp_path / "one", *rows))
    assert found.outcome is outcome
    assert "Other splits of as many cores: ant-ddpg 2." in found.explanation
    assert ("the choice could not have been wrong" in found.explanation) == (outcome is Outcome.NO_VERDICT)
    # Another workload of which Equation 5's split was not run is not shown.
    more = [replace(each, workload="cartpole-dqn") for each in rows if each.value != 280.0]
    assert (
        figure_12.EquationSplitsCores().judge(frame_of(tmp_path / "two", *rows, *more)).outcome
        is Outcome.NO_VERDICT
    )


def test_a_split_of_fewer_cores_and_a_training_in_turns_are_no_rivals(tmp_path: Path) -> None:
    runs = [(0, 4, 900.0), (1, 1, 900.0), (1, 3, 280.0), (2, 2, 250.0)]
    frame = frame_of(tmp_path, *curves(4), *(row(TRAINING, a, b, rate) for a, b, rate in runs))
    found = figure_12.EquationSplitsCores().judge(frame)
    assert found.outcome is Outcome.IN_KIND
    assert "Other splits of as many cores: ant-ddpg 1." in found.explanation
    assert [number.quantity for number in found.ours[:2]] == [
        f"ant-ddpg, 1 cores for actors, 3 for learners: {what}" for what in ("predicted", "achieved")
    ]


@pytest.mark.parametrize("faster", [(1, 3), (3, 1)])
def test_a_split_on_either_side_may_be_faster(tmp_path: Path, faster: tuple[int, int]) -> None:
    """Collection and consumption are equally fast: Equation 5 gives two cores to each."""
    rates = {(1, 3): 150.0, (2, 2): 190.0, (3, 1): 150.0} | {faster: 250.0}
    rows = [row(COLLECTION, n, 0, 100.0 * n) for n in (1, 2, 3, 4)]
    rows += [row(CONSUMPTION, 0, n, 100.0 * n) for n in (1, 2, 3, 4)]
    rows += [row(TRAINING, *split, rate) for split, rate in rates.items()]
    found = figure_12.EquationSplitsCores().judge(frame_of(tmp_path, *rows))
    assert found.outcome is Outcome.NOT_REPRODUCED
    assert found.explanation.startswith("At most 24.0% slower than the fastest split that was run.")


def test_a_workload_that_ran_on_one_core_hides_no_other(tmp_path: Path) -> None:
    runs = [(0, 1, 80.0), (1, 3, 280.0), (2, 2, 250.0)]
    rows = [*curves(4), *(row(TRAINING, a, b, rate) for a, b, rate in runs)]
    alone = [replace(each, workload="lunarlander-dqn") for each in (*curves(1), row(TRAINING, 0, 1, 80.0))]
    claim = figure_12.EquationSplitsCores()
    assert figure_10.WORKLOADS[:2] == ("lunarlander-dqn", "ant-ddpg"), "that of one core comes first"
    frame = frame_of(tmp_path, *alone, *rows)
    assert claim.judge(frame).outcome is Outcome.IN_KIND
    assert points(claim.draw(frame)) == {"run": 2, "equation 5 (modelled)": 1}


def test_every_split_of_all_cores_is_drawn_with_the_prediction(tmp_path: Path) -> None:
    runs = [(0, 1, 80.0), (0, 4, 85.0), (1, 1, 90.0), (1, 3, 280.0), (2, 2, 250.0), (3, 1, 90.0)]
    frame = frame_of(tmp_path, *curves(4), *(row(TRAINING, a, b, rate) for a, b, rate in runs))
    assert points(figure_12.EquationSplitsCores().draw(frame)) == {"run": 3, "equation 5 (modelled)": 1}
    alone = frame_of(tmp_path / "one", *curves(1), row(TRAINING, 0, 1, 80.0))
    assert figure_12.EquationSplitsCores().draw(alone) is None, "one core cannot be split"
