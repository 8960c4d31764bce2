"""The FPGA's replay managers: one sub-tree with its data, and as many as the exploration chooses."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness import workloads
from placerl.harness.mapping import Target, predict
from placerl.harness.pieces.work import tree_work
from placerl.harness.profile import simulated
from placerl.primitives.fpga.cycles import difference_table
from placerl.primitives.fpga.cycles import replay as replay_cycles
from tests.harness.profile.simulated_rows import row


def test_a_mapping_s_replay_is_the_one_with_the_sub_trees_of_the_exploration() -> None:
    one = [row(name, "fpga:u200", 2e-6) for name in simulated.BANKED]
    several = [row(name, "fpga:u200", 1e-6) for name in simulated.BANKED.values()]
    mapped = [replace(r, mapped=True) for r in several]
    here = row("sum_tree.sample", "native", 3e-6)
    times = predict.used_times([here, *one, *mapped])
    assert times["sum_tree.sample", "native"] == here
    assert [times[name, "fpga:u200"] for name in simulated.BANKED] == mapped
    not_run = [replace(r, value=None, status="not_run", reason="needs tools") for r in mapped]
    for rows in ([here, *one, *several], [here, *one, *not_run], [here, *one]):
        times = predict.used_times(rows)
        assert [times[name, "fpga:u200"] for name in simulated.BANKED] == one


def test_a_tree_s_row_has_the_cycles_of_its_last_call_beside_map_s_formula(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    item = workloads.load("hopper-ddpg")
    done: list[object] = []
    tree = SimpleNamespace(banks=4, levels=5, fanout=2, last_call_cycles=90)
    case = SimpleNamespace(
        setup=lambda: tree,
        check=done.append,
        inputs=lambda made, rng: int(rng.integers(1000)),
        call=lambda made, inputs: done.append(inputs),
    )
    one = SimpleNamespace(
        case=case, batch_size=64, primitive="sum_tree.update", work=lambda: tree_work(item, 64, update=True)
    )
    monkeypatch.setattr(simulated, "tree_cases", lambda *arguments: [one])
    (found,) = simulated._tree_rows(item, 32, "fpga:u200")
    assert done == [tree, int(np.random.default_rng(3).integers(1000))], (
        "it is checked, and its inputs are fixed"
    )
    assert (found.primitive, found.cycles) == ("sum_tree.update", 90)
    assert found.items_per_call == 64, "of its call, which may be one leaf"
    assert found.formula_cycles == 64 / 4
    assert found.difference_cycles == 90 - 16
    expected = replay_cycles.difference_terms(90, [64], levels=5, timing=replay_cycles.LevelTiming(1, 4))
    assert found.difference_reasons == {name: value for name, value in expected.items() if value}


def with_two_banks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The exploration chooses S = 2; the returned list has what it was asked for."""
    explored = simulated.explored_tree
    asked: list[tuple[int, ...]] = []

    def design(target: Target, capacity: int, fanout: int, batch: int) -> Any:
        asked.append((batch, capacity, fanout))
        return replace(explored(target, capacity, fanout, batch), banks=2)

    monkeypatch.setattr(simulated, "explored_tree", design)
    return asked


def test_the_replay_has_as_many_sub_trees_as_the_exploration_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    item, asked, done = workloads.load("hopper-ddpg"), with_two_banks(monkeypatch), list[object]()

    def cases(workload: object, size: int, target: Target, banks: int) -> list[Any]:
        done.append((str(target), banks))
        tree = SimpleNamespace(get=lambda leaves: done.append("read"))
        case = SimpleNamespace(setup=lambda: tree, check=lambda tree: done.append("checked"))
        return [
            SimpleNamespace(
                case=case,
                primitive=name,
                batch_size=1 if name == "sum_tree.insert" else size,
                work=lambda: tree_work(item, size, update=False),
            )
            for name in simulated.BANKED
        ]

    def simulate(
        tree: object, form: str, call: str, size: int, rng: object
    ) -> difference_table.CycleDifference:
        done.append((form, call, size))
        cycles = 100 - len(done)  # fewer in each batch
        return difference_table.CycleDifference("", "", size / 2, cycles, {"fill": 14, "none": 0})

    monkeypatch.setattr(simulated, "tree_cases", cases)
    monkeypatch.setattr(difference_table, "replay_difference", simulate)
    rows = simulated.banked_replay(item, 32, "fpga:u200")
    assert asked == [(32, 1_000_000, 16)]
    assert (
        done
        == [
            ("fpga:u200", 2),
            *["checked"] * 3,
            *[("wide", "update", 32), ("wide", "sample", 32), ("wide", "update", 1), "read"]
            * simulated.DRAWS,
        ][:-1]
    ), "reads and writes take turns"
    assert [row.primitive for row in rows] == [
        f"sum_tree.banked_{call}" for call in ("sample", "update", "insert")
    ]
    assert {row.banks for row in rows} == {2}
    assert [row.formula_cycles for row in rows] == [16, 16, 0.5]
    assert [row.items_per_call for row in rows] == [32, 32, 1]
    assert rows[0].difference_reasons == {"fill": 14}
    middle = 100 - len(
        ("fpga", *["checked"] * 3, *["update", "sample", "insert", "read"] * 4, "update", "sample")
    )
    assert [row.cycles for row in rows] == [middle, middle + 1, middle - 1], "the median's"
    assert rows[0].value == middle / (simulated.clock("fpga:u200").value * 1e6)


@pytest.mark.slow
def test_several_sub_trees_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    item = workloads.override(workloads.load("hopper-ddpg"), "replay.capacity", 16_384, "a test")
    with_two_banks(monkeypatch)
    rows = simulated.banked_replay(item, 32, "fpga:u200")
    for one in rows:
        assert sum(one.difference_reasons.values()) == one.difference_cycles > 0
    again = simulated.banked_replay(item, 32, "fpga:u200")
    assert [row.value for row in again] == [row.value for row in rows]


def test_several_sub_trees_are_not_run_without_the_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated.sum_tree_backend, "unavailable_reason", lambda: "no verilator")
    rows = simulated.banked_replay(workloads.load("hopper-ddpg"), 256, "fpga:u200")
    assert [(row.primitive, row.status, row.reason) for row in rows] == [
        (name, "not_run", "needs no verilator") for name in simulated.BANKED.values()
    ]


def test_without_the_tools_the_replay_alone_says_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated.sum_tree_backend, "unavailable_reason", lambda: "no verilator")
    (found,) = simulated.replay(workloads.load("hopper-ddpg"), 256, "fpga:u200")
    assert (found.primitive, found.status, found.reason) == (
        "sum_tree.sample",
        "not_run",
        "needs no verilator",
    )
    monkeypatch.setattr(simulated.sum_tree_backend, "unavailable_reason", lambda: "")
    monkeypatch.setattr(simulated, "_tree_rows", lambda *arguments: list(arguments[1:]))
    monkeypatch.setattr(simulated, "banked_replay", lambda *arguments: ["banked", *arguments[1:]])
    assert simulated.replay(workloads.load("hopper-ddpg"), 256, "fpga:u200") == [
        *(256, "fpga:u200"),
        *("banked", 256, "fpga:u200"),
    ]
