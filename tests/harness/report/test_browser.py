"""The page in a real browser: Chromium with its driver, where this machine has them."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from harness.report import export, site
from tests.harness.report import sample

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --force-prefers-reduced-motion"
)
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="no Chromium here: `apt-get install chromium chromium-driver` (Debian) brings it",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    store = sample.write(made / "store.sqlite")
    site.write(store, made / "report")
    export.write(store, made / "export")
    return made


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('chromium')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser: webdriver.Chrome, folder: Path) -> webdriver.Chrome:
    browser.get((folder / "report" / "index.html").as_uri())
    return browser


def shown(page: webdriver.Chrome) -> list[str]:
    script = (
        "return [...document.querySelectorAll('#verdict-rows > tr')].filter(r => !r.hidden).map(r => r.id)"
    )
    return list(page.execute_script(script))


def test_no_console_message_and_no_request(page: webdriver.Chrome) -> None:
    page.get_log("performance")  # those of the browser's own start page
    page.refresh()
    assert page.get_log("browser") == []
    requested = [
        entry["message"] for entry in page.get_log("performance") if "requestWillBeSent" in entry["message"]
    ]
    urls = {url for message in requested for url in re.findall(r'"url":"([^"]+)"', message)}
    assert urls
    assert all(url.startswith(("file:", "data:")) for url in urls), urls


def test_names_are_text_and_never_code(page: webdriver.Chrome) -> None:
    assert page.title.startswith("PlaceRL report")
    assert sample.HOSTILE in page.find_element(By.TAG_NAME, "main").text


def test_each_filter_alone_and_together(page: webdriver.Chrome) -> None:
    every = shown(page)
    assert len(every) > 40
    Select(page.find_element(By.ID, "filter-paper")).select_by_value("FIX")
    fix = shown(page)
    assert fix
    assert all(key.startswith("FIX-") for key in fix)
    Select(page.find_element(By.ID, "filter-outcome")).select_by_value("inconsistent in the paper")
    both = shown(page)
    assert set(both) == {"FIX-F8-range", "FIX-T2-peak", "FIX-VI-B"}
    Select(page.find_element(By.ID, "filter-provenance")).select_by_value("measured")
    assert shown(page) == ["FIX-VI-B"]
    status = page.find_element(By.ID, "shown")
    assert status.text == f"1 of {len(every)} shown"
    page.find_element(By.ID, "clear").click()
    assert shown(page) == every
    page.find_element(By.ID, "search").send_keys("fanout")
    assert "PAL-F9-fanout" in shown(page)
    assert len(shown(page)) < len(every)


def test_a_count_filters_by_its_verdict(page: webdriver.Chrome) -> None:
    chip = page.find_element(By.CSS_SELECTOR, ".summary button[data-outcome='inconsistent in the paper']")
    chip.click()
    assert len(shown(page)) == int(chip.find_element(By.TAG_NAME, "b").text)
    assert chip.get_attribute("aria-pressed") == "true"
    chip.click()
    assert len(shown(page)) > 40


def test_a_link_shows_a_claim_that_a_filter_hides(page: webdriver.Chrome) -> None:
    Select(page.find_element(By.ID, "filter-paper")).select_by_value("FIX")
    page.execute_script("location.hash = '#MAP-F13'")
    assert "MAP-F13" in shown(page)


def linked(page: webdriver.Chrome) -> list[str]:
    """Where each link of the page leads, as a whole address."""
    return list(page.execute_script("return [...document.querySelectorAll('a')].map(e => e.href)"))


def test_every_link_resolves(page: webdriver.Chrome, folder: Path) -> None:
    written = sorted((folder / "report").rglob("*.html"))
    assert len(written) > 40
    ids_of = {path.as_uri(): set(re.findall(r' id="([^"]+)"', path.read_text())) for path in written}
    for path in [folder / "report" / "index.html", *written[:: len(written) // 5]]:
        page.get(path.as_uri())
        targets = linked(page)
        assert targets
        for target in targets:
            address, _, anchor = target.partition("#")
            assert not anchor or anchor in ids_of[address], target
            assert address in ids_of, target


def test_no_id_twice_and_every_reference_inside_resolves(page: webdriver.Chrome) -> None:
    ids = page.execute_script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids)), "two elements have the same id"
    references = set(re.findall(r'(?:href="#|url\(#)([^")]+)', page.page_source))
    assert references <= set(ids)


@pytest.mark.parametrize("name", ["index", "claims/FIX-VI-B", "claims/MAP-F13"])
def test_every_number_is_in_the_exported_files(page: webdriver.Chrome, folder: Path, name: str) -> None:
    page.get((folder / "report" / f"{name}.html").as_uri())
    exported = [pd.read_csv(path, dtype=str) for path in (folder / "export").glob("*.csv")]
    cells = {str(cell) for table in exported for column in table for cell in table[column].dropna()}
    tokens = {token for cell in cells for token in re.findall(r"\d[\d.]*", cell)}
    values = set()
    for cell in cells:
        try:
            values.add(float(cell))
        except ValueError:
            continue
    script = "return [...document.querySelectorAll('main data')].map(e => e.value)"
    numbers = page.execute_script(script)
    assert len(numbers) > (300 if name == "index" else 5)
    counts = {float(n) for n in re.findall(r"<summary><data value=\"(\d+)\"", page.page_source)} | {10.0}
    rows = {float(row) for row in pd.read_csv(folder / "export" / "measurements.csv")["row"]}
    missing = {n for n in numbers if float(n) not in values | counts | rows}
    assert not missing
    # What is left without <data>: names, reasons, statements and facts, all of them exported as text.
    script = """
        const cells = [...document.querySelectorAll('main td, main th, main dd')].map(e => e.cloneNode(true));
        for (const cell of cells) for (const inner of cell.querySelectorAll('data, abbr')) inner.remove();
        return cells.map(e => e.textContent);
    """
    for text in page.execute_script(script):
        for token in re.findall(r"\d[\d.]*", text):
            assert token in tokens or token.rstrip(".") in tokens, (token, text)


@pytest.mark.parametrize("key", ["MAP-F11", "PPO-T2-minibatch", "PRL-T3-platform-portability"])
def test_a_claims_page_fits_a_phone(browser: webdriver.Chrome, folder: Path, key: str) -> None:
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        browser.get((folder / "report" / "claims" / f"{key}.html").as_uri())
        assert browser.execute_script("return document.documentElement.scrollWidth") == PHONE["width"]
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_roofline_for_every_device_with_its_numbers_in_the_tables(
    page: webdriver.Chrome, folder: Path
) -> None:
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


def _luminance(colour: str) -> float:
    """Relative luminance (WCAG 2) of a CSS colour `rgb(r, g, b)`."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
