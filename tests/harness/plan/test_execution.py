"""How a run measures the cells of its plan: once each, through failures, edits and kills."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report, silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.revision import CodeWatch
from placerl.harness.core.row import Interrupted, Row
from placerl.harness.plan import execution
from placerl.harness.platforms.available_memory import NotEnoughMemory
from placerl.harness.store.cell import Cell
from placerl.harness.store.crash_marker import MAX_CRASHES
from placerl.harness.store.peak_memory import CellPeak, recorded
from placerl.harness.store.store import Run, Store
from tests.harness.store.rows import row
from tests.limits import LIMIT_S


def test_a_finished_cell_is_not_measured_again(run: Run) -> None:
    calls = []

    def measure(run: Run, report: Report) -> list[Row]:
        calls.append(1)
        return [row(1.0)]

    for _ in range(2):
        execution.execute(run, [Cell("a", 1, measure)], silent)
    assert len(calls) == 1


def test_a_cell_that_raises_is_stored_the_rest_goes_on_and_it_is_due_again(run: Run) -> None:
    def broken(run: Run, report: Report) -> list[Row]:
        raise RuntimeError("the disk is on fire")

    cells = [Cell("run/a", 1, broken), Cell("run/b", 1, lambda run, report: [row(2.0)])]
    execution.execute(run, cells, silent)
    failed, fine = run.measurements()
    assert (failed.status, failed.value) == ("failed", None)
    assert "the disk is on fire" in failed.reason
    assert fine.value == 2.0

    mended = [replace(cells[0], measure=lambda run, report: [row(1.0)]), cells[1]]
    execution.execute(run, mended, silent)
    assert [item.value for item in run.measurements()] == [None, 2.0, 1.0]


def test_a_cell_that_the_memory_does_not_hold_is_not_run_and_tried_again(run: Run) -> None:
    """Another program may have held the memory."""
    tried: list[str] = []

    def measure(*_: object) -> list[Row]:
        tried.append("once")
        if len(tried) == 1:
            raise NotEnoughMemory("needs 4.28 GB of memory; allowed: 0.07 GB")
        return [row(1.0)]

    cell = Cell("claim/large", 1, measure)
    execution.execute(run, [cell], silent)
    (missing,) = run.measurements()
    assert (missing.status, missing.value, missing.reason) == (
        "not_run",
        None,
        "needs 4.28 GB of memory; allowed: 0.07 GB",
    )
    assert cell.due(run)
    for _ in range(2):
        execution.execute(run, [cell], silent)
        assert [found.value for found in cell.rows(run)] == [1.0]
    assert len(tried) == 2


@pytest.mark.parametrize("provenance", Provenance)
def test_a_failure_is_of_the_kind_that_the_cell_would_have_told(provenance: Provenance, run: Run) -> None:
    def broken(run: Run, report: Report) -> list[Row]:
        raise RuntimeError("no hardware")

    execution.execute(run, [Cell("profile/a", 1, broken, provenance=provenance)], silent)
    (failed,) = run.measurements()
    assert (failed.status, failed.provenance) == ("failed", provenance)


def test_what_is_stale_is_measured_again(run: Run) -> None:
    measured: list[int] = []
    cell = Cell(
        "a", 1, lambda run, report: measured.append(1) or [row(1.0)], stale=lambda run: len(measured) < 2
    )
    for _ in range(3):
        execution.execute(run, [cell], silent)
    assert len(measured) == 2


def test_progress_goes_by_the_expected_seconds_and_each_cell_counts_for_one_at_least(run: Run) -> None:
    said: list[tuple[float, float, str]] = []

    def half(run: Run, report: Report) -> list[Row]:
        report(1, 2, "half")
        return [row(1.0)]

    cells = [Cell("a", 0, half), Cell("b", 9, half), Cell("c", 0.5, half)]
    execution.execute(run, cells, lambda *progress: said.append(progress))
    assert said == [
        (0, 11, "a"),
        (0.5, 11, "a: half"),
        (1, 11, "b"),
        (5.5, 11, "b: half"),
        (10, 11, "c"),
        (10.5, 11, "c: half"),
        (11, 11, "done"),
    ]


@pytest.mark.parametrize(("deaths", "status"), [(MAX_CRASHES - 1, "ok"), (MAX_CRASHES, "failed")])
def test_a_cell_that_the_process_died_in_again_and_again_is_recorded_as_failed(
    run: Run, deaths: int, status: str
) -> None:
    noted = run.path.with_name(f"{run.path.name}-in-hand")
    noted.write_text(json.dumps({"cell": "run/a", "deaths": deaths}))
    execution.execute(run, [Cell("run/a", 1, lambda run, report: [row(1.0)])], silent)
    (found,) = run.measurements()
    assert found.status == status
    assert (f"died in it {deaths} times" in found.reason) == (status == "failed")


def test_a_cell_that_is_interrupted_keeps_the_rows_that_it_has(run: Run) -> None:
    def interrupted(rows: list[Row]) -> Cell:
        def measure(run: Run, report: Report) -> list[Row]:
            raise Interrupted(rows)

        return Cell("run/a", 1, measure)

    for rows in ([], [row(3.0)]):
        with pytest.raises(KeyboardInterrupt):
            execution.execute(run, [interrupted(rows)], silent)
        assert [one.value for one in run.measurements()] == [one.value for one in rows]
        assert interrupted([]).finished(run) == bool(rows)


@pytest.fixture
def working_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The code that the plan watches, of one file `code.py`."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "code.py").write_text("1")
    own = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"]
    for command in (["init"], ["add", "."], ["commit", "-m", "all"]):
        subprocess.run(["git", *own, *command], cwd=folder, check=True, capture_output=True)
    monkeypatch.setattr(execution, "CodeWatch", lambda: CodeWatch(folder))
    return folder


@pytest.mark.parametrize("raises", [None, ImportError, Interrupted])
def test_a_run_whose_code_is_edited_stops_and_keeps_what_finished_before(
    run: Run, working_copy: Path, raises: type[BaseException] | None
) -> None:
    def edited(run: Run, report: Report) -> list[Row]:
        (working_copy / "code.py").write_text("2")
        if raises is Interrupted:
            raise Interrupted([row(2.0)])
        if raises:
            raise raises
        return [row(2.0)]

    cells = [
        Cell("a", 1, lambda run, report: [row(1.0)]),
        Cell("b", 1, edited),
        Cell("c", 1, lambda run, report: [row(3.0)]),
    ]
    said = "code: revision: found .*edited.*; allowed: revision until .*finished cells are kept"
    expected = pytest.raises(Interrupted) if raises is Interrupted else pytest.raises(UserError, match=said)
    with expected:
        execution.execute(run, cells, silent)
    assert [one.value for one in run.measurements()] == [1.0]
    assert not run.path.with_name(f"{run.path.name}-in-hand").exists()


def test_a_cell_is_not_begun_with_code_that_was_edited_after_another_ended(
    run: Run, working_copy: Path
) -> None:
    cells = [Cell(key, 1, lambda run, report: [row(1.0)]) for key in "ab"]
    with pytest.raises(UserError, match="edited"):
        execution.execute(
            run, cells, silent, lambda said: (working_copy / "code.py").write_text("2") and None
        )
    assert run.cells() == ["a"]


def test_rows_measured_now_are_not_stored_if_the_code_was_edited_meanwhile(
    run: Run, working_copy: Path
) -> None:
    def edited(run: Run, report: Report) -> list[Row]:
        (working_copy / "code.py").write_text("2")
        return [row(1.0)]

    with pytest.raises(UserError, match="edited"):
        execution.measure_now(run, Cell("a", 1, edited), silent)
    assert run.cells() == []


def test_what_is_measured_now_is_measured_again_and_its_errors_are_the_caller_s(run: Run) -> None:
    cell = Cell("a", 1, lambda run, report: [row(1.0)])
    for number in (1, 2):
        assert execution.measure_now(run, cell, silent) == [row(1.0)]
        assert len(run.measurements()) == number
    with pytest.raises(ZeroDivisionError):
        execution.measure_now(run, Cell("a", 1, lambda run, report: 1 // 0), silent)
    assert len(run.measurements()) == 2


@pytest.mark.parametrize("measure", [execution.execute, execution.measure_now])
def test_a_cell_and_its_peak_are_one_change_of_the_store(
    run: Run, monkeypatch: pytest.MonkeyPatch, measure: Any
) -> None:
    """Each change writes the whole store; and a kill between two would leave a cell without its peak."""

    def break_off(peak: CellPeak, cell: str) -> None:
        assert run.cells() == ["run/a"]
        raise KeyboardInterrupt

    monkeypatch.setattr(CellPeak, "store", break_off)
    cell = Cell("run/a", 1, lambda run, report: [row(1.0)])
    with recorded(run), pytest.raises(KeyboardInterrupt):
        measure(run, [cell] if measure == execution.execute else cell, silent)
    assert "run/a" not in run.cells()


def test_while_peaks_are_recorded_each_cell_stores_its_own(run: Run) -> None:
    cells = [Cell(key, 1, lambda run, report: [row(1.0)]) for key in ("run/a", "run/b")]
    with recorded(run):
        execution.execute(run, cells, silent)
        execution.measure_now(run, cells[0], silent)
    peaks = [name for name in run.cells() if name.startswith("memory/run")]
    assert peaks == ["memory/run/a", "memory/run/b", "memory/run/a#2"]
    assert all((one.value or 0) > 10**7 for one in run.measurements(suite="memory"))


SCRIPT = """
import sys
from placerl.harness.plan import execution, plan as reproduce
from placerl.harness.core.progress import silent
from placerl.harness.store.store import Store
from placerl.harness.plan.tiers import Tier

tier = Tier("tiny", ("cartpole-dqn",), (32,), profile_s=2, experiment_s=1, run_s=1, compare_s=1, seeds=2)
run = Store.open(sys.argv[1]).begin_run("tiny", "revision", {"fingerprint": "here"})
print("begun", flush=True)
cells = [cell for cell in reproduce.plan(tier) if not cell.key.startswith(("compare", "simulated", "claim/FIX"))]
execution.execute(run, cells, silent)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_any_moment_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    finished: dict[str, str] = {}
    for end in ("killed", "killed after a cell", "by itself"):
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        if end == "by itself":
            assert process.wait(LIMIT_S) == 0
        else:
            # No cell is hit twice: all but the first death wait for a cell to finish.
            while end == "killed after a cell" and process.poll() is None:
                with Store.open(path) as store:
                    (record,) = store.runs()
                    if len(store.cells(record.id)) > len(finished):
                        break
                time.sleep(0.1)
            time.sleep(0.5)
            process.send_signal(signal.SIGKILL)
            process.wait()
        with Store.open(path) as store:
            (record,) = store.runs()
            frame = store.frame(run=record.id)
            now = dict(zip(frame["cell"], frame["finished_at"], strict=True))
            assert now.items() >= finished.items(), "a finished cell was lost or measured again"
            assert set(now) == set(store.cells(record.id)), "a cell without its rows"
            finished = now
    assert list(finished) == [
        "roofs/machine",
        "profile/cartpole-dqn/32",
        "prediction/cartpole-dqn/32",
        "run/cartpole-dqn/32/seed0",
        "run/cartpole-dqn/32/seed1",
        "claim/MAP-F12-threads",
        "claim/MAP-T5",
        "claim/PAL-F9",
        "claim/PAL-F9-locks",
        "claim/PAL-VI-H-layout",
    ]
    # What a machine may lack: a meter, instructions, or a second core for two threads and for PAL's split.
    rest = frame[(frame["quantity"] != "throughput_per_watt") & (frame["cell"] != "claim/MAP-F12-threads")]
    rest = rest[~rest["reason"].str.startswith(("needs: cores: found 1", "needs: a processor"))]
    assert set(rest["status"]) <= {"ok", "too_noisy"}, list(
        rest["reason"][~rest["status"].isin(["ok", "too_noisy"])]
    )
