"""Training with batches sampled ahead: verdicts from made-up rows."""

from pathlib import Path

import pytest

from placerl.harness.papers import Finding, Outcome
from placerl.harness.papers.map import figure_10
from tests.harness.old_form import details_of, replace
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import final_return, frame_of

WIGGLE = (-2.0, -1.0, 0.0, 1.0, 2.0)


def finding(
    folder: Path, finals: dict[str, dict[str, float]], seeds: int = 5, spread: float = 1.0
) -> Finding:
    rows = [
        final_return(workload, curve, final + spread * WIGGLE[seed], seed, "MAP-F10")
        for workload, curves in finals.items()
        for curve, final in curves.items()
        for seed in range(seeds)
    ]
    return figure_10.SamplingAheadCostsNoReward().judge(frame_of(folder, *rows))


def curves(d0: float, d50: float, d200: float) -> dict[str, float]:
    return {"D=0": d0, "D=1": d0, "D=10": d0, "D=50": d50, "D=200": d200}


@pytest.mark.parametrize(
    ("finals", "outcome"),
    [
        ({"cartpole-ddpg": curves(400, 400, 400)}, Outcome.NO_VERDICT),  # without Hopper half of the statement
        ({"cartpole-ddpg": curves(400, 200, 400)}, Outcome.NOT_REPRODUCED),
        ({"hopper-ddpg": curves(400, 400, 200)}, Outcome.IN_KIND),
        ({"hopper-ddpg": curves(400, 400, 400)}, Outcome.NOT_REPRODUCED),
        ({"cartpole-ddpg": curves(12, 12, 12)}, Outcome.NO_VERDICT),
        ({"cartpole-ddpg": curves(400, 362, 400)}, Outcome.NO_VERDICT),
        (
            {"hopper-ddpg": curves(400, 400, 200), "cartpole-ddpg": curves(400, 400, 400),
             "pong-dqn": curves(400, 400, 400)},
            Outcome.REPRODUCED,
        ),
    ],
)  # fmt: skip
def test_the_verdict_is_that_of_the_shares(
    tmp_path: Path, finals: dict[str, dict[str, float]], outcome: Outcome
) -> None:
    found = finding(tmp_path, finals, spread=3.0)
    assert found.outcome is outcome
    assert found.ours


def test_a_share_is_of_what_the_strict_loop_gains(tmp_path: Path) -> None:
    found = finding(tmp_path, {"cartpole-ddpg": curves(412, 212, 412)})
    half = next(number for number in found.ours if "D=50" in number.quantity)
    assert half.value == pytest.approx(0.5)
    assert half.low is not None and half.high is not None  # noqa: PT018
    assert half.low < 0.5 < half.high
    assert len(half.rows) == 10


def test_fewer_than_five_seeds_are_not_enough(tmp_path: Path) -> None:
    assert finding(tmp_path, {"cartpole-ddpg": curves(400, 400, 400)}, seeds=4).outcome is Outcome.NOT_RUN


def test_what_each_curve_shows_is_said(tmp_path: Path) -> None:
    cartpole = ("cartpole-ddpg", curves(400, 200, 400), "cartpole-ddpg, D = 50: a loss that shows.")
    hopper = ("hopper-ddpg", curves(400, 400, 200), "hopper-ddpg, D = 50: no loss that shows.")
    said = finding(tmp_path, {name: some for name, some, _ in (hopper, cartpole)}).explanation
    for _, _, words in (cartpole, hopper):
        assert words in said
    assert "hopper-ddpg, D = 200, whose loss MAP sees: a loss that shows." in said
    assert "Not trained: pong-dqn." in said
    unsure = finding(tmp_path / "unsure", {"cartpole-ddpg": curves(400, 362, 400)}, spread=10.0).explanation
    limit = "a sequential test does not tell the share from 0.9, the limit for no loss"
    assert f"D = 50: undecided: {limit}." in unsure
    flat = finding(tmp_path / "flat", {"cartpole-ddpg": curves(12, 12, 12)}).explanation
    assert "cartpole-ddpg: the strict loop itself gains too little to tell." in flat


@pytest.mark.parametrize(
    ("d50", "outcome"),
    [
        (0.91, Outcome.IN_KIND),  # the whole interval keeps at least 0.9 of the gain
        (0.9, Outcome.NO_VERDICT),
        (0.89, Outcome.NOT_REPRODUCED),
    ],
)
def test_a_tenth_of_the_gain_is_a_loss(d50: float, outcome: Outcome, tmp_path: Path) -> None:
    # From 12 on, the interquartile mean of the first returns.
    some = {"hopper-ddpg": curves(1012, 12 + 1000 * d50, 12 + 500)}
    assert finding(tmp_path, some, spread=0.5).outcome is outcome


def test_rows_of_other_experiments_and_other_quantities_are_left_out(tmp_path: Path) -> None:
    rows = [
        final_return("hopper-ddpg", curve, 400.0, seed, key)
        for key in ("AAA", "PRL-F9")
        for curve in curves(0, 0, 0)
        for seed in range(5)
    ]
    assert figure_10.SamplingAheadCostsNoReward().judge(frame_of(tmp_path, *rows)).outcome is Outcome.NOT_RUN


def test_seeds_that_a_curve_lacks_count_for_none(tmp_path: Path) -> None:
    rows = [
        final_return("hopper-ddpg", curve, final + WIGGLE[seed % 5], seed, "MAP-F10")
        for curve, final in curves(400, 400, 200).items()
        for seed in range(6 if curve == "D=1" else 5)
    ]
    frame = frame_of(tmp_path, *rows)
    found = figure_10.SamplingAheadCostsNoReward().judge(frame)
    assert {len(number.rows) for number in found.ours} == {10}
    missing = frame[~((frame["backend"] == "D=50") & (frame["value"] == 400.0))]
    assert figure_10.SamplingAheadCostsNoReward().judge(missing).outcome is Outcome.NOT_RUN


def test_a_score_is_the_mean_of_the_middle_half(tmp_path: Path) -> None:
    """One seed far below the others changes nothing."""
    finals = {"D=0": 412.0, "D=1": 412.0, "D=10": 412.0, "D=50": 212.0, "D=200": 412.0}
    rows = [
        final_return("cartpole-ddpg", curve, -9e3 if (curve, seed) == ("D=50", 0) else final, seed, "MAP-F10")
        for curve, final in finals.items()
        for seed in range(5)
    ]
    found = figure_10.SamplingAheadCostsNoReward().judge(frame_of(tmp_path, *rows))
    half = next(number for number in found.ours if "D=50" in number.quantity)
    assert half.value == pytest.approx(0.5)
    assert "interquartile means of 5 seeds" in half.source


def test_a_point_is_a_stretch_in_which_every_seed_ended_an_episode(tmp_path: Path) -> None:
    """Of the three stretches of the rows no episode ended in the first."""
    rows = [
        final_return(workload, curve, 400.0, seed, "MAP-F10")
        for workload in ("cartpole-ddpg", "hopper-ddpg")
        for curve in curves(0, 0, 0)
        for seed in range(5)
    ]
    made = [replace(row, details=details_of(row) | {"environment_steps": [10, 20, 30]}) for row in rows]
    figure = figure_10.SamplingAheadCostsNoReward().draw(frame_of(tmp_path / "a", *made))
    assert points(figure) == dict.fromkeys(curves(0, 0, 0), 4)
    assert figure is not None
    assert list(figure.axes[0].containers[0][0].get_xdata()) == [20, 30]
    assert list(figure.axes[0].containers[0][0].get_ydata()) == [12, 400]
    assert figure_10.SamplingAheadCostsNoReward().draw(frame_of(tmp_path / "b", *rows)) is None, (
        "rows without steps have no place"
    )
