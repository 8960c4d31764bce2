"""The papers' folders are found by their names."""

import sys
from pathlib import Path

import pytest

from placerl.harness import papers
from placerl.harness.papers import discovery
from placerl.harness.papers.discovery import Paper
from placerl.harness.plan.tiers import TIERS


def test_the_folders_are_the_papers() -> None:
    assert [folder.name for folder in discovery.folders()] == ["fix", "map", "pal", "ppo", "prl"]
    assert [paper.key for paper in discovery.papers()] == ["MAP", "PAL", "PRL", "PPO", "FIX"]
    for package in discovery.packages():
        assert package.__name__ == f"placerl.harness.papers.{package.PAPER.key.lower()}"


def test_each_claim_and_cell_is_of_its_paper_s_folder() -> None:
    for claim in discovery.claims():
        folder = type(claim).__module__.split(".")[-2].upper()
        assert claim.paper == folder
        for tier in TIERS.values():
            assert all(cell.key.startswith(f"claim/{folder}-") for cell in claim.cells(tier)), claim.key


def test_a_claim_counts_once_and_has_a_key_and_a_position_of_its_own() -> None:
    every = discovery.claims()
    assert len({claim.key for claim in every}) == len({type(claim) for claim in every}) == len(every) > 50
    for paper in discovery.papers():
        positions = [claim.position for claim in every if claim.paper == paper.key]
        assert positions == list(range(1, len(positions) + 1)), paper.key
    assert all(one is again for one, again in zip(every, discovery.claims(), strict=True))


def test_papers_without_a_position_follow_by_their_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(papers, "__path__", [*papers.__path__, str(tmp_path)])
    for name in ("later_b", "later_a"):
        (tmp_path / name).mkdir()
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
    (tmp_path / "nameless" / "__init__.py").write_text("")
    with pytest.raises(TypeError, match=r"nameless.*PAPER: found none; allowed: a Paper"):
        discovery.packages()


def test_claims_are_found_in_any_module_and_shared_parts_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(papers, "__path__", [*papers.__path__, str(tmp_path)])
    folder = tmp_path / "odd"
    folder.mkdir()
    sources = {
        "__init__": 'from placerl.harness.papers.discovery import Paper\n\nPAPER = Paper("ODD", "Odd")\n',
        "a": "from .b import First, Shared\n\n\nclass Second(Shared):\n    key, position = 'ODD-2', 2\n",
        "b": "from placerl.harness.papers.base import Claim\n\n\nclass Shared(Claim):\n    needs = 'a GPU'\n\n\n"
        "class First(Shared):\n    key, position = 'ODD-1', 1\n",
    }
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    try:
        assert [claim.key for claim in discovery.claims()][-2:] == ["ODD-1", "ODD-2"]
    finally:
        for name in [name for name in sys.modules if name.startswith("placerl.harness.papers.odd")]:
            del sys.modules[name]
        vars(papers).pop("odd", None)
