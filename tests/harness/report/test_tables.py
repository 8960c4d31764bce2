"""Predictions next to what was achieved: in a validation the error is that of the rounds, not of the two medians."""

from pathlib import Path

import pytest

from placerl.harness.core.row import Row
from placerl.harness.report.reading import read
from placerl.harness.report.rows.mappings import PredictedThroughput
from placerl.harness.store.store import Store
from tests.harness.papers.rows import MACHINE, predicted, trained

MAPPING = {"mapping": "native-native-cpu", "loop": "fused"}


def ran(gps: float) -> Row:
    """What a mapping reached on a core that others shared."""
    return trained(gps, suite="validation", backend="placerl", details=MAPPING)


def foreseen(gps: float, **details: object) -> Row:
    """What is predicted for a core at full speed, with what the rounds of the training showed."""
    fields = {"suite": "validation", "quantity": "predicted_gradient_steps_per_s", "backend": "composed-loop"}
    return predicted(gps, details=MAPPING | {"ran": "fused"} | details, **fields)


def shown(folder: Path, *rows: Row) -> PredictedThroughput:
    with Store.open(folder / "store.sqlite") as store:
        store.begin_run("quick", "r", MACHINE).finish("validation/hopper-ddpg/256", list(rows))
    (one,) = read(folder / "store.sqlite").predictions
    return one


def test_the_error_is_the_median_over_the_rounds(tmp_path: Path) -> None:
    one = shown(tmp_path, ran(500.0), foreseen(900.0, error=0.1, error_low=0.08, error_high=0.12))
    assert one.error is not None
    assert (one.error.value, one.error.low, one.error.high) == pytest.approx((10, 8, 12))
    assert one.achieved is not None
    assert one.achieved.value == 500
    assert (one.predicted.value, one.predicted.low, one.predicted.high) == pytest.approx((550, 540, 560))


def test_too_few_rounds_leave_no_interval(tmp_path: Path) -> None:
    one = shown(tmp_path, ran(500.0), foreseen(900.0, error=-0.1))
    assert one.error is not None
    assert (one.error.low, one.error.high) == (None, None)
    assert one.predicted.value == pytest.approx(450)
    assert (one.predicted.low, one.predicted.high) == (None, None)


def test_without_rounds_the_two_rates_are_compared(tmp_path: Path) -> None:
    one = shown(tmp_path, ran(500.0), foreseen(600.0))
    assert one.error is not None
    assert one.error.value == pytest.approx(20)
    assert one.predicted.value == 600
