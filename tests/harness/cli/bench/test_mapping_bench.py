"""The benchmark of mappings: its cells, how it goes on, and one real cell."""

import os
import re
from pathlib import Path

import pytest

from placerl.harness.cli.bench import mapping_bench
from placerl.harness.cli.bench.mapping_bench import WORKLOADS, cells_of, studied
from placerl.harness.mapping import Mapping
from placerl.harness.validate.space import Decision
from placerl.harness.validate.study import OURS, StudiedCell
from placerl.harness.validate.study_file import Search
from placerl.harness.validate.study_summary import results, summary
from tests.harness.cli.command_line import Placerl, refused

CHOICE, SLOW = (Decision(Mapping.parse(f"{name}-native-cpu")) for name in ("native", "torch"))


def test_there_are_sixty_cells_of_the_workloads_in_which_answers_differ() -> None:
    cells = cells_of(WORKLOADS, 30.0)
    assert len(cells) >= 60
    assert len({cell.key for cell in cells}) == len(cells)
    assert sum(cell.estimate_s for cell in cells) <= 3900
    items = {workload.training.name: workload for workload in WORKLOADS}
    assert items["cartpole-dqn-8-8"].item().network.hidden == (8, 8)
    assert items["hopper-ddpg-400-300"].item().network.hidden == (400, 300)
    assert {32, 16384} <= {size for workload in WORKLOADS for size in workload.batch_sizes}
    for workload in WORKLOADS:
        item = workload.item()
        assert item.training.batch_sizes == workload.batch_sizes, "all are held by the replay"
    ppo = {name: workload.item() for name, workload in items.items() if "ppo" in name}
    assert {item.training.actors for item in ppo.values()} == {1, 8}
    for item in ppo.values():
        samples = item.training.actors * item.algorithm.hyperparameters["trajectory_length"]
        assert samples == item.replay.capacity
        assert all(samples % size == 0 for size in item.training.batch_sizes)


def rows_of(workload: str, size: int, cores: int) -> list:
    """What a study would have found."""
    cell = StudiedCell(workload, size, cores)
    achieved = cell.row("placerl", CHOICE, quantity="gradient_steps_per_s", value=100.0, stage="final")
    slow = {"status": "not_run", "reason": "predicted 4.0 times slower than the best"}
    return [
        achieved,
        cell.row("placerl", SLOW, quantity="gradient_steps_per_s", **slow),
        cell.row(OURS, CHOICE, quantity="regret", value=0.0, best=str(CHOICE), verdict="best"),
    ]


def test_a_study_goes_on_where_it_stopped(
    placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for: list[tuple[str, int, int]] = []
    broken = {("cartpole-dqn-8-8", 128, 1)}

    def study(workload, size, cores, budget_s, file):
        key = workload.training.name, size, cores
        asked_for.append(key)
        file.begin_final(Search({}, {}, {}))
        if key in broken:
            raise MemoryError("no memory")
        return rows_of(*key)

    monkeypatch.setattr(mapping_bench, "studied", study)
    asked = ("bench", "mapping", "--cells", "cartpole-dqn-8-8", "--results", str(tmp_path))
    asked += ("--out", str(tmp_path / "out"))
    first = placerl(*asked)
    assert first.status == 1
    assert "cartpole-dqn-8-8/128/1-core; the next run tries them again." in first.err
    assert len(asked_for) == 10
    assert "9 cells; 9 finalists; 0 choices failed, 9 were predicted too slow to be run" in first.out
    assert "MemoryError: no memory" in first.out
    assert len(first.out.splitlines()) <= 40
    text = (tmp_path / "out" / "table.md").read_text()
    assert "cartpole-dqn-8-8 B = 32, 2 cores" in text
    assert re.search(r"^Run begun 20.*, revision `\w+`, machine `\w+`: .+ cores?, ", text, re.MULTILINE)
    assert "MemoryError: no memory" in text
    assert "4.0 times slower" not in first.out + text, "it is no failure of a cell"
    (left,) = (tmp_path / "studies").rglob("*.json")
    assert left.name == "bench-mapping-cartpole-dqn-8-8-128-1-core.json", "a stored cell needs it no more"
    broken.clear()
    second = placerl(*asked)
    assert not list((tmp_path / "studies").rglob("*.json"))
    assert asked_for[10:] == [("cartpole-dqn-8-8", 128, 1)], "the others are stored"
    assert second.status == 0
    assert "10 cells; 10 finalists" in second.out
    placerl(*asked[:3], "cartpole-dqn-8-8/32/2", *asked[4:], "--again")
    assert asked_for[11:] == [("cartpole-dqn-8-8", 32, 2)]


def test_a_cell_of_more_cores_than_there_are_is_not_run() -> None:
    (row,) = studied(WORKLOADS[0], 32, 10_000, 0.0)
    assert row.status == "not_run"
    assert row.reason.startswith("needs: 10000 cores")
    assert summary(results([row])) == ["No cell has a final."]


def test_cells_that_are_asked_for_must_exist(placerl: Placerl, tmp_path: Path) -> None:
    refused(
        placerl("bench", "mapping", "--cells", "chess", "--results", str(tmp_path)), "--cells: found 'chess'"
    )


class Unit:
    """A process that runs nothing, and notes the cores that it would inherit."""

    running, limit_s = 0, 0.0

    def __init__(self, name, build, threads):
        Unit.running += 1
        self.name, self.threads, self.cores = name, threads, os.sched_getaffinity(0)

    def submit(self, cell):
        self.cell = cell

    def result(self, limit_s):
        Unit.limit_s = limit_s
        if self.cell.batch_size == 512:
            raise RuntimeError("died")
        return [len(self.cores), self.threads]

    def close(self):
        Unit.running -= 1


def test_each_cell_has_a_pinned_process_that_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping_bench, "ProcessUnit", Unit)
    before = os.sched_getaffinity(0)
    assert studied(WORKLOADS[0], 32, 1, 0.0) == [1, 1]
    assert Unit.running == 0
    assert studied(WORKLOADS[0], 32, 1, 7200.0) == [1, 1]
    assert Unit.limit_s > 7200, "its budget is no stall"
    with pytest.raises(RuntimeError, match="died"):
        studied(WORKLOADS[1], 512, 1, 0.0)
    assert Unit.running == 0
    assert os.sched_getaffinity(0) == before
