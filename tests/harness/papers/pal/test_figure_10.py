"""PAL Fig. 10: verdicts from made-up rows."""

from dataclasses import replace
from pathlib import Path

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers import Finding, Outcome
from placerl.harness.papers.base import unless_suspect
from placerl.harness.papers.pal import figure_8, figure_10, figure_12
from placerl.harness.papers.pal.figure_10_runs import COLLECTION, CONSUMPTION, EXPERIMENT, TRAINING
from tests.harness.old_form import details_of
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import TOO_FEW, compared, frame_of, measurement


def row(kind: str, actor_cores: int, learner_cores: int, rate: float) -> Row:
    return measurement(
        rate,
        suite="claim",
        workload="ant-ddpg",
        primitive="training",
        backend=kind,
        unit="1/s",
        quantity="gradient_steps_per_s",
        details={
            "experiment": EXPERIMENT,
            "actor_cores": actor_cores,
            "learner_cores": learner_cores,
            "update_interval": 1,
        },
    )


def curves(cores: int) -> list[Row]:
    """Collection three times as fast as consumption, both linear."""
    return [
        made
        for count in (1, 2, 3, 4, 6, 8)
        if count <= cores
        for made in (row(COLLECTION, count, 0, 300.0 * count), row(CONSUMPTION, 0, count, 100.0 * count))
    ]


def test_two_cores_are_too_few_for_a_verdict_but_give_numbers(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, *curves(2), row(TRAINING, 0, 1, 80), row(TRAINING, 1, 1, 100))
    scaling = figure_10.ThroughputIsLinearInCores().judge(frame)
    assert scaling.outcome is Outcome.NOT_RUN
    assert scaling.needs == "trainings on 6 and on more cores; the most here have 2"
    # Of 3, 4, 6 and 8 cores 1, 1, 2 and 2 for the actors, whose rate is three times as high: linear, the rest learn.
    measured, *beyond = scaling.ours
    assert (measured.value, measured.provenance) == (pytest.approx(1.25), Provenance.MEASURED)
    assert [number.value for number in beyond] == pytest.approx([200 / 80, 300 / 80, 400 / 80, 600 / 80])
    assert {number.provenance for number in beyond} == {Provenance.MODELLED}
    split = figure_12.EquationSplitsCores().judge(frame)
    assert split.outcome is Outcome.NOT_RUN
    assert [number.value for number in split.ours] == pytest.approx(
        [100.0, 100.0, 200.0, 300.0, 400.0, 600.0]
    )
    assert split.ours[3].quantity == "ant-ddpg, 1 cores for actors, 3 for learners: predicted"


def test_beyond_this_machine_contention_goes_on() -> None:
    """1.5 times as fast on two cores: a third of the work is serial, n / (1 + (n - 1) / 3)."""
    made = figure_10.extrapolated([(1, 10.0), (2, 15.0)])
    assert [made(cores) for cores in (1, 2, 4, 8)] == pytest.approx([10, 15, 20, 24])
    assert figure_10.extrapolated([(1, 10.0), (2, 20.0)])(6) == pytest.approx(60)
    assert figure_10.extrapolated([(1, 10.0), (2, 25.0)])(6) == pytest.approx(60), (
        "no faster than in proportion"
    )
    made = figure_10.extrapolated([(1, 10.0), (2, 18.0), (4, 20.0)])
    assert [made(cores) for cores in (3, 4, 7)] == pytest.approx([19, 20, 70 / 3])


def test_what_is_modelled_is_scaled_as_the_largest_training_was(tmp_path: Path) -> None:
    """Equation 5 predicts 100 on two cores; the training that ran there took 90."""
    frame = frame_of(tmp_path, *curves(2), row(TRAINING, 0, 1, 80), row(TRAINING, 1, 1, 90))
    found = [one.gradient_steps_per_s for one in figure_10.modelled(frame, "ant-ddpg")]
    assert found == pytest.approx([180.0, 270.0, 360.0, 540.0])
    for some in ([*curves(1), row(TRAINING, 0, 1, 80)], [*curves(2), row(TRAINING, 0, 1, 80)]):
        alone = frame_of(tmp_path / str(len(some)), *some)
        assert figure_10.modelled(alone, "ant-ddpg") == [], "nothing was measured on two cores"


# Equation 5 gives each core to the side that lacks it: a quarter to the actors.
RUNS = [(0, 1, 80.0), (1, 1, 100.0), (1, 2, 200.0), (1, 3, 280.0), (2, 4, 400.0), (2, 6, 410.0)]


def scaled(folder: Path, changed: dict[tuple[int, int], float], **fields: object) -> Finding:
    """The finding of `RUNS` on eight cores, some of them at other rates; 0 leaves one out."""
    rates = {(a, b): rate for a, b, rate in RUNS} | changed
    runs = [replace(row(TRAINING, *split, rate), **fields) for split, rate in rates.items() if rate]
    return unless_suspect(figure_10.ThroughputIsLinearInCores().judge(frame_of(folder, *curves(8), *runs)))


@pytest.mark.parametrize(
    ("at_six", "at_eight", "outcome"),
    [
        (400, 410, Outcome.IN_KIND),
        (400, 700, Outcome.NO_VERDICT),  # 1.75 times as fast with 1.33 times the cores: suspect
        (400, 500, Outcome.NO_VERDICT),  # does not saturate: the learners have no GPU to wait for
        (400, 460, Outcome.NO_VERDICT),  # 1.15 times as fast, the limit
        (400, 449, Outcome.IN_KIND),  # 1.12 times, with 2% of noise
        (285, 449, Outcome.NO_VERDICT),
        (450, 460, Outcome.IN_KIND),  # 1.6 times as fast as on four cores, where nothing need be saturated
    ],
)
def test_throughput_that_grows_and_then_does_not_is_pals(
    tmp_path: Path, at_six: float, at_eight: float, outcome: Outcome
) -> None:
    found = scaled(tmp_path, {(2, 4): at_six, (2, 6): at_eight})
    assert found.outcome is outcome
    assert [number.value for number in found.ours[:5]] == pytest.approx(
        [100 / 80, 200 / 80, 280 / 80, at_six / 80, at_eight / 80]
    )
    assert found.ours[5].value == pytest.approx(at_eight / at_six)


@pytest.mark.parametrize("missing", [(2, 4), (2, 6)])
def test_saturation_is_judged_by_what_is_above_six_cores_over_six(
    tmp_path: Path, missing: tuple[int, int]
) -> None:
    """Four cores do not stand for six: PAL's throughput grows from four to six."""
    found = scaled(tmp_path, {missing: 0})
    assert found.outcome is Outcome.NOT_RUN
    assert found.needs.startswith("trainings on 6 and on more cores; the most here have ")


@pytest.mark.parametrize(
    ("at_three", "outcome"),
    [
        (197, Outcome.IN_KIND),  # 2.46 times as fast on three cores: 0.8 of proportion, with 2% of noise
        (192, Outcome.NO_VERDICT),  # 2.4 times, the limit
        (187, Outcome.NO_VERDICT),  # two learners with half of a batch each, where PAL's have whole ones
    ],
)
def test_below_four_cores_four_fifths_of_proportion_are_linear(
    at_three: float, outcome: Outcome, tmp_path: Path
) -> None:
    found = scaled(tmp_path / "a", {(1, 2): at_three, (1, 3): 100})
    assert found.outcome is outcome, "at four cores and more nothing need be linear"
    noisy = scaled(tmp_path / "noisy", {(1, 2): at_three}, **TOO_FEW)
    assert noisy.outcome is Outcome.NO_VERDICT


@pytest.mark.parametrize(("at_two", "outcome"), [(85.0, Outcome.IN_KIND), (60.0, Outcome.NOT_REPRODUCED)])
def test_one_learner_below_proportion_refutes(at_two: float, outcome: Outcome, tmp_path: Path) -> None:
    """An actor is as busy as a learner, so that two cores could be twice as fast as one."""
    rows = [
        replace(each, value=(each.value or 0) / 3) if each.backend == COLLECTION else each
        for each in curves(8)
    ]
    runs = {(0, 1): 45.0, (1, 1): at_two, (2, 2): 150.0, (3, 3): 180.0, (4, 4): 190.0}
    rows += [row(TRAINING, *split, rate) for split, rate in runs.items()]
    assert figure_10.ThroughputIsLinearInCores().judge(frame_of(tmp_path, *rows)).outcome is outcome


def test_cores_that_cannot_be_divided_in_proportion_refute_nothing(tmp_path: Path) -> None:
    """An actor is a third as busy as a learner: on two cores 1.33 times one's throughput is all there can be."""
    assert scaled(tmp_path / "one", {(1, 1): 90.0}).outcome is Outcome.IN_KIND
    # A learner takes a hundredth of an actor's rate: of three cores one is nearly idle, whatever scales how.
    rows = [
        replace(each, value=(each.value or 0) * 100) if each.backend == COLLECTION else each
        for each in curves(8)
    ]
    runs = {(0, 1): 99.0, (1, 1): 100.0, (1, 2): 195.0, (1, 3): 290.0, (1, 4): 400.0, (1, 6): 410.0}
    rows += [row(TRAINING, *split, rate) for split, rate in runs.items()]
    rows += [row(TRAINING, *split, 1.0) for split in ((2, 6), (4, 4))]
    found = figure_10.ThroughputIsLinearInCores().judge(frame_of(tmp_path / "idle", *rows))
    assert found.outcome is Outcome.NO_VERDICT
    assert "For ant-ddpg fewer than 4 whole cores cannot be divided" in found.explanation


def test_every_workload_has_to_saturate(tmp_path: Path) -> None:
    runs = [row(TRAINING, *run) for run in RUNS]
    both = [*curves(8), *runs]
    for others, outcome in ((both, Outcome.IN_KIND), ([*curves(8), *runs[:-1]], Outcome.NO_VERDICT)):
        more = [replace(each, workload="cartpole-dqn") for each in others]
        frame = frame_of(tmp_path / str(outcome), *both, *more)
        assert figure_10.ThroughputIsLinearInCores().judge(frame).outcome is outcome


def test_a_split_that_was_not_run_stands_for_none(tmp_path: Path) -> None:
    """Of four cores equation 5 gives one to the actors."""
    runs = [(0, 1, 80.0), (1, 1, 100.0), (2, 2, 280.0)]
    rows = [*curves(4), *(row(TRAINING, a, b, rate) for a, b, rate in runs)]
    found = figure_10.ThroughputIsLinearInCores().judge(frame_of(tmp_path, *rows))
    assert [number.value for number in found.ours] == pytest.approx(
        [100 / 80]
    )  # nor is anything modelled on it
    assert found.needs == "trainings on 6 and on more cores; the most here have 4"
    split = figure_12.EquationSplitsCores().judge(frame_of(tmp_path / "split", *rows))
    assert split.needs == "more than 2 cores, of which several splits were run"
    assert [number.value for number in split.ours] == [pytest.approx(300.0)]  # of 300 a core collected


def test_a_baseline_is_checked_only_where_both_of_its_parts_were_measured(tmp_path: Path) -> None:
    rows = [row(TRAINING, 0, 1, 25), row(TRAINING, 1, 1, 45)]
    for kind in (COLLECTION, CONSUMPTION):
        some = [*(each for each in curves(2) if each.backend == kind or sum_of(each) > 1), *rows]
        gain = figure_10.ThroughputIsLinearInCores().judge(frame_of(tmp_path / kind, *some)).ours[0]
        assert not gain.suspect


def sum_of(made: Row) -> int:
    """Of its cores."""
    return int(details_of(made)["actor_cores"]) + int(details_of(made)["learner_cores"])


def test_a_baseline_that_takes_a_third_of_what_its_parts_imply_is_suspect(tmp_path: Path) -> None:
    """On one core an environment step takes 1/300 s and a gradient step 1/100 s: 75 of both a second."""
    frame = frame_of(tmp_path, *curves(2), row(TRAINING, 0, 1, 25), row(TRAINING, 1, 1, 60))
    gain = figure_10.ThroughputIsLinearInCores().judge(frame).ours[0]
    assert gain.suspect.startswith("33.67% of the 75 per second")
    runs = [(0, 1, 25.0), (1, 2, 70.0), (1, 3, 90.0), (2, 4, 130.0), (2, 6, 135.0)]
    frame = frame_of(tmp_path / "eight", *curves(8), *(row(TRAINING, a, b, rate) for a, b, rate in runs))
    assert unless_suspect(figure_10.ThroughputIsLinearInCores().judge(frame)).outcome is Outcome.NO_VERDICT


def test_without_rows_nothing_is_found(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, compared(5.0, "faster", baseline="sb3"))
    for check in (
        figure_8.ConvergesFasterThanRllib().judge,
        figure_10.ThroughputIsLinearInCores().judge,
        figure_12.EquationSplitsCores().judge,
    ):
        assert check(frame).outcome is Outcome.NOT_RUN
        assert not check(frame).ours


def test_training_and_both_curves_are_drawn_over_the_cores(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, *curves(2), row(TRAINING, 0, 1, 80), row(TRAINING, 1, 1, 100))
    assert points(figure_10.ThroughputIsLinearInCores().draw(frame)) == {
        "training, gradient steps": 2,
        "collection alone, environment steps": 2,
        "consumption alone, gradient steps": 2,
        "training beyond this machine (modelled)": 4,
    }
