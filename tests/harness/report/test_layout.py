"""Every page of the report fits what it is read on: nothing is cut, squeezed or shown twice."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from placerl.harness.report import pages, site
from placerl.harness.store import reference
from placerl.harness.store.store import Store
from tests.harness.report import sample
from tests.harness.report.chromium import opened, skip_without_chromium

WIDTHS = (1400, 800, 390)

pytestmark = skip_without_chromium

FAULTS = r"""
    const found = [], all = (selector, root) => [...(root || document).querySelectorAll(selector)];
    const name = (e) => `${e.tagName.toLowerCase()}.${e.className.baseVal ?? e.className} ` +
        JSON.stringify(e.textContent.trim().slice(0, 40));
    if (document.documentElement.scrollWidth > innerWidth) found.push('the page scrolls sideways');
    for (const e of all('.plot, figure, .machine section, .headline li, .questions a, dl'))
        if (e.scrollWidth > e.clientWidth + 1) found.push(`cut or left: ${name(e)}`);
    for (const card of all('.machine section, figure, .headline li')) {
        const edge = card.getBoundingClientRect();
        for (const e of all('*', card)) {
            const place = e.getBoundingClientRect();
            if (place.width && (place.right > edge.right + 1 || place.left < edge.left - 1) && !e.closest('svg g'))
                found.push(`outside its card: ${name(e)}`);
        }
    }
    if (innerWidth >= 1400)
        for (const e of all('.scroll'))
            if (e.scrollWidth > e.clientWidth + 1) found.push(`a table wider than its card: ${name(e)}`);
    const range = document.createRange();
    for (const cell of all('main td, main th, main dt, main dd')) {
        const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
        for (let node = texts.nextNode(); node; node = texts.nextNode()) {
            if (node.parentElement.closest('code, pre')) continue;
            for (const token of node.data.matchAll(/\S+/g)) {
                if (token[0].length > 24) continue;  // an identifier or a path, which must break
                for (const word of token[0].matchAll(/[^-/–]+/g)) {
                    range.setStart(node, token.index + word.index);
                    range.setEnd(node, token.index + word.index + word[0].length);
                    const lines = new Set([...range.getClientRects()].map(r => Math.round(r.top)));
                    if (lines.size > 1) found.push(`broken: ${word[0]} in ${name(cell)}`);
                }
            }
        }
    }
    const drawn = all('figure svg').map(e => e.innerHTML.replace(/plot-[0-9a-f]{12}/g, ''));
    if (new Set(drawn).size < drawn.length) found.push('a figure twice');
    return [...new Set(found)];
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    yield from opened(tmp_path_factory.mktemp("chromium"))


def faults(browser: webdriver.Chrome, report: Path, *, claims: int = 1) -> dict[str, list[str]]:
    """Return what is wrong with each page of a report, by its path and width; empty if nothing is.

    Args:
        claims: of the pages of claims, one in so many is looked at.
    """
    found = {}
    of_claims = sorted(report.rglob("claims/*.html"))
    assert len(of_claims) > 40
    for page in [*sorted({*report.rglob("*.html")} - {*of_claims}), *of_claims[::claims]]:
        browser.get(page.as_uri())
        for width in WIDTHS:
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            if wrong := browser.execute_script(FAULTS):
                found[f"{page.relative_to(report)} at {width} px"] = wrong
    return found


def test_dark_colours_move_nothing() -> None:
    """So that the pages that fit in light colours fit in dark ones."""
    style = Path(pages.__file__).with_name("templates").joinpath("style.css").read_text(encoding="utf-8")
    (dark,) = re.findall(r"@media \(prefers-color-scheme: dark\) \{\s*:root \{([^{}]*)\}\s*\}", style)
    assert style.count("prefers-color-scheme") == 1
    for declaration in filter(str.strip, dark.split(";")):
        assert re.fullmatch(r"\s*--[a-z0-9-]+: #[0-9a-f]{6}", declaration), declaration


def test_pages_of_a_small_run_fit(browser: webdriver.Chrome, tmp_path: Path) -> None:
    """Each kind of page; those of claims have more in them in the run of the slow test."""
    site.write(sample.write(tmp_path / "store.sqlite"), tmp_path / "report")
    assert faults(browser, tmp_path / "report", claims=8) == {}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("tier", "claims"), [("quick", 8), ("standard", 1)])
def test_pages_of_a_reference_run_fit(
    browser: webdriver.Chrome, tmp_path: Path, tier: str, claims: int
) -> None:
    """All that `report` writes on the standard run, and each kind of page on the quick one."""
    (committed,) = (one for one in reference.load() if one.name == tier)
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run(committed.run.tier, committed.run.revision, committed.run.machine)
        run.finish("reference", committed.measurements)
    site.write(tmp_path / "store.sqlite", tmp_path / "report")
    assert faults(browser, tmp_path / "report", claims=claims) == {}


def test_each_kind_of_fault_is_found(browser: webdriver.Chrome, tmp_path: Path) -> None:
    """Pages that are broken on purpose, one fault each."""
    figure = '<figure><div class="plot"><svg width="50" height="20"><text>a</text></svg></div></figure>'
    wide = figure.replace('width="50"', 'width="900"')
    broken = {
        "the page scrolls sideways": '<p style="width: 3000px">wide</p>',
        "cut or left": f'<div style="width: 300px; overflow: auto">{wide}</div>',
        "outside its card": '<div class="headline"><li style="position: relative; width: 200px">'
        '<b style="position: absolute; left: 150px; width: 100px">far</b></li></div>',
        "a table wider than its card": '<div class="scroll"><p style="width: 1500px">x</p></div>',
        "broken": '<table style="width: 30px"><td style="overflow-wrap: anywhere">incomprehensible</td></table>',
        "a figure twice": figure * 2,
    }
    for kind, inner in broken.items():
        page = tmp_path / "page.html"
        style = ".plot, .scroll { overflow-x: auto } figure { width: 300px }"
        page.write_text(f"<!doctype html><style>{style}</style><main>{inner}</main>", encoding="utf-8")
        size = {"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(page.as_uri())
        wrong = browser.execute_script(FAULTS)
        assert any(fault.startswith(kind) for fault in wrong), (kind, wrong)
