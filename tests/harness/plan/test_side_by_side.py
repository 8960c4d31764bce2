"""Cells that are measured at the same time, in processes."""

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report, silent
from placerl.harness.core.revision import CodeWatch
from placerl.harness.core.row import Row
from placerl.harness.plan import side_by_side
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run
from tests.harness.store.rows import row
from tests.limits import LIMIT_S


def measured(run: Run, report: Report) -> list[Row]:
    return [row(float(os.getpid()))]


def waiting_for(own: str, other: str) -> Any:
    """Return what ends when another one has begun."""

    def measure(run: Run, report: Report) -> list[Row]:
        folder, until_s = run.path.parent, time.monotonic() + LIMIT_S
        (folder / own).touch()
        while not (folder / other).exists():
            assert time.monotonic() < until_s
            time.sleep(0.01)
        return [row(float(os.getpid()))]

    return measure


def broken(run: Run, report: Report) -> list[Row]:
    raise RuntimeError("the disk is on fire")


def dead(run: Run, report: Report) -> list[Row]:
    os._exit(3)


def side(key: str, measure: Any = measured, **more: Any) -> Cell:
    return Cell(f"run/{key}", 1, measure, one_thread=True, **more)


def pids(run: Run, *cells: Cell) -> list[float | None]:
    return [cell.rows(run)[0].value for cell in cells]


def test_pieces_run_at_the_same_time_and_what_must_be_alone_runs_here(run: Run) -> None:
    stored: list[str] = []
    a = side("a", waiting_for("a", "b"), stored=lambda run: stored.append("a"))
    b, alone = side("b", waiting_for("b", "a")), Cell("run/alone", 1, measured)
    told: list[str] = []
    side_by_side.execute(run, [a, b, alone], lambda done, total, what: told.append(what), processes=2)
    one, other, here = pids(run, a, b, alone)
    assert here == os.getpid()
    assert len({one, other, here}) == 3
    assert stored == ["a"]
    assert "run/a, run/b" in told


def test_a_failure_or_a_death_is_stored_the_rest_goes_on_and_both_are_due_again(run: Run) -> None:
    cells = [side("broken", broken), side("dead", dead), side("fine"), side("after", needs=("run/broken",))]
    side_by_side.execute(run, cells, silent, processes=1)
    failed, died, fine, after = cells
    assert "the disk is on fire" in failed.rows(run)[0].reason
    assert "ended with status 3" in died.rows(run)[0].reason
    assert pids(run, fine) != [None]
    assert not after.rows(run), "what it needs failed"
    assert [cell.due(run) for cell in cells] == [True, True, False, True]


def test_a_piece_begins_when_what_it_needs_is_stored_and_not_at_all_if_that_made_it_moot(run: Run) -> None:
    first = side("first")
    moot = side("moot", moot=lambda run: run.finished("run/first"))
    second = side("second", lambda run, report: list(first.rows(run)), needs=("run/first",))
    side_by_side.execute(run, [first, moot, second], silent, processes=1)
    assert not moot.rows(run)
    assert not moot.due(run)
    assert pids(run, second) == pids(run, first)
    side_by_side.execute(run, [replace(first, measure=broken), second], silent, processes=1)
    assert pids(run, second) == pids(run, first), "what is finished is not measured again"


def test_a_change_of_the_code_ends_the_run_and_keeps_what_is_stored(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, second = side("first"), side("second")
    monkeypatch.setattr(CodeWatch, "changed", lambda self: run.finished("run/first"))
    with pytest.raises(UserError, match="files were edited"):
        side_by_side.execute(run, [first, second], silent, processes=1)
    assert not first.due(run)
    assert second.due(run)
