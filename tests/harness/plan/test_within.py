"""What fits into a time: order, estimates, the end, and going on after a kill and on another machine."""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from placerl.harness.core.progress import Report, silent
from placerl.harness.core.row import Interrupted, Row
from placerl.harness.plan import within
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run, Store
from tests.harness.store.rows import row
from tests.limits import LIMIT_S


class FakeDevice:
    """A device that sleeps, by a clock of its own, instead of measuring."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.measured: list[str] = []

    def cell(self, key: str, takes_s: float, estimate_s: float | None = None) -> Cell:
        def measure(run: Run, report: Report) -> Sequence[Row]:
            self.measured.append(key)
            report(1, 2, "half")
            self.now_s += takes_s
            return [row(takes_s)]

        return Cell(key, takes_s if estimate_s is None else estimate_s, measure)

    def clock(self) -> float:
        return self.now_s


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


def test_what_is_first_in_the_plan_is_measured_first(run: Run, device: FakeDevice) -> None:
    cells = [device.cell(key, 5) for key in ("b", "a", "c")]
    outcome = within.measure(run, cells, 60, silent, clock=device.clock)
    assert device.measured == outcome.cells == ["b", "a", "c"]
    assert not outcome.left
    assert run.cells() == ["b", "a", "c"]


def test_a_cell_that_does_not_fit_gives_way_to_a_smaller_one_and_the_run_ends_in_time(
    run: Run, device: FakeDevice
) -> None:
    cells = [device.cell("a", 10), device.cell("large", 30), device.cell("b", 5), device.cell("c", 20)]
    outcome = within.measure(run, cells, 20, silent, clock=device.clock)
    assert outcome.cells == ["a", "b"]
    assert [cell.key for cell in outcome.left] == ["large", "c"]
    assert device.now_s <= 20


def test_estimates_follow_how_long_the_cells_before_took(run: Run, device: FakeDevice) -> None:
    """A cell of 10 s fits into the 15 s that are left, but not where all take twice as long."""
    cells = [device.cell("a", 20, estimate_s=10), device.cell("b", 10), device.cell("c", 7)]
    outcome = within.measure(run, cells, 35, silent, clock=device.clock)
    assert outcome.cells == ["a", "c"]


def test_progress_is_what_is_measured_and_the_time(run: Run, device: FakeDevice) -> None:
    said: list[tuple[float, float, str]] = []
    cells = [device.cell("a", 4), device.cell("b", 4)]
    within.measure(run, cells, 10, lambda *progress: said.append(progress), clock=device.clock)
    assert said == [(0, 10, "a"), (0, 10, "a: half"), (4, 10, "b"), (4, 10, "b: half"), (8, 10, "done")]


def test_a_cell_that_fails_is_stored_once_and_due_the_next_time(run: Run, device: FakeDevice) -> None:
    def broken(run: Run, report: Report) -> Sequence[Row]:
        raise RuntimeError("no memory on the device")

    cells = [Cell("run/a", 1, broken), device.cell("b", 1)]
    outcome = within.measure(run, cells, 60, silent, clock=device.clock)
    assert outcome.cells == ["run/a", "b"]
    assert [found.status for found in run.measurements()] == ["failed", "ok"]
    again = within.measure(run, cells, 60, silent, clock=device.clock)
    assert again.cells == ["run/a"]


def test_what_runs_when_the_time_is_up_is_cut_off_and_nothing_of_it_is_stored(run: Run) -> None:
    def sleeps(run: Run, report: Report) -> Sequence[Row]:
        time.sleep(LIMIT_S)
        return [row(1.0)]

    before = signal.getsignal(signal.SIGALRM)
    # By a clock that stands still the cell begins, however late; the alarm has the system's.
    outcome = within.measure(run, [Cell("a", 0, sleeps)], 0.2, silent, clock=lambda: 0.0)
    assert (outcome.cut_off, outcome.cells) == ("a", [])
    assert run.cells() == []
    assert signal.getsignal(signal.SIGALRM) is before


def test_a_cell_that_turns_the_alarm_into_an_interruption_of_its_own_is_cut_off_too(run: Run) -> None:
    def sleeps(run: Run, report: Report) -> Sequence[Row]:
        try:
            time.sleep(LIMIT_S)
        except KeyboardInterrupt:
            raise Interrupted([]) from None
        return [row(1.0)]

    assert within.measure(run, [Cell("a", 0, sleeps)], 0.2, silent, clock=lambda: 0.0).cut_off == "a"


def test_ctrl_c_is_not_the_end_of_the_time(run: Run) -> None:
    def interrupted(run: Run, report: Report) -> Sequence[Row]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        within.measure(run, [Cell("a", 0, interrupted)], 60, silent)


KILLED = """
import os, signal, sys
from placerl.harness.core.progress import silent
from placerl.harness.plan import within
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Store
from tests.harness.store.rows import row

def killed(run, report):
    os.kill(os.getpid(), signal.SIGKILL)

run = Store.open(sys.argv[1]).begin_run("gpu", "revision", {"fingerprint": "one card"})
cells = [Cell("a", 1, lambda run, report: [row(1.0)]), Cell("b", 1, killed)]
within.measure(run, cells, 60, silent)
"""


def test_what_could_not_be_run_on_one_machine_is_tried_on_another_and_not_again_on_the_same(
    tmp_path: Path, device: FakeDevice
) -> None:
    missing = replace(row(0.0), value=None, status="not_run", reason="no kernels are traced")
    cells = [device.cell("a", 1)]
    with Store.open(tmp_path / "store.sqlite") as store:
        one, other = (store.begin_run("gpu", "revision", {"fingerprint": name}) for name in ("one", "other"))
        one.finish("a", [missing])
        done = within.held(other.siblings(), cells)
        assert not within.measure(one, cells, 60, silent, done=done, clock=device.clock).cells
        assert within.measure(other, cells, 60, silent, done=done, clock=device.clock).cells == ["a"]
        assert within.held(one.siblings(), cells) == {"a"}


def test_after_a_kill_another_machine_goes_on_with_the_cell_that_ran(
    tmp_path: Path, device: FakeDevice
) -> None:
    path = tmp_path / "store.sqlite"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=LIMIT_S)
    assert ended.returncode == -signal.SIGKILL
    with Store.open(path) as store:
        other = store.begin_run("gpu", "a later revision", {"fingerprint": "another card"})
        store.begin_run("quick", "revision", {"fingerprint": "a CPU"}).finish("c", [row(1.0)])
        cells = [device.cell(key, 1) for key in ("a", "b", "c")]
        done = within.held(other.siblings(), cells)
        assert done == {"a"}
        within.measure(other, cells, 60, silent, done=done, clock=device.clock)
        assert device.measured == ["b", "c"]
        assert within.held(other.siblings(), cells) == {"a", "b", "c"}


def test_cells_that_are_judged_together_count_where_one_machine_has_them_all(
    tmp_path: Path, device: FakeDevice
) -> None:
    cells = [replace(device.cell(key, 1), chain="hopper") for key in ("a", "b")] + [device.cell("c", 1)]
    with Store.open(tmp_path / "store.sqlite") as store:
        one, other = (store.begin_run("gpu", "revision", {"fingerprint": name}) for name in ("one", "other"))
        one.finish("a", [row(1.0)])
        one.finish("c", [row(1.0)])
        other.finish("b", [row(1.0)])
        assert within.held(one.siblings(), cells) == {"c"}
        one.finish("b", [row(1.0)])
        assert within.held(other.siblings(), cells) == {"a", "b", "c"}
