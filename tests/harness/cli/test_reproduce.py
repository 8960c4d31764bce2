"""`placerl reproduce`: what it says before it measures."""

import json
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placerl.harness.cli import plan_table, summary
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.revision import revision
from placerl.harness.core.row import Row
from placerl.harness.plan import night, plan, tiers
from placerl.harness.platforms import this_machine
from placerl.harness.platforms.available_memory import NotEnoughMemory
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Store
from placerl.primitives.fpga.cycles import blocks
from placerl.primitives.fpga.cycles.timed_block import SIMULATE_VARIABLE
from tests.harness.cli.command_line import Placerl, refused
from tests.harness.old_form import row_of
from tests.harness.papers.rows import profiled

ROW = row_of(suite="s", primitive="p", quantity="q", unit="s", provenance=Provenance.MEASURED, value=1.0)
CELLS = [Cell(f"a/{number}", 60, lambda run, report: [ROW]) for number in range(3)]


def test_an_empty_address_is_not_this_machine(placerl: Placerl, tmp_path: Path) -> None:
    """As an unset variable of the shell leaves it."""
    results = tmp_path / "results"
    refused(placerl("reproduce", "--ray", "", "--results", str(results)), "--ray: found ''")
    assert not results.exists()


@pytest.mark.parametrize("arguments", [(), ("--ray", "local")])
def test_the_plan_its_time_and_what_is_left_out_are_told_first(
    arguments: tuple[str, ...], placerl: Placerl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a cluster as on one machine; the cluster's own part is tested in `tests/harness/cluster`."""
    if arguments:
        pytest.importorskip("placerl.harness.cluster.cells")
        monkeypatch.setattr("placerl.harness.cluster.connection.connected", lambda address: nullcontext())
        monkeypatch.setattr("placerl.harness.cluster.cells.execute", lambda *_, **__: [])
    monkeypatch.setattr(plan, "plan", lambda tier: CELLS)
    monkeypatch.setattr(summary, "write_report", lambda *_, **__: None)
    monkeypatch.setattr(plan_table, "left_out", lambda _: iter(["everything on a GPU"]))
    described: Any = this_machine.describe(measure_links=False).to_json()
    with Store.open(tmp_path / "placerl.sqlite") as store:
        store.begin_run(tiers.tier("quick").name, revision(), described).finish("a/1", [ROW])
    outcome = placerl("reproduce", "--results", str(tmp_path), *arguments)
    assert outcome.status == 0, outcome.err
    told = " ".join(outcome.err.split())  # lines are broken where the terminal ends
    assert "Plan of the quick tier" in told
    assert "3 cells, 1 finished before" in told
    assert "about 2 minutes to go." in told
    assert "Left out here: everything on a GPU" in told


CUT_SHORT = replace(ROW, value=None, status="failed", reason="the library died")


def partly_failing() -> Cell:
    """Return a cell of which one side fails after the other was measured."""
    return Cell(
        "b/0",
        120,
        lambda *_: [ROW, CUT_SHORT],
        stale=lambda run: any(row.reason for row in run.measurements()),
    )


def test_a_cell_that_failed_in_part_is_named_and_is_to_be_measured_again(
    placerl: Placerl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(plan, "plan", lambda tier: [*CELLS, partly_failing()])
    monkeypatch.setattr(summary, "write_report", lambda *_, **__: None)
    outcome = placerl("reproduce", "--results", str(tmp_path))
    assert outcome.status == 1
    assert "Failed, 1: b/0; the next run tries them again." in outcome.err
    planned = json.loads(placerl("reproduce", "--plan", "--json", "--results", str(tmp_path)).out)
    assert [cell["key"] for cell in planned["cells"] if not cell["finished"]] == ["b/0"]
    assert planned["to_go_s"] == 120
    again = placerl("reproduce", "--results", str(tmp_path))
    assert "4 cells, 3 finished before" in " ".join(again.err.split())


def test_a_cell_without_the_memory_is_tried_again_and_is_no_failure(
    placerl: Placerl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried: list[int] = []

    def measure(*_: object) -> list[Row]:
        tried.append(1)
        raise NotEnoughMemory("needs 4 GB")

    monkeypatch.setattr(plan, "plan", lambda tier: [*CELLS, Cell("b/0", 120, measure)])
    monkeypatch.setattr(summary, "write_report", lambda *_, **__: None)
    for number in (1, 2):
        assert placerl("reproduce", "--results", str(tmp_path)).status == 0
        assert len(tried) == number
    planned = json.loads(placerl("reproduce", "--plan", "--json", "--results", str(tmp_path)).out)
    assert planned["to_go_s"] == 120


def test_a_run_keeps_its_peak_memory_also_when_it_ends_early(
    placerl: Placerl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def killed(*_: object) -> list[Row]:
        raise KeyboardInterrupt

    monkeypatch.setattr(plan, "plan", lambda tier: [*CELLS, Cell("a/4", 1, killed)])
    assert placerl("reproduce", "--results", str(tmp_path)).status == 130
    with Store.open(tmp_path / "placerl.sqlite", read_only=True) as store:
        peaks = {row.primitive: row.value for row in store.measurements(suite="memory")}
    assert list(peaks) == ["main process", "largest process"]
    main, largest = (peak or 0 for peak in peaks.values())
    assert 10**8 < main <= largest, "PyTorch is loaded"


@pytest.mark.usefixtures("pages_not_written")
def test_its_last_lines_say_how_many_timed_rows_are_too_noisy(
    placerl: Placerl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    noisy = profiled("round.sample", 1.0, status="too_noisy", reason="its interval is 40% wide")
    rows = [noisy, *(profiled("round.learn", 1.0, size) for size in (32, 64, 128))]
    monkeypatch.setattr(plan, "plan", lambda tier: [Cell("a", 1, lambda run, report: rows)])
    monkeypatch.setattr(plan, "_keys", lambda tier_name: ("a",))  # it would remember this plan
    outcome = placerl("reproduce", "--results", str(tmp_path))
    assert outcome.status == 0, outcome.err
    assert "1 of 4 timed rows too noisy (25.0%)" in outcome.out.splitlines()[-2:]


@pytest.mark.parametrize("arguments", [(), ("--ray", "local")])
@pytest.mark.parametrize(
    ("key", "commands"),
    [
        ("FIX-T1", []),
        (
            "MAP-F14-CartPole",
            [
                "placerl compare cartpole-ddpg --alone --baselines rllib_2_6_3 --batch-size 32",
                "placerl compare hopper-ddpg --alone --baselines rllib_2_6_3 --batch-size 32",
                "placerl compare pong-dqn --alone --baselines rllib --batch-size 32",
            ],
        ),
        ("PAL-F10", ["placerl reproduce --only PAL-F10 --tier standard"]),
    ],
)
def test_where_nothing_is_measured_no_run_begins_that_would_hide_the_last(
    key: str,
    commands: list[str],
    arguments: tuple[str, ...],
    placerl: Placerl,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    written: list[Path] = []
    monkeypatch.setattr(summary, "write_report", lambda results, _, only: written.append(results))
    with Store.open(tmp_path / "placerl.sqlite") as store:
        store.begin_run("quick", "an earlier revision", {"fingerprint": "here"}).finish("a/1", [ROW])
    outcome = placerl("reproduce", "--only", key, "--results", str(tmp_path), *arguments)
    assert outcome.status == 0, outcome.err
    hints = [f"{key} is measured by: {command}" for command in commands]
    assert outcome.err.splitlines() == [f"Tier quick measures nothing for {key}.", *hints]
    assert written == [tmp_path]
    with Store.open(tmp_path / "placerl.sqlite", read_only=True) as store:
        assert [run.revision for run in store.runs()] == ["an earlier revision"]


def test_cycles_are_simulated_where_that_is_asked_for_here_and_in_processes_that_are_started(
    placerl: Placerl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(SIMULATE_VARIABLE, "")  # also afterwards
    seen: list[str] = []
    monkeypatch.setattr(plan, "plan", lambda tier: seen.append(os.environ[SIMULATE_VARIABLE]) or [])
    for arguments in ((), ("--simulate",)):
        placerl("reproduce", "--plan", "--results", str(tmp_path), *arguments)
    assert seen == ["", "1"]
    refused(placerl("reproduce", "--simulate", "--ray", "local"), "--simulate: found with --ray local")


def test_designs_that_have_changed_are_named_before_the_first_measurement(
    placerl: Placerl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(plan, "plan", lambda tier: CELLS)
    monkeypatch.setattr(summary, "write_report", lambda *_, **__: None)
    monkeypatch.setenv(SIMULATE_VARIABLE, "")
    said = []
    for number, changed in enumerate(([], ['"gemm" [16]', '"pair" [16]'])):
        monkeypatch.setattr(blocks, "changed_designs", lambda changed=changed: changed)
        outcome = placerl("reproduce", "--results", str(tmp_path / str(number)))
        said.append([line for line in outcome.err.splitlines() if "table of cycles" in line])
    assert said[0] == []
    (line,) = said[1]
    assert line.startswith(
        'The table of cycles lacks 2 designs, whose code has changed: "gemm" [16], "pair" [16]; `placerl cycles` adds '
    )


def test_the_night_s_plan_tells_each_test_s_hours_and_what_it_leaves_out(
    placerl: Placerl, tmp_path: Path
) -> None:
    outcome = placerl(
        "reproduce", "--tier", "night", "--only", "MAP-F10", "--plan", "--results", str(tmp_path)
    )
    assert outcome.status == 0, outcome.err
    told = " ".join(outcome.out.split())
    assert "MAP-F10/hopper-ddpg:" in told
    assert "of one core to the next look, at most" in told
    assert "Left out here: pong-dqn of MAP-F10" in told
    refused(
        placerl("reproduce", "--tier", "night", "--ray", "local", "--results", str(tmp_path)),
        "--ray: found local with --tier night",
    )
    refused(placerl("reproduce", "--tier", "day"), "--tier: found day", "night")


def test_the_night_measures_side_by_side_and_goes_on_after_a_change_of_the_code(
    placerl: Placerl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cells = [replace(cell, one_thread=True, look=1) for cell in CELLS]
    monkeypatch.setattr(night, "cells", lambda: cells)
    monkeypatch.setattr(summary, "write_report", lambda *_, **__: None)
    described: Any = this_machine.describe(measure_links=False).to_json()
    with Store.open(tmp_path / "placerl.sqlite") as store:
        store.begin_run("night", "an earlier revision", described).finish("a/1", [ROW])
    outcome = placerl("reproduce", "--tier", "night", "--results", str(tmp_path))
    assert outcome.status == 0, outcome.err
    assert "3 cells, 1 finished before" in " ".join(outcome.err.split())
    with Store.open(tmp_path / "placerl.sqlite", read_only=True) as store:
        cells_by_run = [store.cells(run.id) for run in store.runs()]
    measured = [cell for cell in cells_by_run[1] if cell.startswith("a/")]
    assert sorted(measured) == ["a/0", "a/2"]
