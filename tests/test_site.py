"""The site of the pages in docs/ builds without a warning, is whole, and loads nothing from elsewhere."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("mkdocs", reason="the site needs the extra `docs`")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
LOADED = re.compile(r"""<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=["']?([^"'\s>]+)""")
LOADED_BY_STYLE = re.compile(r"""(?:url\(|@import\s+)["']?([^"')\s]+)""")


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site)]
    silent = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=root, env=silent, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    outcome = build(ROOT, folder)
    assert outcome.returncode == 0, outcome.stderr
    assert "WARNING" not in outcome.stderr
    return folder


def test_every_page_is_in_the_navigation(site: Path) -> None:
    menu = (site / "index.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix("").as_posix().removesuffix("index")
        assert (site / place / "index.html").is_file(), page
        assert not place or f'href="{place.rstrip("/")}/"' in menu, page


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages, styles = list(site.rglob("*.html")), list(site.rglob("*.css"))
    loaded = [(page, url) for page in pages for url in LOADED.findall(page.read_text(encoding="utf-8"))]
    loaded += [(style, url) for style in styles for url in LOADED_BY_STYLE.findall(style.read_text("utf-8"))]
    assert len(loaded) > 5 * len(pages), "scripts and styles are found at all"
    elsewhere = {url for _, url in loaded if urlsplit(url).netloc}
    assert not elsewhere


def test_the_api_shows_public_classes_with_their_arguments(site: Path) -> None:
    shown = {
        page.stem: (site / "api" / page.stem / "index.html").read_text(encoding="utf-8")
        for page in (ROOT / "docs" / "api").glob("*.md")
        if page.stem != "index"
    }
    headings = {name: len(re.findall(r'class="doc doc-heading"', text)) for name, text in shown.items()}
    assert all(headings.values()), headings
    assert "placerl.primitives.sum_tree.create" in shown["sum_tree"]
    assert "Parameters:" in shown["replay"]


def test_each_broken_link_is_a_warning_and_fails_the_build(tmp_path: Path) -> None:
    """Otherwise no test of this file says anything about links."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    here = (
        settings.replace("paths: [.]", f"paths: [{ROOT}]")
        .replace(" harness/", f" {ROOT}/harness/")
        .replace("[harness/", f"[{ROOT}/harness/")
    )
    (tmp_path / "mkdocs.yml").write_text(here, encoding="utf-8")
    broken = ("nowhere.md", "numbers.md#nowhere", "../pyproject.toml")
    text = "\n".join(f"[x]({link})" for link in broken)
    (tmp_path / "docs" / "start.md").write_text(f"# Start\n\n{text}\n", encoding="utf-8")
    outcome = build(tmp_path, tmp_path / "site")
    assert outcome.returncode != 0
    warnings = [line for line in outcome.stderr.splitlines() if line.startswith("WARNING")]
    assert [link for link in broken if not any(f"'{link}'" in line for line in warnings)] == []


def test_the_page_of_options_has_tables_of_three_columns(site: Path) -> None:
    text = (site / "options" / "index.html").read_text(encoding="utf-8")
    assert "<td><code>--fail-on &lt;worse|changed&gt;</code></td>" in text
    rows = re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)
    assert len(rows) > 150
    assert {row.count("<td") or row.count("<th") for row in rows} == {3}
