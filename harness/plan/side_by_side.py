"""Measures cells of a plan at the same time, in one process for each core, and stores each as soon as it ends.

Only cells that compute in one thread and time nothing that is judged (`Cell.one_thread`) share the machine; every other
cell is measured in this process while nothing else is. A process that is killed loses the cell that it measures, and
ends with this one. Which cells are due is asked again before each: a sequential test may have ended a claim.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from functools import partial
from queue import SimpleQueue

import cloudpickle

from placerl.harness.core.progress import Report, part, silent
from placerl.harness.core.revision import CodeWatch
from placerl.harness.core.row import Row
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.plan import execution
from placerl.harness.plan.last_result import in_words
from placerl.harness.runtime.units.process import ProcessUnit
from placerl.harness.runtime.units.unit import UnitError
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run, RunRecord, Store

_LONGEST_S = 86_400.0
"""Seconds after which a process that does not answer is taken to have stalled."""


def execute(
    run: Run,
    cells: Sequence[Cell],
    report: Report,
    last: Callable[[str], None] = lambda _: None,
    *,
    processes: int | None = None,
) -> None:
    """Measure the cells of a plan that are due, each once, in their order as far as they do not wait for each other.

    A cell that raises an exception, or whose process dies, is stored as failed, and is due the next time.

    Args:
        report: called with the expected seconds done, their total, and the keys of the cells in hand.
        processes: cells that are measured at the same time; None: one for each core.

    Raises:
        UserError: the code was edited since the run began; the finished cells are stored.
    """
    with ExitStack() as opened:
        side = _SideBySide(run, cells, processes or len(usable_cores()), opened)
        side.execute(report, last)


class _SideBySide:
    def __init__(self, run: Run, cells: Sequence[Cell], processes: int, opened: ExitStack) -> None:
        self._run, self._cells, self._processes = run, cells, processes
        self._by_key = {cell.key: cell for cell in cells}
        self._tried: set[str] = set()
        self._in_hand: dict[Future[Sequence[Row]], Cell] = {}
        self._threads = ThreadPoolExecutor(processes)
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        # After the workers have ended, so that no thread waits for one.
        opened.callback(self._threads.shutdown)
        for number in range(processes):
            self._idle.put(worker := _Worker(f"piece {number + 1}", run))
            opened.callback(worker.kill)

    def execute(self, report: Report, last: Callable[[str], None]) -> None:
        code = CodeWatch()
        total_s = sum(max(cell.estimate_s, 1) for cell in self._cells)

        def done_s() -> float:
            return total_s - sum(max(cell.estimate_s, 1) for cell in self._cells if cell.due(self._run))

        while True:
            execution.check_unchanged(code, self._run)
            for cell in self._ready():
                self._tried.add(cell.key)
                if cell.one_thread:
                    self._in_hand[self._threads.submit(self._measured, cell)] = cell
                else:
                    inner = part(report, done_s(), cell.estimate_s, total_s, cell.key)
                    last(in_words(execution.measure_and_store(self._run, cell, inner, code)))
                    break
            else:
                if not self._in_hand:
                    report(total_s, total_s, "done")
                    return
                report(done_s(), total_s, ", ".join(cell.key for cell in self._in_hand.values()))
                for ended in wait(self._in_hand, return_when=FIRST_COMPLETED).done:
                    cell, rows = self._in_hand.pop(ended), ended.result()
                    execution.check_unchanged(code, self._run)
                    cell.store(self._run, rows)
                    execution.tell_stored(self._run, cell)
                    last(in_words(rows))

    def _ready(self) -> Iterator[Cell]:
        """Yield the cells to begin now: as many as processes are free, or one that must be alone if nothing runs."""
        for cell in self._cells:
            if len(self._in_hand) == self._processes:
                return
            if cell.key in self._tried or not cell.due(self._run):
                continue
            if any(self._by_key[key].due(self._run) for key in cell.needs if key in self._by_key):
                continue
            if not cell.one_thread and self._in_hand:
                return  # it begins when what runs has ended
            yield cell

    def _measured(self, cell: Cell) -> Sequence[Row]:
        worker = self._idle.get()
        try:
            return worker.measured(cell)
        finally:
            self._idle.put(worker)


class _Worker:
    """A process that measures one cell after another; after a crash the next cell gets a new one."""

    def __init__(self, name: str, run: Run) -> None:
        self._name, self._build = name, partial(_serve, str(run.path), run.record)
        self._unit: ProcessUnit[bytes, Sequence[Row]] | None = None

    def measured(self, cell: Cell) -> Sequence[Row]:
        """Return the rows of a cell, or the row of its failure."""
        try:
            self._unit = self._unit or ProcessUnit(self._name, self._build)
            self._unit.submit(cloudpickle.dumps(cell))
            return self._unit.result(_LONGEST_S)
        except UnitError as error:  # the next cell gets a new process
            self.kill()
            self._unit = None
            return [cell.failure(error)]

    def kill(self) -> None:
        """End the process, so that a thread that waits for its answer goes on."""
        if self._unit:
            self._unit.kill()


def _serve(path: str, record: RunRecord) -> Callable[[bytes], Sequence[Row]]:
    """Return the function of a process: it measures a cell, with the rows that the store holds when it begins."""

    def work(pickled: bytes) -> Sequence[Row]:
        cell: Cell = cloudpickle.loads(pickled)
        with closing(Store.open(path, read_only=True)) as store:
            try:
                return cell.measured(Run(store, record), silent)
            except Exception as error:  # is stored and shown; the other cells go on
                return [cell.failure(error)]

    return work
