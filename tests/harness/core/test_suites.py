"""Suites are declared once: rows of another quantity are refused."""

from pathlib import Path

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.quantities import QUANTITIES
from placerl.harness.core.suites import PREDICTING, Suite
from placerl.harness.store import reference
from placerl.harness.store.rows import OtherResult


def row(suite: str, quantity: str = "time_per_call") -> OtherResult:
    return OtherResult(
        suite=suite, primitive="p", quantity=quantity, provenance=Provenance.MEASURED, value=1.0
    )


def test_a_row_holds_a_quantity_of_its_suite() -> None:
    with pytest.raises(ValueError, match="quantity: found 'regret'; allowed: profile: time_per_call"):
        row(Suite.PROFILE, "regret")
    assert row(Suite.VALIDATION, "predicted_gradient_steps_per_s").unit == "1/s"
    assert row(Suite.MEMORY, "failure").quantity == "failure"


def test_a_row_holds_plain_text() -> None:
    assert type(row(Suite.PROFILE).suite) is str
    assert row(Suite.PROFILE) == row("profile")
    assert f"{Suite.MACHINE_PEAKS}/machine" == "roofs/machine"


def test_rows_of_other_programs_may_have_any_suite_and_quantity() -> None:
    assert row("theirs", "regret").suite == "theirs"
    assert row("profile", "regret").suite == "profile"


@pytest.mark.parametrize("suite", Suite)
def test_quantities_are_declared(suite: Suite) -> None:
    assert suite.quantities
    assert suite.quantities <= set(QUANTITIES)
    assert suite.about


def test_predictions_are_those_of_strategies() -> None:
    assert set(PREDICTING) == {"prediction", "precision_prediction", "simulated_prediction"}


@pytest.mark.parametrize("path", sorted(reference.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_the_rows_of_the_reference_runs_are_declared(path: Path) -> None:
    measured = reference.load_one(path).measurements
    odd = {(one.suite, one.quantity) for one in measured if not Suite(one.suite).holds(one.quantity)}
    assert not odd
