"""Statements about shares of a gain: what decides them, and when trainings end."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.measure.sequential import LOOKS, Decision
from placerl.harness.papers.experiments import Experiment
from placerl.harness.papers.relaxed_training import Returns
from placerl.harness.papers.shares import SequentialTrainings, decisions
from placerl.harness.store.rows import ClaimRow
from placerl.harness.store.store import Run, Store

LIMITS = (("b", 0.9), ("b", 0.5))


def around(middle: float, seeds: int = 5) -> list[float]:
    return [middle + 0.01 * (seed % 5) for seed in range(seeds)]


@pytest.mark.parametrize(
    ("final", "above"),
    [(1.0, {("b", 0.9): True, ("b", 0.5): True}), (0.7, {("b", 0.9): False, ("b", 0.5): True})],
)
def test_a_share_is_above_the_limits_below_it(final: float, above: dict[tuple[str, float], bool]) -> None:
    decided = decisions(LIMITS, "a", around(0.0), {"a": around(1.0), "b": around(final)})
    assert {statement: one.above for statement, one in decided.items()} == above


def test_nothing_is_a_share_of_no_gain_or_of_a_loss() -> None:
    none = {"a": [*around(0.0), *around(0.0)], "b": around(5.0, 10)}
    unsure = decisions(LIMITS, "a", around(0.01, 10), none)
    assert all(one.above is None and not one.ended for one in unsure.values())
    loss = decisions(LIMITS, "a", around(9.0), {"a": around(1.0), "b": around(5.0)})
    assert set(loss.values()) == {Decision(None, LOOKS[-1])}, "no seed changes that"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Store.open(tmp_path / "store.sqlite").begin_run("tiny", "revision", {"fingerprint": "here"})


EXPERIMENT = Experiment("TOY-F1", "a toy", "final_return", Returns)


def trainings(**more: Any) -> SequentialTrainings:
    def first(row: ClaimRow, columns: Returns) -> float | None:
        return 0.01 * columns.seed if columns.gradient_steps == 100 else None

    return SequentialTrainings((EXPERIMENT,), "final_return", "toy", ("a", "b"), LIMITS, first, **more)


def train(run: Run, seeds: range, finals: dict[str, float], steps: int = 100) -> None:
    rng = np.random.default_rng(seeds.start)
    for seed in seeds:
        rows = [
            EXPERIMENT.row(
                Returns(curve, seed, steps),
                workload="toy",
                primitive="training",
                backend=curve,
                quantity="final_return",
                provenance=Provenance.MEASURED,
                value=final + 0.05 * rng.standard_normal(),
            )
            for curve, final in finals.items()
        ]
        run.finish(f"{seed} {finals} {steps}", rows)


def test_trainings_end_when_every_statement_is_decided(run: Run) -> None:
    tested = trainings()
    assert not tested.ended(run)
    train(run, range(4), {"a": 1.0, "b": 0.2})
    assert not tested.ended(run)
    train(run, range(4, 5), {"a": 1.0})
    assert not tested.ended(run), "of b a seed is missing"
    train(run, range(4, 5), {"b": 0.2})
    assert tested.ended(run)


def test_a_seed_counts_whatever_run_of_the_store_trained_it(run: Run, tmp_path: Path) -> None:
    train(run, range(4), {"a": 1.0, "b": 0.2})
    store = Store.open(tmp_path / "store.sqlite")
    later = store.begin_run("tiny", "another revision", {"fingerprint": "here"})
    train(later, range(4, 5), {"a": 1.0, "b": 0.2})
    assert trainings().ended(later)
    fresh = store.begin_run("tiny", "another revision", {"fingerprint": "here"}, fresh=True)
    assert not trainings().ended(fresh)


def test_trainings_of_another_length_do_not_count(run: Run) -> None:
    train(run, range(5), {"a": 1.0, "b": 0.2}, steps=50)
    assert not trainings().ended(run)


def test_only_the_statements_that_end_them_have_to_be_decided(run: Run) -> None:
    train(run, range(7), {"a": 1.0, "b": 0.52})
    assert not trainings().ended(run), "it is too near to one half"
    assert trainings(ends=(("b", 0.9),)).ended(run)


def test_trainings_end_with_the_last_look(run: Run) -> None:
    train(run, range(LOOKS[-1] - 1), {"a": 1.0, "b": 0.9})
    assert not trainings().ended(run)
    train(run, range(LOOKS[-1] - 1, LOOKS[-1]), {"a": 1.0, "b": 0.9})
    assert trainings().ended(run)
