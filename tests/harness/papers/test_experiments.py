"""Experiments: their declaration, the rows that they make, and what is read of stored rows."""

import pickle
from dataclasses import dataclass

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.measure.statistics import compare
from placerl.harness.papers.experiments import Columns, Experiment, gain_of_times
from placerl.harness.papers.map.figure_10 import PRESAMPLED

SAMPLES = [1.0, 1.1, 0.9, 1.0, 1.05]


@dataclass(frozen=True)
class Threads(Columns):
    threads: int
    order: list[int] | None = None
    null: bool = False


MINE = Experiment("X", "calls", "time_per_call", Threads)
OF = {"primitive": "p", "provenance": Provenance.MEASURED, "value": 1.0, "quantity": "time_per_call"}


def test_an_experiment_holds_declared_quantities_alone() -> None:
    with pytest.raises(ValueError, match=r"experiment X: quantity: found 'speed'; allowed: .*time_per_call"):
        Experiment("X", "nothing", "time_per_call speed")
    assert (MINE, MINE.about) == ("X", "calls")


def test_a_row_states_its_experiment_and_the_columns_that_are_not_none() -> None:
    row = MINE.row(Threads(2), **OF)
    assert (row.suite, row.experiment, row.parameters) == (Suite.CLAIM, "X", {"threads": 2, "null": False})
    assert row.timed.conditions == {}
    assert MINE.summary(SAMPLES, Threads(2), primitive="p", quantity="time_per_call").timed.conditions


def test_a_row_holds_a_quantity_of_its_experiment() -> None:
    with pytest.raises(ValueError, match="experiment X: quantity: found 'regret'; allowed: time_per_call"):
        MINE.row(Threads(2), **OF | {"quantity": "regret"})
    with pytest.raises(ValueError, match="experiment X: quantity: found 'regret'; allowed: time_per_call"):
        MINE.summary(SAMPLES, Threads(2), primitive="p", quantity="regret")


def test_a_row_holds_the_columns_of_its_experiment() -> None:
    with pytest.raises(TypeError, match="experiment X: columns: found Columns; allowed: Threads"):
        MINE.row(Columns(), **OF)


def test_what_was_not_run_needs_no_columns() -> None:
    row = MINE.not_run("no device", primitive="p", quantity="time_per_call")
    assert (row.status, row.reason, row.parameters, row.provenance) == (
        "not_run",
        "no device",
        {},
        "measured",
    )


def test_columns_that_a_row_lacks_are_none_or_have_their_default() -> None:
    assert MINE.read({"threads": 2, "order": [1], "later": 3}) == Threads(2, [1])
    assert MINE.read(None).threads is None
    assert MINE.read({}).null is False


def test_a_gain_is_the_inverse_of_a_ratio_of_times() -> None:
    faster = gain_of_times(compare([1.0, 1.01] * 20, [2.0, 2.01] * 20, [1.0, 1.01] * 20))
    assert faster["low"] <= faster["value"] <= faster["high"]
    assert faster["value"] == pytest.approx(2, rel=0.02)
    few = gain_of_times(compare([1.0], [2.0], [1.0]))
    assert few["status"] == "too_noisy"
    assert few["reason"]


def test_another_process_gets_the_same_experiment() -> None:
    sent = pickle.loads(pickle.dumps(PRESAMPLED.key))
    assert (sent, sent.about, sent.quantities, sent.columns) == (
        PRESAMPLED.key,
        PRESAMPLED.key.about,
        PRESAMPLED.key.quantities,
        PRESAMPLED.key.columns,
    )
