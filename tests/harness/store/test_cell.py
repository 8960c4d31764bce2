"""Cells of a run: their attempts, when they are finished, and the row of one that raised."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from placerl.harness.core.progress import Report, silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.platforms import available_memory
from placerl.harness.platforms.available_memory import NotEnoughMemory
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run, Store
from tests.harness.old_form import details_of
from tests.harness.store.rows import row


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Store.open(tmp_path / "store.sqlite") as store:
        yield store.begin_run("tiny", "revision", {"fingerprint": "here"})


FAILED = replace(row(1.0), value=None, status="failed", reason="made up")
CELL = Cell("run/cartpole-dqn/32", 1, lambda run, report: [])


@pytest.mark.parametrize("raises", [False, True])
def test_memory_is_given_back_after_a_measurement(
    run: Run, monkeypatch: pytest.MonkeyPatch, raises: bool
) -> None:
    done: list[str] = []

    def measure(run: Run, report: Report) -> list[Row]:
        done.append("measured")
        if raises:
            raise ZeroDivisionError
        return [row(1.0)]

    monkeypatch.setattr(available_memory, "release", lambda: done.append("released"))
    cell = replace(CELL, measure=measure)
    with pytest.raises(ZeroDivisionError) if raises else nullcontext():
        assert cell.measured(run, silent) == [row(1.0)]
    assert done == ["measured", "released"]


def test_attempts_are_numbered_from_the_second_on(run: Run) -> None:
    cell = Cell("a", 1, lambda run, report: [])
    assert cell.rows(run) == []
    for name in ("a", "a#2", "a#3"):
        cell.store(run, [row(1.0)])
        assert run.finished(name)
    assert not run.finished("a#4")


def test_the_rows_are_those_of_the_last_attempt(run: Run) -> None:
    for value in (1.0, 2.0, 3.0):
        CELL.store(run, [row(value)])
        assert [each.value for each in CELL.rows(run)] == [value]
    assert [each.value for each in run.measurements()] == [1.0, 2.0, 3.0], "earlier attempts stay"


def test_a_cell_is_finished_whose_last_attempt_has_a_row_that_did_not_fail(run: Run) -> None:
    for rows, finished in (
        ([FAILED], False),
        ([FAILED, row(1.0)], True),
        ([FAILED, FAILED], False),
        ([row(1.0)], True),
    ):
        CELL.store(run, rows)
        assert CELL.finished(run) == finished


def test_a_cell_is_due_until_it_is_finished_and_whenever_it_is_stale(run: Run) -> None:
    stale: list[int] = []
    cell = replace(CELL, stale=lambda run: bool(stale))
    assert cell.due(run)
    cell.store(run, [FAILED])
    assert cell.due(run)
    cell.store(run, [FAILED, row(1.0)])
    assert not cell.due(run)
    stale.append(1)
    assert cell.due(run)


def test_a_cell_failed_if_a_part_of_it_did_and_it_is_due_again(run: Run) -> None:
    cell = replace(CELL, stale=lambda run: any(row.status == "failed" for row in CELL.rows(run)))
    assert not cell.failed(run), "it was never measured"
    for rows, failed in (([FAILED], True), ([FAILED, row(1.0)], True), ([row(1.0)], False)):
        cell.store(run, rows)
        assert cell.failed(run) == failed
    CELL.store(run, [FAILED, row(1.0)])
    assert not CELL.failed(run), "its failed rows are results"


def test_a_cell_that_lacked_memory_is_due_and_did_not_fail(run: Run) -> None:
    CELL.store(run, [CELL.failure(NotEnoughMemory("needs 4 GB"))])
    assert (CELL.finished(run), CELL.due(run), CELL.failed(run)) == (False, True, False)
    CELL.store(run, [replace(FAILED, status="not_run", reason="no such device")])
    assert (CELL.finished(run), CELL.due(run), CELL.failed(run)) == (True, False, False)


def test_a_cell_is_older_than_what_it_needs_if_that_was_measured_after_it(run: Run) -> None:
    needed, other = replace(CELL, key="a"), replace(CELL, key="a/b")
    cell = replace(CELL, key="c", needs=("a",))
    assert not cell.older_than_needed(run), "it was never measured"
    for _ in range(2):
        needed.store(run, [row(1.0)])
        cell.store(run, [row(1.0)])
        other.store(run, [row(1.0)])
        assert not cell.older_than_needed(run)
    needed.store(run, [row(1.0)])
    assert cell.older_than_needed(run)
    cell.store(run, [row(1.0)])
    assert not cell.older_than_needed(run)


def test_a_cell_needs_nothing_and_goes_not_stale_unless_it_says_so(run: Run) -> None:
    assert not CELL.finished(run)
    assert CELL.stale(run) is False
    assert (CELL.chain, CELL.baselines, CELL.needs) == ("", (), ())
    assert CELL.provenance is Provenance.MEASURED


def test_a_failure_names_suite_workload_and_error() -> None:
    failed = CELL.failure(ValueError("why"))
    assert (failed.suite, failed.workload, failed.primitive) == ("run", "cartpole-dqn", "run/cartpole-dqn/32")
    assert (failed.quantity, failed.unit, failed.reason) == ("failure", "1", "ValueError: why")
    assert (failed.status, failed.value) == ("failed", None)


def test_a_failure_names_the_baseline_and_the_batch_size_where_they_are_known() -> None:
    error = ValueError("why")
    failed = CELL.failure(error)
    assert (failed.who, failed.batch_size, details_of(failed)) == ("", None, {})
    failed = replace(CELL, baselines=("sb3",), batch_size=64).failure(error)
    assert (failed.who, failed.batch_size, details_of(failed)) == ("sb3", 64, {"baseline": "sb3"})
    failed = replace(CELL, baselines=("sb3",), label="sb3, replay alone").failure(error)
    assert (failed.who, details_of(failed)) == ("sb3", {"baseline": "sb3, replay alone"})


def test_a_failure_of_memory_is_not_run_and_gives_the_message_alone() -> None:
    failed = replace(CELL, provenance=Provenance.SIMULATED).failure(NotEnoughMemory("needs 4 GB"))
    assert (failed.status, failed.reason) == ("not_run", "needs 4 GB")
    assert failed.provenance is Provenance.SIMULATED
