"""The page in a real browser: Chromium with its driver, where this machine has them."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import axe_core_python
import pandas as pd
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from placerl.harness import platforms, workloads
from placerl.harness.core.row import Row
from placerl.harness.mapping import absent_platforms, predict
from placerl.harness.mapping.candidates import candidates
from placerl.harness.mapping.problem import problem_of
from placerl.harness.mapping.strategies.map_tpds23 import MapTpds23
from placerl.harness.mapping.strategies.primitive_sum import PrimitiveSum
from placerl.harness.platforms import of_this_machine
from placerl.harness.report import export, pages, site
from placerl.harness.report.reading import read
from placerl.harness.store.store import Store
from tests.harness.papers.rows import profiled
from tests.harness.report import sample
from tests.harness.report.chromium import opened, skip_without_chromium

PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}

pytestmark = skip_without_chromium


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    store = sample.write_merged(made / "store.sqlite")
    site.write(store, made / "report")
    export.write(store, made / "export", ["csv"])
    return made


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    yield from opened(tmp_path_factory.mktemp("chromium"))


@pytest.fixture
def page(browser: webdriver.Chrome, folder: Path) -> webdriver.Chrome:
    browser.get((folder / "report" / "papers.html").as_uri())
    return browser


@dataclass(frozen=True)
class Visit:
    """What a page was found to be on a phone.

    Attributes:
        path: of its file.
        machine: folder of its machine among the exported files; empty for the last run's.
        messages: of the console.
        requests: addresses that were asked for.
        width: of what can be scrolled to.
        ids, links: of its elements; the links as whole addresses.
        numbers: exact values that it shows, as text.
        counts: those of them that say how many rows are folded.
        texts: of its cells, without those numbers.
        text_px: each text of its plots, and the size that it has on the screen.
    """

    path: Path
    machine: str
    messages: list[Any]
    requests: set[str]
    width: int
    ids: list[str]
    links: list[str]
    numbers: list[str]
    counts: list[str]
    texts: list[str]
    text_px: list[tuple[str, float]]


LOOK = """
    const all = (selector) => [...document.querySelectorAll(selector)];
    const cells = all('main td, main th, main dd').map(e => e.cloneNode(true));
    for (const cell of cells) for (const inner of cell.querySelectorAll('data, abbr')) inner.remove();
    const size = (e) => {
        const m = e.getScreenCTM();
        return parseFloat(getComputedStyle(e).fontSize) * Math.hypot(m.a, m.b);
    };
    return {
        width: document.documentElement.scrollWidth,
        ids: all('[id]').map(e => e.id),
        links: all('a').map(e => e.href),
        numbers: all('main data').map(e => e.value),
        counts: all('summary > data').map(e => e.value),
        texts: cells.map(e => e.textContent),
        text_px: all('figure svg text').map(e => [e.textContent, size(e)]),
    };
"""


@pytest.fixture(scope="module")
def visits(browser: webdriver.Chrome, folder: Path) -> list[Visit]:
    """Every page of the last run's machine, and of the other one the first and some claims, each opened once."""
    report = folder / "report"
    written = [
        path for place in (".", "papers", "claims") for path in sorted((report / place).glob("*.html"))
    ]
    assert len(written) > 40
    elsewhere = report / pages.PLATFORMS
    written += [*elsewhere.glob("*/*.html"), *sorted(elsewhere.glob("*/claims/*"))[::12]]
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        return [visit(browser, path, report) for path in written]
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def visit(browser: webdriver.Chrome, path: Path, report: Path) -> Visit:
    for kind in ("browser", "performance"):
        browser.get_log(kind)  # those of the page before, or of the browser's own start page
    browser.get(path.as_uri())
    seen = browser.execute_script(LOOK)
    sent = [entry["message"] for entry in browser.get_log("performance")]
    requests = {
        url
        for message in sent
        if "requestWillBeSent" in message
        for url in re.findall(r'"url":"([^"]+)"', message)
    }
    parts = path.relative_to(report).parts
    machine = "/".join(parts[:2]) if parts[0] == pages.PLATFORMS else ""
    return Visit(path=path, machine=machine, messages=browser.get_log("browser"), requests=requests, **seen)


def shown(page: webdriver.Chrome) -> list[str]:
    script = (
        "return [...document.querySelectorAll('#verdict-rows > tr')].filter(r => !r.hidden).map(r => r.id)"
    )
    return list(page.execute_script(script))


def test_names_are_text_and_never_code(page: webdriver.Chrome) -> None:
    page.get(page.current_url.replace("papers.html", "libraries.html"))
    assert page.title.startswith("PlaceRL report")
    assert sample.HOSTILE in page.find_element(By.TAG_NAME, "main").text


def test_each_filter_alone_and_together(page: webdriver.Chrome) -> None:
    every = shown(page)
    assert len(every) > 40
    Select(page.find_element(By.ID, "filter-paper")).select_by_value("FIX")
    fix = shown(page)
    assert fix
    assert all(key.startswith("FIX-") for key in fix)
    Select(page.find_element(By.ID, "filter-outcome")).select_by_value("consistent")
    both = shown(page)
    by_lent_rows = {"FIX-F10-rate", "FIX-V-C"}
    assert set(both) - by_lent_rows == {"FIX-T1", "FIX-III", "FIX-III-activations", "FIX-VI-B-sizes"}
    Select(page.find_element(By.ID, "filter-provenance")).select_by_value("measured")
    assert shown(page) == ["FIX-VI-B-sizes"]
    status = page.find_element(By.ID, "shown")
    assert status.text == f"1 of {len(every)} shown"
    page.find_element(By.ID, "clear").click()
    assert shown(page) == every
    page.find_element(By.ID, "search").send_keys("fanout")
    assert "PAL-F9-fanout" in shown(page)
    assert len(shown(page)) < len(every)


def test_claims_that_need_a_gpu_are_found(page: webdriver.Chrome) -> None:
    Select(page.find_element(By.ID, "filter-needs")).select_by_value("gpu")
    needed = [page.find_element(By.ID, key).text for key in shown(page)]
    assert needed
    assert all("CUDA device" in text for text in needed if "needs" in text)
    Select(page.find_element(By.ID, "filter-needs")).select_by_value("nothing")
    assert shown(page)
    assert not any(
        "needs" in page.find_element(By.CSS_SELECTOR, f"[id='{key}'] td:last-child").text
        for key in shown(page)
    )


def test_predictions_are_filtered_and_paged(browser: webdriver.Chrome, folder: Path, tmp_path: Path) -> None:
    content = read(folder / "store.sqlite")
    (ran, *_) = (p for p in content.predictions if p.shown)
    many = (*content.predictions, *(replace(ran, strategy="copied") for _ in range(60)))
    page = tmp_path / "predictions.html"
    page.write_text(pages.render(replace(content, predictions=many), "predictions"), encoding="utf-8")
    browser.get(page.as_uri())
    status = browser.find_element(By.ID, "shown")
    Select(browser.find_element(By.ID, "filter-model")).select_by_value("copied")
    assert status.text == "1 to 25 of 60 shown"
    for button, rows in (("next", "26 to 50"), ("next", "51 to 60"), ("previous", "26 to 50")):
        browser.find_element(By.ID, button).click()
        assert status.text == f"{rows} of 60 shown"
    visible = "return [...document.querySelectorAll('[data-filtered] > tr')].filter(r => !r.hidden).length"
    assert browser.execute_script(visible) == 25


def test_a_count_filters_by_its_verdict(page: webdriver.Chrome) -> None:
    chip = page.find_element(By.CSS_SELECTOR, ".summary button[data-outcome='no verdict']")
    chip.click()
    assert len(shown(page)) == int(chip.find_element(By.TAG_NAME, "b").text)
    assert chip.get_attribute("aria-pressed") == "true"
    chip.click()
    assert len(shown(page)) > 40


def test_a_link_shows_a_claim_that_a_filter_hides(page: webdriver.Chrome) -> None:
    Select(page.find_element(By.ID, "filter-paper")).select_by_value("FIX")
    page.execute_script("location.hash = '#MAP-F13'")
    assert "MAP-F13" in shown(page)


def test_no_id_twice_and_every_reference_inside_resolves(page: webdriver.Chrome) -> None:
    ids = page.execute_script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids)), "two elements have the same id"
    references = set(re.findall(r'(?:href="#|url\(#)([^")]+)', page.page_source))
    assert references <= set(ids)


def test_no_console_message_and_no_request(visits: list[Visit]) -> None:
    for visit in visits:
        assert visit.messages == [], visit.path
        assert visit.requests, visit.path
        assert all(url.startswith(("file:", "data:")) for url in visit.requests), visit.requests


def test_every_link_resolves(visits: list[Visit], folder: Path) -> None:
    written = (folder / "report").rglob("*.html")
    ids_of = {path.as_uri(): set(re.findall(r' id="([^"]+)"', path.read_text())) for path in written}
    for visit in visits:
        assert visit.links, visit.path
        for target in visit.links:
            address, _, anchor = target.partition("#")
            assert address in ids_of, (visit.path, target)
            assert not anchor or anchor in ids_of[address], (visit.path, target)


def test_the_pages_of_another_machine_are_linked_and_lead_back(visits: list[Visit], folder: Path) -> None:
    first = (folder / "report" / "machine.html").as_uri()
    (ahead,) = (visit.links for visit in visits if visit.path.as_uri() == first)
    elsewhere = [visit for visit in visits if visit.machine]
    assert [v.path.as_uri() in ahead for v in elsewhere if v.path.name == "index.html"] == [True]
    assert len(elsewhere) > 5
    assert all(f"{first}#machines" in visit.links for visit in elsewhere)


def test_every_number_is_in_the_exported_files(visits: list[Visit], folder: Path) -> None:
    rows = {float(row) for row in pd.read_csv(folder / "export" / "measurements.csv")["row"]}
    files_of = {machine: exported(folder, machine) for machine in {visit.machine for visit in visits}}
    assert len(files_of) == 2
    for visit in visits:
        values, tokens = files_of[visit.machine]
        if visit.path.name == "papers.html":
            assert len(visit.numbers) > 100
        # What counts a table's rows, and episodes of a mean.
        counts = {*map(float, visit.counts), 10.0}
        missing = {n for n in visit.numbers if float(n) not in values | counts | rows}
        assert not missing, visit.path
        # What is left without <data>: names, reasons, statements and facts, all of them exported as text.
        for text in visit.texts:
            for token in re.findall(r"\d[\d.]*", text):
                assert token in tokens or token.rstrip(".") in tokens, (visit.path, token, text)


def exported(folder: Path, machine: str) -> tuple[set[float], set[str]]:
    """The numbers of a machine's tables and of the store's measurements, and every number within their texts."""
    paths = {*(folder / "export" / machine).glob("*.csv"), folder / "export" / "measurements.csv"}
    tables = [pd.read_csv(path, dtype=str) for path in paths]
    cells = {str(cell) for table in tables for column in table for cell in table[column].dropna()}
    values = set()
    for cell in cells:
        with contextlib.suppress(ValueError):
            values.add(float(cell))
    return values, {token for cell in cells for token in re.findall(r"\d[\d.]*", cell)}


def test_every_page_fits_a_phone(visits: list[Visit]) -> None:
    assert {visit.path.stem: visit.width for visit in visits if visit.width != PHONE["width"]} == {}


def test_the_text_of_every_plot_can_be_read_on_a_phone(visits: list[Visit]) -> None:
    drawn = [visit for visit in visits if visit.text_px]
    assert {visit.path.parent.name for visit in drawn} >= {"report", "claims"}
    small = {(visit.path.stem, text): px for visit in drawn for text, px in visit.text_px if px < 8.99}
    assert small == {}


def test_a_chosen_mapping_that_was_not_run_is_named_beneath_its_heat_map(
    browser: webdriver.Chrome, visits: list[Visit]
) -> None:
    (path,) = (visit.path for visit in visits if visit.machine and visit.path.name == "mappings.html")
    browser.get(path.as_uri())
    (caption,) = browser.find_elements(By.CSS_SELECTOR, ".plots figcaption")
    assert caption.text.endswith("Chosen mapping native-opencl-cpu was not run at batch size 256.")


def test_versions_and_settings_of_every_baseline_are_shown(page: webdriver.Chrome, folder: Path) -> None:
    page.get((folder / "report" / "libraries.html").as_uri())
    section = page.find_element(By.CSS_SELECTOR, "section[aria-labelledby='comparisons']")
    shown = section.find_element(By.CSS_SELECTOR, "table.versions").text
    for row in pd.read_csv(folder / "export" / "baseline_versions.csv").itertuples():
        for text in (row.system, *row.versions.split("; "), *row.settings.split("; ")):
            assert text in shown
    assert "stable-baselines3 2.9.2" in shown
    assert "replay: uniform" in shown


def test_a_roofline_for_every_device_with_its_numbers_in_the_tables(
    page: webdriver.Chrome, folder: Path
) -> None:
    page.get((folder / "report" / "primitives.html").as_uri())
    section = page.find_element(By.CSS_SELECTOR, "section[aria-labelledby='roofline']")
    titles = [svg.get_attribute("aria-label") or "" for svg in section.find_elements(By.CSS_SELECTOR, "svg")]
    exported = pd.read_csv(folder / "export" / "roofline.csv")
    drawn = exported[exported["intensity"].notna()]
    wanted = {f"{b} on {d}" for b, d in zip(drawn["backend"], drawn["device"], strict=True)}
    assert {title.partition(":")[0] for title in titles} == wanted
    rows = page.execute_script("return arguments[0].querySelectorAll('details tbody tr').length", section)
    assert rows == len(exported)
    assert set(exported["roof_provenance"]) == {"measured", "modelled"}
    assert set(exported["achieved_provenance"]) == {"modelled"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_a_phone_in_both_colour_schemes(browser: webdriver.Chrome, folder: Path, scheme: str) -> None:
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        browser.get((folder / "report" / "index.html").as_uri())
        width = browser.execute_script("return document.documentElement.scrollWidth")
        assert width == PHONE["width"]
        colours = browser.execute_script(
            "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
        )
        ink, paper = (_luminance(colour) for colour in colours)
        contrast = (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05)
        assert contrast > 7
        assert (paper < ink) == (scheme == "dark")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


AXE = Path(axe_core_python.__file__).with_name("axe.min.js")
SERIOUS = ("serious", "critical")
FINDINGS = """
    const done = arguments[arguments.length - 1];
    const options = arguments.length > 1 ? {runOnly: arguments[0]} : {};
    axe.run(document, {resultTypes: ["violations"], ...options}).then(r => done(
        r.violations.map(v => [v.impact, v.id, v.help, v.nodes.slice(0, 3).map(n => n.html.slice(0, 200))])));
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "rules"), [("light", []), ("dark", [["color-contrast", "link-in-text-block"]])]
)
def test_axe_finds_nothing_serious(
    browser: webdriver.Chrome, folder: Path, scheme: str, rules: list[list[str]]
) -> None:
    """The dark scheme has other colours and nothing else, so that the rules about anything else would find the same."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    report = folder / "report"
    try:
        for path in (
            *sorted(report.glob("*.html")),
            report / "papers/FIX.html",
            report / "claims/MAP-F13.html",
        ):
            browser.get(path.as_uri())
            browser.execute_script(AXE.read_text(encoding="utf-8"))
            found = browser.execute_async_script(FINDINGS, *rules)
            assert [each for each in found if each[0] in SERIOUS] == [], path.name
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_axe_finds_a_serious_fault(browser: webdriver.Chrome, folder: Path) -> None:
    browser.get((folder / "report" / "index.html").as_uri())
    browser.execute_script(
        "document.body.insertAdjacentHTML('beforeend', '<main><img src=\"data:,\"></main>')"
    )
    browser.execute_script(AXE.read_text(encoding="utf-8"))
    found = browser.execute_async_script(FINDINGS)
    assert "image-alt" in [name for impact, name, *_ in found if impact in SERIOUS]


def test_the_keyboard_reaches_the_menu_after_a_link_that_skips_it(
    browser: webdriver.Chrome, folder: Path
) -> None:
    browser.get((folder / "report" / "index.html").as_uri())
    places = []
    for _ in range(3):
        webdriver.ActionChains(browser).send_keys(Keys.TAB).perform()
        places.append(browser.switch_to.active_element.get_attribute("href"))
    assert [place.partition("report/")[2] for place in places] == [
        "index.html#main",
        "index.html",
        "mappings.html",
    ]


@pytest.fixture(scope="module")
def mappings_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a page on the mappings of a machine where `timed_rows` were measured."""
    made = tmp_path_factory.mktemp("what-if")
    with Store.open(made / "store.sqlite") as store:
        store.begin_run("quick", "r", sample.MACHINE).finish("a", list(timed_rows()))
    page = made / "mappings.html"
    page.write_text(pages.render(read(made / "store.sqlite"), "mappings"), encoding="utf-8")
    return page.as_uri()


def test_what_if_ranks_the_mappings_as_the_python_models_do(
    browser: webdriver.Chrome, mappings_page: str
) -> None:
    browser.get(mappings_page)
    table = predict.table_from(list(timed_rows()), 256)
    problem = problem_of(workloads.load("hopper-ddpg"), 256)
    for value, model in (("1", MapTpds23()), ("0", PrimitiveSum())):
        Select(browser.find_element(By.ID, "what-if-ahead")).select_by_value(value)
        wanted = {}
        for mapping in candidates(table):
            with contextlib.suppress(KeyError):
                wanted[str(mapping)] = model.predict(table, problem, of_this_machine(), mapping).gps
        assert len(wanted) >= 6
        shown = shown_ranking(browser)
        assert dict(shown) == pytest.approx(wanted, rel=1e-12)
        assert [rate for _, rate in shown] == sorted(wanted.values(), reverse=True)
    rows_of = "return [...document.querySelectorAll('#what-if-rows tr')]"
    for mapping, words in browser.execute_script(
        f"{rows_of}.map(r => [r.dataset.mapping, r.lastChild.textContent])"
    ):
        assert words.endswith(", too noisy for a verdict") is mapping.startswith("torch-")
    (box,) = browser.find_elements(By.CSS_SELECTOR, "#what-if-devices input")
    assert box.get_attribute("value") == "fpga:u200"
    box.click()
    here = dict(shown_ranking(browser))
    assert here
    assert here.keys() == {mapping for mapping in wanted if "fpga" not in mapping}
    browser.execute_script(AXE.read_text(encoding="utf-8"))
    assert [each for each in browser.execute_async_script(FINDINGS) if each[0] in SERIOUS] == []


@pytest.mark.parametrize("platform", ["map-tpds23", "ppoaccel"])
def test_what_if_ranks_the_mappings_of_published_platforms(
    platform: str, browser: webdriver.Chrome, mappings_page: str
) -> None:
    browser.get(mappings_page)
    Select(browser.find_element(By.ID, "what-if-platform")).select_by_value(platform)
    Select(browser.find_element(By.ID, "what-if-size")).select_by_value("2048")
    published, workload = platforms.load(platform), workloads.load("hopper-ddpg")
    table = predict.table_from(absent_platforms.times(workload, 2048, published), 2048)
    model, problem = MapTpds23(), problem_of(workload, 2048)
    wanted = {str(each): model.predict(table, problem, published, each).gps for each in candidates(table)}
    assert len(wanted) >= 6
    assert dict(shown_ranking(browser)) == pytest.approx(wanted, rel=1e-12)


def shown_ranking(browser: webdriver.Chrome) -> list[tuple[str, float]]:
    script = "return [...document.querySelectorAll('#what-if-rows tr')].map(r => [r.dataset.mapping, r.dataset.rate])"
    return [(mapping, float(rate)) for mapping, rate in browser.execute_script(script)]


def timed_rows() -> Iterator[Row]:
    """Times of all primitives on several backends and on a simulated device; the reference manages no replay, and
    the torch learner's time is too noisy."""
    for target, device, factor in (
        ("native", "cpu", 1.0),
        ("torch", "cpu", 3.0),
        ("fpga:u200", "fpga:u200", 0.5),
    ):
        fields = {"backend": target.partition(":")[0], "device": device}
        fields |= {"suite": "simulated_profile", "provenance": "simulated"} if device == target else {}
        for primitive, time_s in (
            ("learner.step", 2e-3),
            ("sum_tree.sample", 1.5e-3),
            ("sum_tree.update", 1e-3),
        ):
            noisy = (
                {"status": "too_noisy", "reason": "wide"}
                if (target, primitive) == ("torch", "learner.step")
                else {}
            )
            yield profiled(primitive, factor * time_s, details={"target": target}, **fields, **noisy)
        yield profiled("actor.infer", factor * 1e-5, details={"target": target}, **fields)
        yield profiled("sum_tree.insert", factor * 2e-6, details={"target": target}, **fields)
    for primitive in ("sum_tree.sample", "sum_tree.update"):
        yield profiled(primitive, 1e-9, backend="reference", details={"target": "reference"})
    for primitive, time_s in (("environment.step", 3e-5), ("storage.insert", 1e-6), ("storage.gather", 4e-5)):
        yield profiled(primitive, time_s, details={"target": "cpu"})
    yield profiled("storage.gather", 2e-5, backend="fpga", details={"target": "fpga:u200"})


def _luminance(colour: str) -> float:
    """Relative luminance (WCAG 2) of a CSS colour `rgb(r, g, b)`."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
