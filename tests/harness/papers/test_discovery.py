"""The papers' folders are found by their names."""

import re
import sys
from pathlib import Path

import pytest

from placerl.harness import papers
from placerl.harness.papers import discovery
from placerl.harness.papers.discovery import Paper
from placerl.harness.plan.tiers import TIERS

ROOT = Path(__file__).parents[3]


def test_the_folders_are_the_papers() -> None:
    assert [folder.name for folder in discovery.folders()] == ["fix", "map", "pal", "ppo", "prl"]
    assert [paper.key for paper in discovery.papers()] == ["MAP", "PAL", "PRL", "PPO", "FIX"]
    for package in discovery.packages():
        assert package.__name__ == f"placerl.harness.papers.{package.PAPER.key.lower()}"


def test_the_plan_names_no_paper() -> None:
    folders = "|".join(folder.name for folder in discovery.folders())
    for file in (ROOT / "harness" / "plan").glob("*.py"):
        assert not re.search(rf"harness\.papers\.({folders})\b", file.read_text(encoding="utf-8")), file


def test_each_claim_and_cell_is_of_its_paper_s_folder() -> None:
    for function in discovery.functions("cells"):
        key = function.__module__.split(".")[3].upper()
        for tier in TIERS.values():
            assert all(cell.key.startswith(f"claim/{key}-") for cell in function(tier)), function.__module__


def test_a_function_counts_where_it_is_defined_alone() -> None:
    modules = [function.__module__ for function in discovery.functions("cells")]
    assert len(set(modules)) == len(modules) > 10
    assert "placerl.harness.papers.fix.throughput" in modules
    assert list(discovery.functions("no such function")) == []


def test_papers_without_a_position_follow_by_their_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(papers, "__path__", [*papers.__path__, str(tmp_path)])
    for name in ("later_b", "later_a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "claims.py").write_text("CLAIMS = ()\n")
        source = f'from placerl.harness.papers.discovery import Paper\n\nPAPER = Paper("{name.upper()}", "Untitled")\n'
        (tmp_path / name / "__init__.py").write_text(source)
    (tmp_path / "no_paper").mkdir()
    assert list(papers.titles())[-3:] == ["FIX", "LATER_A", "LATER_B"]
    assert discovery.papers()[-1] == Paper("LATER_B", "Untitled")


def test_a_folder_that_does_not_say_which_paper_it_is_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(papers, "__path__", [*papers.__path__, str(tmp_path)])
    (tmp_path / "nameless").mkdir()
    (tmp_path / "nameless" / "claims.py").write_text("CLAIMS = ()\n")
    (tmp_path / "nameless" / "__init__.py").write_text("")
    with pytest.raises(TypeError, match=r"nameless.*PAPER: found none; allowed: a Paper"):
        discovery.packages()


@pytest.mark.parametrize(
    "source",
    ["import functools\ncells = functools.partial(list)\n", "class cells:\n    pass\n", "cells = []\n"],
    ids=["partial", "class", "list"],
)
def test_cells_that_are_no_function_are_refused(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(papers, "__path__", [*papers.__path__, str(tmp_path)])
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        'from placerl.harness.papers.discovery import Paper\n\nPAPER = Paper("ODD", "Odd")\n'
    )
    (folder / "claims.py").write_text("CLAIMS = ()\n")
    (folder / "figure_1.py").write_text(source)
    try:
        with pytest.raises(TypeError, match=r"odd/figure_1\.py: cells: found a .*; allowed: a function"):
            list(discovery.functions("cells"))
    finally:
        for name in [name for name in sys.modules if name.startswith("placerl.harness.papers.odd")]:
            del sys.modules[name]
        vars(papers).pop("odd", None)


def test_a_tuple_of_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match=r"claims\.py: CLAIMS: found .*; allowed: a tuple of str"):
        list(discovery.tuples("CLAIMS", str))
