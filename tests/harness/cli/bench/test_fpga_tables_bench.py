"""The FPGA's tables: each printable, and as JSON."""

import json

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness.cli.bench import fpga_tables_bench
from placerl.harness.core.errors import UserError
from placerl.harness.papers import resources
from placerl.primitives.fpga.cycles.difference_table import CycleDifference
from placerl.primitives.fpga.tools import counted, placement


def test_differences_as_json_say_where_each_number_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    fpga_tables_bench.print_differences(
        [CycleDifference("core", "1 x 1", 10, 12, {"fill": 2, "none": 0})], as_json=True
    )
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["formula_provenance"], row["simulated_provenance"]) == ("modelled", "simulated")
    assert (row["difference_cycles"], row["reasons"], row["explained"]) == (2, {"fill": 2}, True)


def test_differences_are_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    fpga_tables_bench.print_differences(
        [CycleDifference("core", "1 x 1", 10, 12, {"fill": 2})], as_json=False
    )
    heading, _, columns, _, row, *_ = capsys.readouterr().out.splitlines()
    assert heading.startswith("## Clock cycles")
    assert columns == "| block | case | formula | simulated | difference | reasons |"
    assert row == "| core | 1 x 1 | 10 | 12 | +2 | fill +2 |"


def test_pongs_passes_state_where_they_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    fpga_tables_bench.main("pong", as_json=True)
    rows = json.loads(capsys.readouterr().out)
    assert {row["provenance"] for row in rows} == {"modelled"}
    fpga_tables_bench.main("pong")
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(("| forward", "| training")) for line in lines) == len(rows)


def test_cells_stand_beside_the_papers(capsys: pytest.CaptureFixture[str]) -> None:
    rows = fpga_tables_bench.cells(check=False)
    assert {row["block"] for row in rows} == set(counted.SUBJECTS), (
        "placerl bench fpga-tables resources --count"
    )
    beside = [item["paper"] for row in rows for item in row["beside"]]
    assert len(beside) == len(resources.counterparts())
    fpga_tables_bench.print_cells(rows)
    text = capsys.readouterr().out
    for wanted in (*beside, *counted.SUBJECTS, "ours / published"):
        assert wanted in text


def test_the_trees_cells_are_told_by_module() -> None:
    found = counted.committed()[resources.TREE]
    note = resources.tree_note()
    parts = [found.resources_of(name) for name in ("front_end", *(f"level_{n}" for n in range(5)))]
    assert sum(part.ultra_rams for part in parts) == found.resources.ultra_rams  # no URAM is left untold
    for number in (found.resources.ultra_rams, *(f"{part.luts:,}" for part in parts)):
        assert str(number) in note


def test_placements_say_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    fpga_tables_bench.print_placed(as_json=False)
    text = capsys.readouterr().out
    assert "ECP5" in text or "LFE5U" in text
    assert all(name in text for name in placement.SUBJECTS)
    fpga_tables_bench.print_placed(as_json=True)
    rows = json.loads(capsys.readouterr().out)
    assert {row["provenance"] for row in rows} == {"modelled"}
    assert [row["block"] for row in rows] == list(placement.committed())


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("differences", {"count": True}, "--count: found it with differences; allowed: it with resources or"),
        ("pong", {"check": True}, "--check: found it with pong; allowed: it with resources"),
        ("placement", {"check": True}, "--check: found it with placement; allowed: it with resources"),
    ],
)
def test_an_option_that_a_table_does_not_have_is_refused(
    name: str, options: dict[str, bool], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        fpga_tables_bench.main(name, **options)
