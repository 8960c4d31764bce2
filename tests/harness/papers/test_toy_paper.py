"""A paper is a folder: one in a temporary place is planned, measured, judged, drawn and exported like any other."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from placerl.harness import papers
from placerl.harness.core.progress import silent
from placerl.harness.papers import Outcome
from placerl.harness.plan import execution, plan
from placerl.harness.plan.tiers import TIERS
from placerl.harness.report import export, pages, reading
from placerl.harness.store.store import Store
from tests.harness.papers.rows import MACHINE
from tests.harness.report.sample import claim_page

TUTORIAL = Path(__file__).parents[3] / "docs" / "tutorials" / "paper.md"
PACKAGE, FIGURE_1 = re.findall(r"```python\n(.*?)```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder of a paper, where the package looks for papers."""
    folder = tmp_path / "papers" / "toy"
    folder.mkdir(parents=True)
    for name, source in {"__init__": PACKAGE, "figure_1": FIGURE_1}.items():
        (folder / f"{name}.py").write_text(source)
    monkeypatch.setattr(papers, "__path__", [*papers.__path__, str(folder.parent)])
    plan._keys.cache_clear()
    yield
    plan._keys.cache_clear()
    for name in [name for name in sys.modules if name.startswith("placerl.harness.papers.toy")]:
        del sys.modules[name]
    vars(papers).pop("toy", None)


@pytest.mark.usefixtures("toy", "plots_not_drawn")
def test_a_folder_is_all_that_a_paper_takes(tmp_path: Path) -> None:
    path, tier = tmp_path / "store.sqlite", TIERS["quick"]
    (claim,) = papers.claims("TOY")
    cells = plan.needed(plan.plan(tier), [claim], tier)
    assert [(cell.key, cell.estimate_s) for cell in cells] == [("claim/TOY-F1", tier.experiment_s)]

    with Store.open(path) as store:
        execution.execute(store.begin_run("quick", "revision", MACHINE), cells, silent)
        frame = store.frame()
    (verdict,) = papers.evaluate(frame, "TOY")
    assert (verdict.finding.outcome, verdict.finding.ours[0].value) == (Outcome.REPRODUCED, 2.0)

    content = reading.read(path)
    figures = pages.papers_figures(content)
    assert "A Toy (2026)" in dict(pages.render_papers(content, figures))["TOY"]
    assert all("TOY" in pages.render(content, name) for name in (pages.INDEX, "papers"))
    page, other = (claim_page(content, key, figures) for key in ("TOY-F1", "FIX-III"))
    drawn = verdict.claim.draw(frame)
    assert drawn is not None
    assert [axes.get_xlabel() for axes in drawn.axes] == ["the axis of the toy"]
    assert "placerl reproduce --only TOY-F1 --tier quick" in page
    assert "own axes" in page
    assert "own axes" not in other

    export.write(path, tmp_path / "tables", ("csv",), only=("verdicts",))
    (file,) = (tmp_path / "tables").rglob("*verdicts.csv")
    exported = pd.read_csv(file).set_index("key").loc["TOY-F1"]
    assert exported[["verdict", "side", "value"]].values.tolist() == [
        ["reproduced", "published", 2.0],
        ["reproduced", "ours", 2.0],
    ]


@pytest.mark.usefixtures("toy", "plots_not_drawn")
def test_without_its_rows_it_is_not_run_and_not_drawn(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with Store.open(path) as store:
        store.begin_run("quick", "revision", MACHINE)
        (verdict,) = papers.evaluate(store.frame(), "TOY")
    assert verdict.finding.outcome is Outcome.NOT_RUN
    content = reading.read(path)
    assert "own axes" not in claim_page(content, "TOY-F1", pages.papers_figures(content))


def test_afterwards_it_is_gone() -> None:
    assert "TOY" not in papers.titles()
