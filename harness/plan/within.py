"""Measures as many cells of a plan as a time allows, in their order, and ends in time.

A cell whose estimate does not fit into what is left gives way to the next one that fits. Estimates are corrected by
how long the cells before took. What an alarm cuts off at the end is the cell that runs, and no other.
"""

import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from placerl.harness.core.interrupts import importing
from placerl.harness.core.progress import Report
from placerl.harness.core.revision import CodeWatch
from placerl.harness.plan import execution
from placerl.harness.plan.last_result import in_words
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run

_SOON_S = 0.05  # after an alarm that came in an import
_AGAIN_S = 10.0  # long enough for a cell to end its processes


class TimeIsUpError(KeyboardInterrupt):
    """Raised in a cell that is still measured when the time is up; whatever handles Ctrl-C handles it as well."""


@dataclass
class Measured:
    """What a time was enough for.

    Attributes:
        cells: keys of the cells that were measured, in order.
        cut_off: key of the cell that the end of the time cut off; empty if there was none.
        left: the cells that are still due, because their estimates did not fit.
    """

    cells: list[str] = field(default_factory=list)
    cut_off: str = ""
    left: list[Cell] = field(default_factory=list)


def held(runs: Sequence[Run], cells: Sequence[Cell]) -> set[str]:
    """Return the keys of the cells that one of some runs holds: of this machine or another, with any card.

    Cells of a chain are judged together, and rows of two machines never are: they count only where one run holds all
    of them. A cell of which nothing could be run on one machine may be measured on another.
    """
    chains: dict[str, list[Cell]] = {}
    for cell in cells:
        chains.setdefault(cell.chain or cell.key, []).append(cell)
    whole = [chain for chain in chains.values() if any(all(_holds(run, c) for c in chain) for run in runs)]
    return {cell.key for chain in whole for cell in chain}


def _holds(run: Run, cell: Cell) -> bool:
    return not cell.due(run) and any(row.status != "not_run" for row in cell.rows(run))


def measure(
    run: Run,
    cells: Sequence[Cell],
    budget_s: float,
    report: Report,
    last: Callable[[str], None] = lambda _: None,
    *,
    done: Collection[str] = (),
    clock: Callable[[], float] = time.monotonic,
) -> Measured:
    """Measure the cells of a plan that fit into a time, and store each as soon as it ends.

    Each cell is tried once. One that fails is stored as failed, and is due the next time.

    Args:
        cells: the plan, in order: what is worth most comes first.
        budget_s: the time, seconds.
        report: called with the seconds spent, the time, and what is measured.
        done: keys of cells that are not measured, because another run holds them.

    Raises:
        UserError: the code was edited since the run began; the finished cells are stored.
        KeyboardInterrupt: Ctrl-C.
    """
    code, begin_s = CodeWatch(), clock()
    outcome = Measured(left=[cell for cell in cells if cell.key not in done and cell.due(run)])
    estimated_s = taken_s = 0.0

    def spent_s() -> float:
        return clock() - begin_s

    while True:
        factor = max(1.0, taken_s / estimated_s) if estimated_s else 1.0
        left_s = budget_s - spent_s()
        cell = next((one for one in outcome.left if one.estimate_s * factor <= left_s), None)
        if cell is None:
            report(min(spent_s(), budget_s), budget_s, "done")
            return outcome
        key = cell.key

        def inner(_: float, __: float, what: str, key: str = key) -> None:
            report(min(spent_s(), budget_s), budget_s, f"{key}: {what}" if what else key)

        inner(0.0, 0.0, "")
        cell_begin_s = clock()
        alarm = _Alarm()
        try:
            with alarm.after(left_s):
                rows = execution.measure_and_store(run, cell, inner, code)
        except KeyboardInterrupt:  # what a cell makes of an interruption may be of another class
            if not alarm.rang:
                raise
            outcome.cut_off = key
            report(budget_s, budget_s, "time is up")
            return outcome
        outcome.left.remove(cell)
        outcome.cells.append(key)
        estimated_s += cell.estimate_s
        taken_s += clock() - cell_begin_s
        last(in_words(rows))


class _Alarm:
    """Raises `TimeIsUpError` in a `with` block of the main thread that takes too long; never inside an import.

    Attributes:
        rang: whether it has raised.
    """

    def __init__(self) -> None:
        self.rang = False

    @contextmanager
    def after(self, seconds: float) -> Iterator[None]:
        """Ring after some seconds, and again every `_AGAIN_S`: a library may drop what is raised in its callback."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, max(seconds, _SOON_S), _AGAIN_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)

    def _ring(self, _: int, frame: FrameType | None) -> None:
        if importing(frame):
            signal.setitimer(signal.ITIMER_REAL, _SOON_S, _AGAIN_S)
            return
        self.rang = True
        raise TimeIsUpError
