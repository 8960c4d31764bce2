"""The loop that carries out a plan: each cell is measured once and stored as soon as it ends.

An interrupted run therefore goes on with the next cell: a finished one is never repeated.
"""

from collections.abc import Callable, Sequence

from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report, part
from placerl.harness.core.revision import CodeWatch
from placerl.harness.core.row import Interrupted, Row
from placerl.harness.plan.last_result import in_words
from placerl.harness.store.cell import Cell
from placerl.harness.store.crash_marker import MAX_CRASHES, crash_marker
from placerl.harness.store.peak_memory import CellPeak
from placerl.harness.store.store import Run


def execute(
    run: Run, cells: list[Cell], report: Report, last: Callable[[str], None] = lambda _: None
) -> None:
    """Measure those cells (units of work) of a plan that the run does not hold yet, and store each as soon as it ends.

    Cells that failed in an earlier attempt, or whose stored rows are out of date, are measured again.

    If a cell raises an exception, a row with the error is stored instead, and the run continues. The same is stored
    for a cell in which the process died `MAX_CRASHES` times.

    If the code is edited meanwhile, the run stops, and the rows of the current cell are not stored: they would be of
    another revision than the run's.

    Args:
        report: called with the expected seconds done, their total, and the cell's key.
        last: called with what a cell found, in words, when it ends.

    Raises:
        UserError: the code was edited since the run began; the finished cells are stored.
    """
    code = CodeWatch()
    sizes_s = [max(cell.estimate_s, 1) for cell in cells]
    total_s = sum(sizes_s)
    for number, cell in enumerate(cells):
        done_s = sum(sizes_s[:number])
        report(done_s, total_s, cell.key)
        if cell.due(run):
            inner = part(report, done_s, sizes_s[number], total_s, cell.key)
            rows = measure_and_store(run, cell, inner, code)
            last(in_words(rows))
    report(total_s, total_s, "done")


def measure_and_store(run: Run, cell: Cell, report: Report, code: CodeWatch) -> Sequence[Row]:
    """Measure a cell (a unit of work) and store its rows, or the error that it raises; return what was stored.

    A process that dies meanwhile leaves a mark next to the store (`crash_marker`); after `MAX_CRASHES` deaths the cell
    is stored as failed instead of measured.

    Raises:
        UserError: the code was edited since the run began; the cell's rows are not stored.
        Interrupted: the measurement was interrupted; the rows that it had until then are stored.
    """
    check_unchanged(code, run)
    with crash_marker(run.path, run.record.key, cell.key) as deaths:
        peak = CellPeak(run)
        rows: Sequence[Row]
        try:
            if deaths >= MAX_CRASHES:
                raise RuntimeError(f"the process died in it {deaths} times: out of memory, or killed")
            rows = _measured(run, cell, report, code)
        # one failing cell must not stop the others; its error is stored and shown
        except Exception as error:
            rows = [cell.failure(error)]
        check_unchanged(code, run)
        with run.writing():
            cell.store(run, rows)
            peak.store(cell.key)
    tell_stored(run, cell)
    return rows


def tell_stored(run: Run, cell: Cell) -> None:
    """Call what a cell (a unit of work) has to be called once its rows are stored, unless they are a failure's."""
    if cell.finished(run):
        cell.stored(run)


def measure_now(run: Run, cell: Cell, report: Report) -> Sequence[Row]:
    """Measure a cell (a unit of work of a run) even if the run holds its rows, store the rows and return them.

    Raises:
        Interrupted: the measurement was interrupted; the rows that it had until then are stored.
        UserError: the code was edited during the measurement; nothing is stored.
        Exception: whatever else the measurement raises reaches the caller; nothing is stored.
    """
    code, peak = CodeWatch(), CellPeak(run)
    rows = _measured(run, cell, report, code)
    check_unchanged(code, run)
    with run.writing():
        cell.store(run, rows)
        peak.store(cell.key)
    return rows


def check_unchanged(code: CodeWatch, run: Run) -> None:
    """Raise UserError if the code was edited since the run began, as `code` has watched."""
    if code.changed():
        allowed = f"{run.record.revision} until the run ends; the finished cells are kept"
        raise UserError("code", "revision", "another, because files were edited during the run", allowed)


def _measured(run: Run, cell: Cell, report: Report, code: CodeWatch) -> Sequence[Row]:
    """Return a cell's rows; if it is interrupted, the rows so far are stored first, unless the code was edited."""
    try:
        return cell.measured(run, report)
    except Interrupted as stop:
        if stop.rows and not code.changed():
            cell.store(run, stop.rows)
        raise
