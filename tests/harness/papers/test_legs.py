"""Trainings in legs: each is a piece of the plan, and continues the one before."""

from collections.abc import Callable
from pathlib import Path

import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report, silent
from placerl.harness.core.row import Row
from placerl.harness.papers import legs, relaxed_training
from placerl.harness.papers.fix import training
from placerl.harness.papers.legs import PIECE_S, SO_FAR, Leg, legs_of
from placerl.harness.papers.map.figure_10 import PRESAMPLED
from placerl.harness.papers.relaxed_training import RelaxedTask
from placerl.harness.plan import execution
from placerl.harness.runtime.training import Training
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run, Store
from tests.harness.old_form import details_of

TASK = RelaxedTask(PRESAMPLED, "cartpole-ddpg", 400, step_s=1e-4)


def relaxed(leg: Leg, report: Report = silent) -> Row:
    return relaxed_training.train(TASK, PRESAMPLED.curves[2], 3, leg, report)


def fixed_point(leg: Leg, report: Report = silent) -> Row:
    task = training.FixedPointTask("pendulum-ddpg", 8, 2)
    formats = training.CURVES[training.DYNAMIC](task)
    return training.train(task, training.DYNAMIC, formats, 3, report, leg=leg)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Store.open(tmp_path / "store.sqlite").begin_run("tiny", "revision", {"fingerprint": "here"})


@pytest.mark.parametrize(("train", "stretches", "of_first"), [(relaxed, 18, 8), (fixed_point, 5, 3)])
def test_the_last_leg_tells_the_whole_training(
    train: Callable[[Leg], Row], stretches: int, of_first: int, tmp_path: Path
) -> None:
    halves = [Leg(number, 2, tmp_path / "snapshots" / "seed3") for number in range(2)]
    before = train(halves[0])
    assert (before.quantity, before.samples, before.status) == (SO_FAR, (), "ok")
    after, again = train(halves[1]), train(halves[1])
    assert (after.value, after.samples) == (again.value, again.samples), "whatever process trains it"
    whole = train(legs.WHOLE)
    assert (after.quantity, after.status) == (whole.quantity, whole.status)
    for row in (after, whole):
        told = details_of(row).get("mean_returns") or row.samples
        assert len(told) == stretches
    assert details_of(after).get("gradient_steps") == details_of(whole).get("gradient_steps")
    every = (details_of(one).get("mean_returns") or one.samples for one in (after, whole))
    told, expected = (list(each)[:of_first] for each in every)
    assert told == expected, "the first leg is the beginning of the training that is not cut"


def cells(folder: Path, train: object = relaxed, count: int = 2) -> list[Cell]:
    return legs.cells("TOY/seed3", count, 100.0, train, position=6, moot=lambda run: False)  # type: ignore[arg-type]


def test_each_leg_needs_the_one_before(tmp_path: Path) -> None:
    one, two, three = cells(tmp_path, count=3)
    assert [one.key, two.key, three.key] == [
        "claim/TOY/seed3/leg1of3",
        "claim/TOY/seed3/leg2of3",
        "claim/TOY/seed3",
    ]
    assert (one.needs, two.needs, three.needs) == ((), (one.key,), (two.key,))
    assert {cell.look for cell in (one, two, three)} == {2}, "six seeds are more than the first look's five"
    assert sum(cell.estimate_s for cell in (one, two, three)) == pytest.approx(100)


def test_a_snapshot_is_removed_when_the_next_leg_is_stored(run: Run) -> None:
    folder = run.path.parent / "trainings" / run.record.key
    for cell, left in zip(cells(run.path), (2, 0), strict=True):
        execution.execute(run, [cell], silent)
        assert not cell.due(run), cell.rows(run)[0].reason
        assert len(list(folder.iterdir())) == left


def test_a_leg_whose_snapshot_is_gone_fails_and_says_what_to_do(run: Run) -> None:
    first, second = cells(run.path)
    execution.execute(run, [first], silent)
    for path in (run.path.parent / "trainings" / run.record.key).iterdir():
        path.unlink()
    execution.execute(run, [second], silent)
    assert second.failed(run)
    assert "with --fresh the training begins again" in second.rows(run)[0].reason


def test_a_damaged_snapshot_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "seed3.1").write_bytes(b"no snapshot")
    with pytest.raises(UserError, match=r"seed3\.1: snapshot: found"):
        Leg(1, 2, tmp_path / "seed3").begun()


def test_a_leg_that_is_killed_before_its_end_is_trained_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(self: Training, gradient_steps: int) -> None:
        raise KeyboardInterrupt

    first, second = cells(run.path)
    execution.execute(run, [first], silent)
    with monkeypatch.context() as killed:
        killed.setattr(Training, "advance", cut)
        with pytest.raises(KeyboardInterrupt):
            execution.execute(run, [first, second], silent)
    assert second.due(run)
    execution.execute(run, [first, second], silent)
    assert not second.due(run)


@pytest.mark.parametrize(
    ("seconds", "expected"), [(10, 1), (PIECE_S, 1), (PIECE_S + 1, 2), (7_500, 10), (1e6, 20)]
)
def test_a_leg_takes_at_most_its_time_and_a_whole_share_of_the_stretches(
    seconds: float, expected: int
) -> None:
    assert legs_of(seconds, 20) == expected
