"""The pages of a report: what each shows, and what it leaves to others."""

import dataclasses
import re
from pathlib import Path

import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.base import Verdict
from placerl.harness.papers.evidence import records
from placerl.harness.report import answers, pages, reading, site
from placerl.harness.report.content import Content
from placerl.harness.store import reference
from placerl.harness.store.store import Store
from tests.harness.report import sample


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Content:
    return reading.read(sample.write(tmp_path_factory.mktemp("store") / "store.sqlite"))


def test_the_first_page_has_the_three_numbers_a_figure_and_a_bar_for_each_paper(content: Content) -> None:
    page = pages.render(content)
    numbers = page.partition('class="headline"')[2].partition("</ul>")[0]
    errors, over = answers.prediction_errors(content), answers.over_sb3(content)
    assert errors
    assert over
    assert f"<b>{errors.median_percent:.1f}%</b>" in numbers
    assert f"{errors.trainings} trainings on measured devices" in numbers
    assert "simulated FPGA" not in numbers
    assert f"<b>{over.least:.3g} to {over.most:.3g}×</b>" in numbers
    assert "1 faster, with returns that are not clearly lower" in numbers
    assert (
        "not run: needs placerl validate" in numbers
    )  # no regret is stored in the loop of the default strategy
    assert page.count('class="bar"') == 5
    assert page.count("<svg") == 1
    for paper in ("MAP", "FIX"):
        (bar,) = re.findall(f'aria-label="{paper}: ([^"]+)"', page)
        counts = [int(count) for count in re.findall(r"\d+", bar)]
        assert sum(counts) == sum(verdict.paper == paper for verdict in content.verdicts)
    assert "Test CPU &lt;b&gt;&amp; friends&lt;/b&gt;, 2 cores" in page


def test_the_first_page_says_of_each_choice_whether_it_is_the_fastest(content: Content) -> None:
    table = pages.render(content).partition('id="chosen"')[2].partition("</table>")[0]
    rows = re.findall(r"<tr><th.*?</tr>", table, re.DOTALL)
    (at_32,) = [row for row in rows if "pendulum-td3" in row and ">32<" in row]
    (at_256,) = [row for row in rows if "pendulum-td3" in row and ">256<" in row]
    assert '<span class="badge best">best</span>' in at_32
    assert "not the best" in at_256
    assert "torch-native-cpu is faster" in at_256


def test_errors_with_a_simulated_device_are_told_apart(content: Content) -> None:
    simulated = sample.simulated(content, batch_size=256)
    index, page = (pages.render(simulated, name) for name in ("index", "predictions"))
    assert "3 trainings on measured devices" in index
    assert "with a simulated FPGA 3.0% in 3 trainings" in index
    (section,) = re.findall('<h2 id="how-far-off">.*?</section>', page, re.DOTALL)
    assert "On measured devices: 3.0%" in section
    assert "predictions of the default strategy, composed-loop, that were run" in section
    assert "With a simulated FPGA: 3.0%" in section
    assert "With a simulated FPGA" not in pages.render(content, "predictions")


def test_a_workload_of_which_the_choice_alone_was_run_is_named(content: Content) -> None:
    choice = next(p for p in content.predictions if p.loop and p.chosen_among and p.achieved)
    page = pages.render(dataclasses.replace(content, predictions=(choice,)), "mappings")
    (note,) = re.findall('<p class="note">(.*): only the chosen native-native-cpu was run.</p>', page)
    assert note == 'pendulum-td3, batch size <data value="32">32</data>'
    assert "only the chosen" not in pages.render(content, "mappings")


@pytest.mark.usefixtures("plots_not_drawn")
def test_rows_that_another_run_lends_are_named_with_that_run(content: Content, tmp_path: Path) -> None:
    committed = {one.run.revision[:12]: one for one in reference.load()}
    (by_committed,) = content.lenders(_of(content, "MAP-VI-A2-replay"))
    lender = committed[by_committed.rpartition(" ")[2]]
    (standard,) = [one for one in committed.values() if one.name == "standard"]
    with Store.open(tmp_path / "store.sqlite") as store:
        for one in (lender, standard):
            one.add_to(store)
    joined = reading.read(sample.write(tmp_path / "store.sqlite"))
    assert joined.lenders(_of(joined, "MAP-VI-A2-replay")) == [by_committed.removeprefix("committed ")]
    page = sample.claim_page(content, "MAP-VI-A2-replay")
    assert f"such as clock cycles, is also from the {by_committed}." in page, "if no store took it in"
    judged = joined.measurements
    others = judged[judged["revision"] == standard.run.revision]
    assert len(others) > 50
    assert set(others["provenance"]) <= {"simulated", "modelled"}, "no time of another machine"


def _of(content: Content, key: str) -> Verdict:
    (verdict,) = (one for one in content.verdicts if one.key == key)
    return verdict


@pytest.mark.usefixtures("plots_not_drawn")
def test_rows_of_evidence_state_the_settings_that_tell_them_apart(content: Content) -> None:
    found = [row for row in records(content.everything) if row.primitive == "sum_tree.sample"]
    settings = {pages._setting(row) for row in found}
    assert "capacity 100000, fanout 16" in settings
    with_rows = tuple(verdict for verdict in content.verdicts if verdict.rows)
    written = [page for _, page in pages.render_claims(dataclasses.replace(content, verdicts=with_rows), {})]
    assert written
    assert any(re.search('data-label="Setting">[a-z]+ [0-9a-z]', page) for page in written)


@pytest.mark.usefixtures("plots_not_drawn")
def test_a_noisy_rate_of_a_comparison_says_so(content: Content) -> None:
    noisy = dataclasses.replace(content.comparisons[0], noisy=("theirs",))
    page = pages.render(dataclasses.replace(content, comparisons=(noisy,)), "libraries")
    ours, theirs = (
        re.findall(f'<td data-label="{label}" class="right">(.*?)</td>', page)[0]
        for label in ("This project", "Baseline")
    )
    assert "too noisy" in theirs
    assert "too noisy" not in ours


def test_rows_of_one_workload_that_lie_apart_share_a_table_and_a_plot(content: Content) -> None:
    a, point = content.curves[0], content.roofline[0]
    b = dataclasses.replace(a, workload="another")
    apart = dataclasses.replace(
        content, curves=(a, b, a), roofline=(point, dataclasses.replace(point, workload="b"), point)
    )
    assert [len(rows) for _, rows in pages._by_workload(apart.curves)] in ([1, 2], [2, 1])
    page = pages.render(apart, "libraries")
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    tables = pages._primitives(apart, ())["roofline_tables"]
    assert isinstance(tables, list)
    assert len(tables) == 2


def test_learning_curves_state_their_provenances_and_each_series_where_they_differ(content: Content) -> None:
    measured = content.curves[0]
    last = dataclasses.replace(measured.last, provenance=Provenance.SIMULATED)
    simulated = dataclasses.replace(measured, system="fpga-native-cpu", last=last)
    alone = dataclasses.replace(simulated, workload="alone")
    shown = dataclasses.replace(content, curves=(measured, simulated, alone))
    page = pages.render(shown, "libraries")
    captions = re.findall(r"Provenance: ([^.]*)\.</figcaption>", page)
    assert captions == ["simulated", "measured, simulated"]
    assert re.findall(r"seed 0 \((\w+)\)", page) == ["measured", "simulated"]


def test_a_folder_without_another_reference_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    store, folder = sample.write(tmp_path / "store.sqlite"), tmp_path / "report"
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="--compare"):
        site.write(store, folder, tmp_path / "empty")
    assert not folder.exists()


@pytest.mark.usefixtures("plots_not_drawn")
def test_a_prediction_that_was_not_run_is_counted_and_not_listed(content: Content) -> None:
    page = pages.render(content, "predictions")
    waiting = sum(p.achieved is None for p in content.predictions)
    assert waiting
    assert "graph-reference-cpu" not in page
    assert f'<data value="{waiting}">{waiting}</data> more predictions' in page


@pytest.mark.usefixtures("plots_not_drawn")
def test_an_empty_store_has_every_page(content: Content) -> None:
    empty = reading.arrange(content.measurements.iloc[:0], (), None)
    for name in pages.pages_of(empty):
        assert "The store holds no run yet" in pages.render(empty, name)
    assert pages.render(empty).count("not run: needs") >= 3


@pytest.mark.usefixtures("plots_not_drawn", "one_claim_s_page")
def test_a_page_on_changes_is_written_only_if_references_are_given(tmp_path: Path) -> None:
    path = sample.write(tmp_path / "store.sqlite")
    assert "changes" not in pages.pages_of(reading.read(path))
    reference.save(path, "standard", tmp_path / "references")
    with Store.open(path) as store:
        store.begin_run("quick", "later", sample.MACHINE).finish("all", list(sample.rows()))
    index, _ = site.write(path, tmp_path / "report", tmp_path / "references")
    assert index == tmp_path / "report" / "index.html"
    changes = (tmp_path / "report" / "changes.html").read_text()
    assert "Nothing changed beyond the drift." in changes
    assert len(changes) < 100_000
    assert 'href="changes.html"' in index.read_text()


def test_a_paper_s_page_has_its_statements_and_the_figures_that_can_be_drawn(content: Content) -> None:
    found = dict(pages.render_papers(content, pages.papers_figures(content)))
    assert set(found) == {"MAP", "PAL", "PRL", "PPO", "FIX"}
    for key, page in found.items():
        for verdict in content.verdicts:
            assert (f'href="../claims/{verdict.key}.html"' in page) == (verdict.paper == key)
    assert sum(page.count("<svg") for page in found.values()) >= 1
