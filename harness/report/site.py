"""Writes the report as HTML files that need no server and no network.

There is an `index.html` with the answers to what a reader asks first, one page per question, one per paper, and one
per claim, a statement of a paper that is checked. If a store holds runs of several machines, the report has one part
per machine.
"""

from collections.abc import Sequence
from pathlib import Path

from placerl.harness.core.errors import UserError
from placerl.harness.core.files import write_atomically
from placerl.harness.report import pages
from placerl.harness.report.content import Content
from placerl.harness.report.reading import read_all
from placerl.harness.store import reference


def write(store: Path, folder: Path, references: Path | None = None) -> tuple[Path, Content]:
    """Write the report on a store: the pages of its last run's machine, and a folder of pages for each other machine.

    Args:
        folder: output folder; created if it does not exist.
        references: folder of reference runs; if it is given, one more page shows what changed since one of them.

    Raises:
        UserError: the store does not exist, a reference is damaged, no other run than this one is a reference, or the
            folder cannot be written.
    """
    first, *others = read_all(store, reference.load(references) if references else ())
    if references and first.run and first.reference is None:
        allowed = "a folder with a reference run other than this one, such as results/reference"
        raise UserError("command line", "--compare", references, allowed)
    for content in others:
        _write_platform(folder / pages.PLATFORMS / content.slug, content, home="../../")
    return _write_platform(folder, first, others), first


def _write_platform(folder: Path, content: Content, others: Sequence[Content] = (), home: str = "") -> Path:
    above = f"../{home}" if home else ""
    figures = pages.papers_figures(content)
    for key, page in pages.render_claims(content, figures, above):
        _write(folder / "claims" / f"{key}.html", page)
    for key, page in pages.render_papers(content, figures, above):
        _write(folder / "papers" / f"{key}.html", page)
    for name in reversed(pages.pages_of(content)):  # the first page last: it links to the others
        written = _write(folder / f"{name}.html", pages.render(content, name, others, home))
    return written


def _write(path: Path, page: str) -> Path:
    write_atomically(path, lambda target: target.write_text(page, encoding="utf-8"))
    return path
