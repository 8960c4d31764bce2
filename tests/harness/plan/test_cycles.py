"""The cycles that tiers need: found without simulating, brought up to date, and checked against the table."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness.core.progress import silent
from placerl.harness.papers.prl import algorithm_1
from placerl.harness.plan import cycles
from placerl.harness.plan.cycles import DesignNeed, Difference
from placerl.harness.plan.tiers import TIERS, Tier
from placerl.primitives import disk_cache
from placerl.primitives.fpga.cycles import blocks, timed_block
from placerl.primitives.fpga.cycles.table import CyclesTable, DesignKey, committed, parsed, size_text
from placerl.primitives.fpga.cycles.timed_block import TimedBlock
from placerl.primitives.fpga.export import toolchain

CHECKED = 8
"""Results that the slow test simulates again."""


class Squares:
    """A block whose cycles are the square of the size, and the sizes that were simulated."""

    def __init__(self) -> None:
        self.simulated: list[list[Any]] = []
        self.verilog = "one"

        def simulate(start: Callable[[], Any], parameters: Sequence[Any], sizes: Sequence[Any]) -> list[int]:
            self.simulated.append(list(sizes))
            return [size * size for size in sizes]

        self.block = TimedBlock("squares", "placerl.primitives.fpga.gemm.timer", lambda: None, simulate)

    def need(self, *sizes: int) -> DesignNeed:
        return DesignNeed(self.block, [], {size_text(size): size for size in sizes})


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CyclesTable:
    made = CyclesTable()
    monkeypatch.setattr(timed_block, "committed", lambda: made)
    monkeypatch.setenv(disk_cache.CACHE_VARIABLE, str(tmp_path))
    return made


@pytest.fixture
def squares(monkeypatch: pytest.MonkeyPatch) -> Squares:
    made = Squares()
    monkeypatch.setattr(
        made.block, "key", lambda parameters: DesignKey(made.verilog, *made.block.code()), raising=True
    )
    return made


def update(table: CyclesTable, *wanted: DesignNeed) -> int:
    """Update the table; return how often it was written."""
    written: list[None] = []
    cycles.update(table, wanted, silent, lambda: written.append(None))
    return len(written)


def test_what_is_missing_is_simulated_small_sizes_first_and_nothing_again(
    table: CyclesTable, squares: Squares
) -> None:
    need = squares.need(10, 2, 3)
    assert (need.name, need.is_current, list(need.missing)) == ('"squares" []', False, ["10", "2", "3"])
    assert update(table, need) == 1
    assert squares.simulated == [[2], [3], [10]]
    assert table.results == {'"squares" []': {"2": 4, "3": 9, "10": 100}}
    assert need.is_current
    assert update(table, need) == 0
    assert update(table, squares.need(3, 4)) == 1
    assert squares.simulated == [[2], [3], [10], [4]]


def test_what_was_simulated_before_an_interruption_is_written(table: CyclesTable, squares: Squares) -> None:
    def interrupted(done: float, total: float, what: str) -> None:
        if what.endswith(": 3"):
            raise KeyboardInterrupt

    written: list[None] = []
    with pytest.raises(KeyboardInterrupt):
        cycles.update(table, [squares.need(2, 3)], interrupted, lambda: written.append(None))
    assert table.results['"squares" []'] == {"2": 4}
    assert len(written) == 1


@pytest.mark.parametrize(
    ("changed", "again"),
    [({"sources": "before"}, False), ({"reading": "before"}, True), ({"verilog": "before"}, True)],
)
def test_cycles_stay_if_neither_the_verilog_nor_what_reads_them_has_changed(
    table: CyclesTable, squares: Squares, changed: dict[str, str], again: bool
) -> None:
    """A change of the Verilog alone is found when its sources, or anything else of it, have changed."""
    design, reading = squares.block.code()
    key = {"verilog": "one", "sources": design, "reading": reading, **changed}
    if changed.keys() == {"verilog"}:
        key["sources"] = "before"
    table.designs['"squares" []'] = DesignKey(**key)
    table.add('"squares" []', "3", 17)
    table.add('"squares" []', "5", 18)
    update(table, squares.need(3))
    assert table.results['"squares" []'] == ({"3": 9} if again else {"3": 17, "5": 18})
    assert squares.simulated == ([[3]] if again else [])
    assert table.designs['"squares" []'] == DesignKey("one", design, reading)


def test_results_that_a_simulation_does_not_confirm_are_named(
    table: CyclesTable, squares: Squares, monkeypatch: pytest.MonkeyPatch
) -> None:
    update(table, squares.need(1, 2, 3))
    monkeypatch.setattr(blocks, "every_block", lambda: {"squares": squares.block})
    assert cycles.check(table, 10, 0, silent) == []
    assert sorted(squares.simulated[3:]) == [[1], [2], [3]]
    table.add('"squares" []', "2", 5)
    assert cycles.check(table, 3, 1, silent) == [Difference('"squares" []', "2", 5, 4)]
    squares.simulated.clear()
    cycles.check(table, 1, 0, silent)
    assert len(squares.simulated) == 1


def test_needs_are_those_of_all_tiers_and_each_is_asked_for_once(
    squares: Squares, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def asking(tier: Tier) -> Iterator[tuple[str, Callable[[], object]]]:
        def ask(name: str, size: int) -> None:
            asked.append(name)
            squares.block([], size)

        yield "shared", lambda: ask("shared", 1)
        yield tier.name, lambda: ask(tier.name, len(tier.name))

    monkeypatch.setattr(cycles, "_asking", asking)
    (need,) = cycles.needs(["quick", "full"])
    assert asked == ["shared", "quick", "full"]
    assert list(need.sizes.values()) == [1, 5, 4]


def test_the_table_has_all_that_the_quick_tier_needs_and_nothing_is_simulated_for_the_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TimedBlock, "simulated", lambda *_: pytest.fail("simulated"))
    wanted = cycles.needs(["quick"])
    assert [(need.name, list(need.missing)) for need in wanted if need.missing] == []
    assert sum(len(need.sizes) for need in wanted) > 250


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_table_has_all_that_the_tiers_need() -> None:
    assert [(need.name, list(need.missing)) for need in cycles.needs(list(TIERS)) if need.missing] == []


@pytest.mark.slow
@pytest.mark.timeout(3600)  # builds simulations with the C++ compiler
@pytest.mark.skipif(
    bool(toolchain.unavailable_reason()), reason=toolchain.unavailable_reason() or "available"
)
def test_results_drawn_at_random_are_simulated_again_with_the_same_cycles_from_the_same_verilog() -> None:
    seed = secrets.randbits(32)
    table = committed()
    every = [(design, size) for design in table.results for size in table.results[design]]
    assert len(every) > 1000
    assert cycles.check(table, CHECKED, seed, silent) == [], f"seed {seed}"
    designs = sorted(table.designs)
    for place in {(seed + step * len(designs) // 3) % len(designs) for step in range(3)}:
        name, parameters = parsed(designs[place])
        assert blocks.every_block()[name].key(parameters) == table.designs[designs[place]], designs[place]


def test_the_parts_that_re_allocation_may_leave_to_the_learner() -> None:
    parts = algorithm_1._learner_parts(1024)
    assert {1024, 512, 1024 - 64, 65} <= parts
    assert all(0 < part <= 1024 for part in parts)
    assert len(parts) <= 32, "sixteenths of a batch are moved"
