"""The table of cycles: written sorted, read back, and its designs the present ones."""

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cycles import blocks
from placerl.primitives.fpga.cycles.table import (
    CYCLES,
    DESIGNS,
    CyclesTable,
    DesignKey,
    committed,
    design_text,
    parsed,
)

KEY = DesignKey("v", "s", "r")


def test_a_table_is_written_sorted_by_numbers_and_read_back(tmp_path: Path) -> None:
    table = CyclesTable({'"b" []': KEY, '"a" [16, "x"]': KEY})
    table.add('"b" []', "[20, 1]", [3, 4])
    table.add('"b" []', "[3, 1]", 5)
    table.add('"a" [16, "x"]', '{"n": 2}', {"cycles": 1})
    table.write(tmp_path)
    assert (tmp_path / CYCLES).read_text().splitlines() == [
        '["a", [16, "x"], {"n": 2}, {"cycles": 1}]',
        '["b", [], [3, 1], 5]',
        '["b", [], [20, 1], [3, 4]]',
    ]
    assert list(CyclesTable.read(tmp_path).designs) == ['"a" [16, "x"]', '"b" []']
    assert CyclesTable.read(tmp_path) == table
    assert (tmp_path / DESIGNS).read_text().endswith("}\n")


def test_a_folder_without_a_table_is_an_empty_one(tmp_path: Path) -> None:
    assert CyclesTable.read(tmp_path) == CyclesTable()


@pytest.mark.parametrize("line", ["[1, 2", '["a", [], 3]'])
def test_a_line_of_something_else_is_refused(line: str, tmp_path: Path) -> None:
    CyclesTable({"x": KEY}).write(tmp_path)
    (tmp_path / CYCLES).write_text(f'["a", [], 1, 2]\n{line}\n')
    with pytest.raises(
        ValueError, match=r"cycles.jsonl: line 2: found .*; allowed: .block, parameters, size, "
    ):
        CyclesTable.read(tmp_path)


def test_results_are_there_all_or_not_at_all() -> None:
    table = CyclesTable()
    table.add("d", "1", 10)
    table.add("d", "2", 20)
    assert table.of("d", ["2", "1"]) == [20, 10]
    assert table.of("d", ["2", "3"]) is None
    assert table.of("e", ["1"]) is None
    table.designs["e"] = KEY
    table.keep(["e"])
    assert table == CyclesTable({"e": KEY})


@pytest.mark.parametrize("parameters", [[], [16, False, "blocked"], ['a "b" c']])
def test_a_design_s_text_says_what_it_is_made_of(parameters: list[object]) -> None:
    assert parsed(design_text("a b", parameters)) == ("a b", parameters)


def test_the_designs_of_the_committed_table_are_the_present_ones() -> None:
    """If this fails: `placerl cycles` simulates what has changed, and only that."""
    assert committed().designs
    assert blocks.changed_designs() == []
    assert committed().designs.keys() == committed().results.keys()


def test_every_block_is_found_by_its_file_and_has_its_name() -> None:
    found = blocks.every_block()
    assert {"fixar", "gemm", "learner_pipeline", "narrow_replay", "replay"} <= found.keys()
    assert all(name == block.name for name, block in found.items())
    assert {parsed(design)[0] for design in committed().designs} <= found.keys()


def test_a_design_of_changed_code_or_of_no_block_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = blocks.every_block()["layout_transform"]
    table = CyclesTable(
        {
            layout.design([]): DesignKey("", "another", layout.code()[1]),
            '"gone" [1]': KEY,
            layout.design([1]): DesignKey("", *layout.code()),
        }
    )
    monkeypatch.setattr(blocks, "committed", lambda: table)
    monkeypatch.setattr("placerl.primitives.fpga.cycles.timed_block.committed", lambda: table)
    assert blocks.changed_designs() == ['"layout_transform" []', '"gone" [1]']
