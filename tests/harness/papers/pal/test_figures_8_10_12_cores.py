"""Verdicts on PAL's figures over cores from made-up rows."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.row import Measurement
from harness.papers import Outcome
from harness.papers.base import unless_suspect
from harness.papers.pal import figures_8_10_12_cores
from harness.papers.pal.core_scaling import COLLECTION, CONSUMPTION, EXPERIMENT, TRAINING
from tests.harness.papers.rows import compared, frame_of, measurement


def row(kind: str, actor_cores: int, learner_cores: int, rate: float) -> Measurement:
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


def curves(cores: int) -> list[Measurement]:
    """Collection three times as fast as consumption, both linear."""
    return [
        made
        for count in (1, 2, 4, 6, 8)
        if count <= cores
        for made in (row(COLLECTION, count, 0, 300.0 * count), row(CONSUMPTION, 0, count, 100.0 * count))
    ]


def test_two_cores_are_too_few_for_a_verdict_but_give_numbers(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, *curves(2), row(TRAINING, 0, 1, 80), row(TRAINING, 1, 1, 100))
    scaling = figures_8_10_12_cores.scaling(frame)
    assert scaling.outcome is Outcome.NOT_RUN
    assert "more than 6 cores, where this machine has 2" in scaling.needs
    assert [number.value for number in scaling.ours] == [pytest.approx(1.25)]
    split = figures_8_10_12_cores.split_of_cores(frame)
    assert split.outcome is Outcome.NOT_RUN
    assert [number.value for number in split.ours] == [100.0, 100.0]


@pytest.mark.parametrize(
    ("at_six", "at_eight", "outcome"),
    [
        (400, 410, Outcome.IN_KIND),
        (400, 700, Outcome.NO_VERDICT),  # 1.75 times as fast with 1.33 times the cores: suspect
        (400, 500, Outcome.NOT_REPRODUCED),  # does not saturate
        (400, 460, Outcome.NO_VERDICT),  # 1.15 times as fast, the limit
        (400, 449, Outcome.IN_KIND),  # 1.12 times, with 2% of noise
        (400, 471, Outcome.NOT_REPRODUCED),  # 1.18 times
    ],
)
def test_throughput_that_grows_and_then_does_not_is_pals(
    tmp_path: Path, at_six: float, at_eight: float, outcome: Outcome
) -> None:
    # Equation 5 gives each core to the side that lacks it: a quarter to the actors.
    runs = [(0, 1, 80.0), (1, 1, 150.0), (1, 3, 280.0), (2, 4, at_six), (2, 6, at_eight)]
    frame = frame_of(tmp_path, *curves(8), *(row(TRAINING, a, b, rate) for a, b, rate in runs))
    found = figures_8_10_12_cores.scaling(frame)
    assert unless_suspect(found).outcome is outcome
    assert [number.value for number in found.ours[:4]] == pytest.approx(
        [150 / 80, 280 / 80, at_six / 80, at_eight / 80]
    )
    assert found.ours[4].value == pytest.approx(at_eight / at_six)
    refuted = [row(TRAINING, a, b, 90.0 if a + b == 2 else rate) for a, b, rate in runs]
    at_two = figures_8_10_12_cores.scaling(frame_of(tmp_path / "two", *curves(8), *refuted))
    assert at_two.outcome is Outcome.NOT_REPRODUCED, "1.1 times as fast on two cores is not linear"


@pytest.mark.parametrize(
    ("at_two", "outcome"),
    [
        (131, Outcome.IN_KIND),  # 1.64 times as fast on two cores: 0.8 of proportion, with 2% of noise
        (128, Outcome.NO_VERDICT),  # 1.6 times, the limit
        (125, Outcome.NOT_REPRODUCED),
    ],
)
def test_below_four_cores_four_fifths_of_proportion_are_linear(
    at_two: float, outcome: Outcome, tmp_path: Path
) -> None:
    runs = [(0, 1, 80.0), (1, 1, at_two), (1, 3, 100.0), (2, 4, 400.0), (2, 6, 410.0)]
    rows = [*curves(8), *(row(TRAINING, a, b, rate) for a, b, rate in runs)]
    found = figures_8_10_12_cores.scaling(frame_of(tmp_path / "a", *rows))
    assert found.outcome is outcome, "at four cores and more nothing need be linear"
    noisy = [
        replace(each, status="too_noisy", reason="wide") if each.backend == TRAINING else each
        for each in rows
    ]
    assert figures_8_10_12_cores.scaling(frame_of(tmp_path / "noisy", *noisy)).outcome is Outcome.NO_VERDICT


def test_a_split_that_was_not_run_stands_for_none(tmp_path: Path) -> None:
    """Of four cores equation 5 gives one to the actors."""
    runs = [(0, 1, 80.0), (1, 1, 150.0), (2, 2, 280.0)]
    rows = [*curves(4), *(row(TRAINING, a, b, rate) for a, b, rate in runs)]
    found = figures_8_10_12_cores.scaling(frame_of(tmp_path, *rows))
    assert [number.value for number in found.ours] == pytest.approx([150 / 80])
    assert "more than 6 cores, where this machine has 2" in found.needs
    split = figures_8_10_12_cores.split_of_cores(frame_of(tmp_path / "split", *rows))
    assert split.needs == "more than 2 cores: there is one split of two"
    assert [number.value for number in split.ours] == [pytest.approx(300.0)]  # of 300 a core collected


def test_a_baseline_is_checked_only_where_both_of_its_parts_were_measured(tmp_path: Path) -> None:
    rows = [row(TRAINING, 0, 1, 25), row(TRAINING, 1, 1, 45)]
    for kind in (COLLECTION, CONSUMPTION):
        some = [*(each for each in curves(2) if each.backend == kind or sum_of(each) > 1), *rows]
        (gain,) = figures_8_10_12_cores.scaling(frame_of(tmp_path / kind, *some)).ours
        assert not gain.suspect


def sum_of(made: Measurement) -> int:
    """Of its cores."""
    return int(made.details["actor_cores"]) + int(made.details["learner_cores"])


def test_a_training_in_turns_on_one_core_is_no_split(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, *curves(1), row(TRAINING, 0, 1, 80))
    found = figures_8_10_12_cores.split_of_cores(frame)
    assert (found.outcome, found.needs, found.ours) == (
        Outcome.NOT_RUN,
        figures_8_10_12_cores.NEEDS_CURVES,
        (),
    )


def test_noise_hides_which_split_is_the_fastest(tmp_path: Path) -> None:
    runs = [(0, 1, 80.0), (1, 3, 280.0), (2, 2, 250.0)]
    rows = [*curves(4), *(row(TRAINING, a, b, rate) for a, b, rate in runs)]
    rows[-1] = replace(rows[-1], status="too_noisy", reason="wide")
    assert figures_8_10_12_cores.split_of_cores(frame_of(tmp_path, *rows)).outcome is Outcome.NO_VERDICT


def test_a_baseline_that_takes_a_third_of_what_its_parts_imply_is_suspect(tmp_path: Path) -> None:
    """On one core an environment step takes 1/300 s and a gradient step 1/100 s: 75 of both a second."""
    frame = frame_of(tmp_path, *curves(2), row(TRAINING, 0, 1, 25), row(TRAINING, 1, 1, 60))
    (gain,) = figures_8_10_12_cores.scaling(frame).ours
    assert gain.suspect.startswith("33.67% of the 75 per second")
    runs = [(0, 1, 25.0), (1, 1, 45.0), (1, 3, 90.0), (2, 4, 130.0), (2, 6, 135.0)]
    frame = frame_of(tmp_path / "eight", *curves(8), *(row(TRAINING, a, b, rate) for a, b, rate in runs))
    assert unless_suspect(figures_8_10_12_cores.scaling(frame)).outcome is Outcome.NO_VERDICT


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
    found = figures_8_10_12_cores.split_of_cores(frame)
    assert found.outcome is outcome
    assert found.ours[-1].value == pytest.approx(100 * (1 - 280 / other))
    unsure = replace(row(TRAINING, 2, 2, other), low=None, high=None)
    rows = [*curves(4), unsure, *(row(TRAINING, a, b, rate) for a, b, rate in runs if (a, b) != (2, 2))]
    assert (
        figures_8_10_12_cores.split_of_cores(frame_of(tmp_path / "unsure", *rows)).outcome
        is Outcome.NO_VERDICT
    )


def test_without_rows_nothing_is_found(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, compared(5.0, "faster", baseline="sb3"))
    for check in (
        figures_8_10_12_cores.convergence,
        figures_8_10_12_cores.scaling,
        figures_8_10_12_cores.split_of_cores,
    ):
        assert check(frame).outcome is Outcome.NOT_RUN
        assert not check(frame).ours


def test_throughput_beside_rllib_is_told(tmp_path: Path) -> None:
    found = figures_8_10_12_cores.convergence(frame_of(tmp_path, compared(50.0, "faster", baseline="rllib")))
    assert [number.value for number in found.ours] == [50.0]
