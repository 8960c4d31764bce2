"""The harmonic mean over machines, with its interval."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers import portability
from placerl.harness.papers.number import Number
from tests.harness.papers.rows import compared, frame_of


@pytest.mark.parametrize(
    ("last", "low"),
    # 0 as the end of an interval, 0 within one, and no interval
    [((100.0, 0.01), True), ((100.0, 1.0), False), ((100.0, 1.5), False), (None, False)],
)
def test_a_harmonic_mean_has_an_interval_only_of_rates_above_0(
    last: tuple[float, float] | None, low: bool
) -> None:
    def rate(value: float, spread: float) -> Number:
        return Number(
            "rate", value, "1/s", Provenance.MEASURED, "", value * (1 - spread), value * (1 + spread)
        )

    bare = replace(rate(100.0, 0.01), low=None, high=None)
    mean = portability.harmonic_mean([rate(50.0, 0.01), bare if last is None else rate(*last)])
    assert mean.value == pytest.approx(2 / (1 / 50 + 1 / 100))
    assert (mean.low is not None, mean.high is not None) == (low, low)
    if low:
        assert (mean.low, mean.high) == pytest.approx((0.99 * mean.value, 1.01 * mean.value))
    assert portability.harmonic_mean([rate(50.0, 0.01), None]).value == 0.0


def beside(
    folder: Path, rates: dict[str, Sequence[tuple[str, float]]], **more: object
) -> list[portability.BesideBaseline]:
    """Comparisons with sb3, of each machine (part, gradient steps per second), at batch size 64."""
    fields = {"quantity": "gradient_steps_per_s", "unit": "1/s"} | more
    frames = [
        frame_of(
            folder / machine,
            *(compared(rate, "", details={"baseline": "sb3", "part": part}, **fields) for part, rate in rows),
        ).assign(fingerprint=machine)
        for machine, rows in rates.items()
    ]
    return list(portability.beside_baselines(pd.concat(frames, ignore_index=True)))


def test_machines_that_ran_both_count_with_their_fastest_of_each(tmp_path: Path) -> None:
    (found,) = beside(
        tmp_path,
        {
            "a": [("ours", 10.0), ("ours", 20.0), ("ours", 15.0), ("theirs", 5.0)],
            "b": [("theirs", 10.0), ("ours", 60.0), ("theirs", 15.0), ("null", 900.0)],
            "alone": [("ours", 1.0)],
        },
    )
    assert (found.workload, found.batch_size, found.baseline) == ("cartpole-dqn", 64, "sb3")
    assert found.machines == 2
    assert found.ours.value == pytest.approx(64 * 2 / (1 / 20 + 1 / 60))
    assert found.theirs.value == pytest.approx(64 * 2 / (1 / 5 + 1 / 15))


@pytest.mark.parametrize(
    ("second", "more"),
    [
        ([("ours", 1.0)], {}),
        ([("ours", 1.0), ("theirs", 0.0)], {}),  # a rate that is no divisor
        ([("ours", 1.0), ("theirs", 1.0)], {"primitive": "replay"}),
        ([("ours", 1.0), ("theirs", 1.0)], {"quantity": "environment_steps_per_s"}),
        ([("ours", 1.0), ("theirs", 1.0)], {"suite": "run"}),
    ],
)
def test_less_than_two_machines_that_trained_in_both_have_no_portability(
    second: list[tuple[str, float]], more: dict[str, str], tmp_path: Path
) -> None:
    assert beside(tmp_path, {"a": [("ours", 1.0), ("theirs", 1.0)], "b": second}, **more) == []


def test_machines_of_which_none_ran_both_have_no_portability(tmp_path: Path) -> None:
    assert beside(tmp_path, {"a": [("ours", 1.0)], "b": [("theirs", 1.0)]}) == []


def test_of_equal_rates_the_first_counts(tmp_path: Path) -> None:
    rows = [("ours", 1.0), ("ours", 1.0), ("theirs", 1.0)]
    (found,) = beside(tmp_path, {"a": rows, "b": rows})
    assert found.ours.rows == (0, 3)


def test_a_rate_of_less_than_one_counts(tmp_path: Path) -> None:
    slow = [("ours", 0.5), ("theirs", 0.25)]
    (found,) = beside(tmp_path, {"a": slow, "b": slow})
    assert (found.ours.value, found.theirs.value) == pytest.approx((32.0, 16.0))
