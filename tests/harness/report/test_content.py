"""From a store to the contents of the report."""

import re
from pathlib import Path

import pandas as pd
import pytest

from placerl.harness.core.row import Row
from placerl.harness.papers.evidence import last_attempts
from placerl.harness.report import export, pages, reading, site
from placerl.harness.report.content import Content
from placerl.harness.report.reading import read, read_all
from placerl.harness.store.store import Store
from tests.harness.old_form import replace
from tests.harness.papers.rows import measurement, profiled
from tests.harness.report import sample


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Content:
    return read(sample.write(tmp_path_factory.mktemp("store") / "store.sqlite"))


def test_the_last_run_is_shown_with_the_labels_of_the_whole_store(content: Content) -> None:
    assert content.run is not None
    assert (content.run.revision, len(content.runs)) == ("0123456789abcdef", 2)
    assert content.measurements.index[0] == 1


def test_what_has_no_time_keeps_its_reason(content: Content) -> None:
    absent = [t for t in content.primitives if t.time is None]
    assert {(t.device, t.status) for t in absent} == {("cuda", "not_run")}
    assert all(t.reason for t in absent)
    assert {gap.status for gap in content.gaps} == {"failed", "not run", "too noisy"}


def test_curves_keep_every_episode(content: Content) -> None:
    curve = content.curves[0]
    assert len(curve.environment_steps) == len(curve.returns) == 120
    assert curve.last.value == pytest.approx(sum(curve.returns[-10:]) / 10)


def test_a_published_number_says_what_it_is_also_where_it_is_the_only_one(content: Content) -> None:
    page = pages.render(content, "papers")
    for verdict in content.verdicts:
        row = page.partition(f'<tr id="{verdict.key}"')[2].partition("</tr>")[0]
        published = row.partition('data-label="Published"')[2].partition("</td>")[0]
        assert published.count('<span class="what">') == len(verdict.claim.published), verdict.key


def test_facts_flatten_the_machine(content: Content) -> None:
    facts = {(f.group, f.name): f.value for f in content.facts}
    assert facts["cpu, caches", "data 1"] == "size: 48 KiB; shared by cores: 1"
    assert facts["cpu", "cores"] == "2"
    assert facts["backends", "learner torch"] == "available: yes"
    assert facts["links", "cpu cpu"] == "speed: 8.324 GB/s"
    assert facts["power", "RAPL"] == "readable: no; reason: not offered"


def test_a_cell_measured_again_counts_once(content: Content) -> None:
    rows = content.measurements.iloc[:3].assign(cell=["a", "b", "a#2"])
    assert last_attempts(rows)["cell"].tolist() == ["b", "a#2"]


def test_noise_is_counted(content: Content) -> None:
    numbers = {n.quantity: n.value for n in content.noise}
    assert numbers["of them too noisy for a verdict"] == 1
    assert numbers["median width of their 95% intervals"] == pytest.approx(8)
    assert numbers["A/A null, hopper-ddpg compared with sb3"] == 1.004


def test_the_report_shows_the_peak_memory_of_each_run(tmp_path: Path) -> None:
    def peak(primitive: str, value: float) -> Row:
        fields = {"suite": "memory", "quantity": "peak_memory", "primitive": primitive, "unit": "B"}
        return measurement(value, **fields)

    with Store.open(tmp_path / "store.sqlite") as store:
        for tier, peaks in (("quick", (1.25e9, 1.5e9)), ("standard", (2e9,))):
            run = store.begin_run(tier, "r", sample.MACHINE)
            for number, value in enumerate(peaks):  # of a run that was resumed
                name = f"memory/{tier}/{number}"
                run.finish(name, [peak("main process", value), peak("largest process", value + 1e8)])
        for number in range(7):
            names = ("main process", "largest process")
            of_cell = [replace(peak(name, 1e9 + number), details={"cell": f"a/{number}"}) for name in names]
            run.finish(f"memory/a/{number}", of_cell)
    content = read(tmp_path / "store.sqlite")
    assert {n.quantity: n.value for n in content.memory} == {
        "main process, quick run": 1.5e9,
        "largest process, quick run": 1.6e9,
        "main process, standard run": 2e9,
        "largest process, standard run": 2.1e9,
        **{f"largest process in a/{number}, standard run": 1e9 + number for number in (6, 5, 4, 3, 2)},
    }
    (section,) = re.findall("<h3>peak memory</h3>.*?</section>", pages.render(content, "machine"), re.DOTALL)
    assert "<dt>largest process, quick run</dt>" in section
    assert '<data value="1600000000.0">1.6</data>\N{NO-BREAK SPACE}GB' in section


def test_an_empty_store_has_a_report(content: Content) -> None:
    empty = reading.arrange(content.measurements.iloc[:0], (), None)
    assert empty.run is None
    assert not any([empty.predictions, empty.comparisons, empty.primitives, empty.curves, empty.gaps])
    assert empty.verdicts
    assert isinstance(empty.measurements, pd.DataFrame)


def test_store_path_is_only_read(tmp_path: Path) -> None:
    store = sample.write(tmp_path / "store.sqlite")
    before = store.read_bytes()
    read(store)
    assert store.read_bytes() == before


def own_rows(found: Content) -> pd.DataFrame:
    """The measurements of a report without those of committed runs."""
    return found.measurements[found.measurements["run"] > 0]


def test_runs_of_other_tiers_by_the_same_code_count_too_and_later_attempts_win(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.sqlite") as store:
        for tier, revision, cells in (("quick", "old", "ab"), ("quick", "new", "ab"), ("bench", "new", "bc")):
            run = store.begin_run(tier, revision, sample.MACHINE)
            for cell in cells:
                run.finish(cell, [profiled("sum_tree.sample", 1.0)])
    found = own_rows(read(tmp_path / "store.sqlite"))
    assert list(zip(found["tier"], found["cell"], strict=True)) == [
        ("quick", "a"),
        ("bench", "b"),
        ("bench", "c"),
    ]


@pytest.mark.usefixtures("plots_not_drawn", "one_claim_s_page")
def test_each_machine_has_pages_and_tables_of_its_own(tmp_path: Path) -> None:
    path = sample.write(tmp_path / "store.sqlite")
    with Store.open(path) as store:
        elsewhere = {"fingerprint": "../../server", "cpu": {"model": "Big CPU"}}
        store.begin_run("quick", "r", elsewhere).finish("a", [profiled("sum_tree.sample", 1.0)])
    first, other = read_all(path)
    assert [len(own_rows(c)) > 1 for c in (first, other)] == [False, True]
    page, _ = site.write(path, tmp_path / "report")
    listed = page.with_name("machine.html").read_text()
    assert f'href="platforms/{other.slug}/index.html"' in listed
    assert (tmp_path / "report" / "platforms" / other.slug / "claims" / "MAP-F13.html").is_file()
    assert "Big CPU" in listed
    written = export.write(path, tmp_path / "export", ["csv"])
    assert tmp_path / "export" / "platforms" / other.slug / "verdicts.csv" in written
    assert all(p.resolve().is_relative_to(tmp_path / "export") for p in written)
