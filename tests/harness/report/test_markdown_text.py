"""Text that others wrote is shown as it stands on a page in Markdown."""

import re
import unicodedata
from dataclasses import replace
from xml.etree import ElementTree

import markdown
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from placerl.harness.report import headline
from placerl.harness.report.markdown_text import code, escaped, printable
from placerl.harness.report.text_tables import TextTable, as_latex, as_markdown
from placerl.harness.store import reference

HOSTILE = (
    "![x](http://127.0.0.1/beacon.png)",
    "[a](javascript:alert(1))",
    "[a] [b][c]: //x.example",
    "<img src=x onerror=alert(1)>",
    "</td></table><script>alert(1)</script>",
    "<http://x.example>",
    "&lt;b&gt; &#60;i&#62; AT&T; &",
    "a | b \\| c \\\\| d \\",
    "`a` ``b| `",
    "*a* **b** _c_ __d__ e_f ~~g~~ ~h~ $x^2$",
    "{: onclick=alert(1)} {{7*7}}{%raw%}",
    "see https://x.example, www.x.example or a@x.example",
    "\u202egnp.exe \u2066 \u200b \x00\x02\x1b[31m\u2028",
    "a\r\n\n| b |\n# c",
)
PARTS = st.sampled_from(
    [
        *"[]()!<>&;:#|`\\*_~${}@/\"'=-+. \n\t\r\x02\x7f\u202e\u200b",
        "a",
        "b1",
        "é",
        "://",
        "www.",
        "&lt",
        "http",
    ]
)
TEXTS = st.one_of(st.lists(PARTS, max_size=24).map("".join), st.text(max_size=20), st.sampled_from(HOSTILE))
GITHUB = MarkdownIt("commonmark").enable(["table", "strikethrough"])
TABLE = ["page", "h2", "table", "thead", "tr", "th", "th", "tbody", "tr", "td", "td"]
SHOWN = {"text", "text_special"}


def spaced(text: str) -> str:
    """Return the text as a page shows it, where several spaces are one."""
    return " ".join(text.split())


def cells(source: str) -> list[str]:
    """Return the text of each cell of the one table, rendered as GitHub does; its cells must hold text alone."""
    found = []
    for token in GITHUB.parse(source):
        assert token.type != "html_block"
        if token.type == "inline":
            children: list[Token] = token.children or []
            assert {child.type for child in children} <= SHOWN, children
            found.append(spaced("".join(child.content for child in children)))
    return found[1:]  # after the title


@given(first=TEXTS, second=TEXTS)
@example(first=HOSTILE[0], second=HOSTILE[1])
@example(first="![x]", second="(http://x.example)")
def test_every_cell_of_a_table_is_its_text_and_nothing_more(first: str, second: str) -> None:
    source = as_markdown(TextTable("t", "T", ("one", "two"), ((first, (second, "end")),), "placerl run"))
    assert cells(source) == ["one", "two", *(spaced(printable(t)) for t in (first, f"{second}; end"))]


@given(text=TEXTS)
@example(text="a | b \\| c")
def test_the_site_shows_every_cell_as_its_text(text: str) -> None:
    source = as_markdown(TextTable("t", "T", ("one", "two"), ((text, "end"),), "placerl run"))
    page = ElementTree.fromstring(
        f"<page>{markdown.markdown(source, extensions=['tables', 'attr_list'])}</page>"
    )
    assert [each.tag for each in page.iter()] == TABLE
    assert all(not each.attrib for each in page.iter())
    assert [spaced(each.text or "") for each in page.iter("td")] == [spaced(printable(text)), "end"]


@given(text=TEXTS)
def test_text_within_a_line_is_text_alone(text: str) -> None:
    (paragraph,) = (t for t in GITHUB.parse(f"On {escaped(text)}.") if t.type == "inline")
    children = paragraph.children or []
    assert {child.type for child in children} <= SHOWN
    assert spaced("".join(child.content for child in children)) == spaced(f"On {printable(text)}.")


@given(text=TEXTS)
def test_code_holds_the_text_alone(text: str) -> None:
    (paragraph,) = (t for t in GITHUB.parse(f"revision {code(text)}.") if t.type == "inline")
    shown = [child for child in paragraph.children or [] if child.content]
    wanted = printable(text).strip(" ")
    assert [child.type for child in shown] == (["text", "code_inline", "text"] if wanted else ["text"])
    assert not wanted or shown[1].content == wanted


@given(text=TEXTS)
def test_no_format_holds_a_hidden_character(text: str) -> None:
    table = TextTable("t", "T", ("one",), ((text,),), "placerl run")
    for made in (as_markdown(table), as_latex(table), code(text)):
        hidden = {c for c in made if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
        assert hidden <= {"\n"}


@pytest.mark.parametrize("text", ["https://x.example", "www.x.example", "WWW.x.example", "a@x.example"])
def test_an_address_is_no_link_on_github(text: str) -> None:
    assert not re.search(r"://|www\.|@", escaped(text), re.IGNORECASE)


@pytest.mark.parametrize(
    "text", ["2,160/s [2,138, 2,182] (measured)", "sum_tree.sample", "a: b, c-d #1 (e)!"]
)
def test_usual_text_stays_readable_in_the_source(text: str) -> None:
    assert escaped(text) == text


def test_pages_of_a_reference_run_show_what_a_stranger_wrote_as_text() -> None:
    committed = next(iter(reference.load()))
    content = headline.content_of(committed)
    hostile = "![x](http://x.example) <img src=x> `"
    run = replace(
        committed.run,
        tier=hostile,
        revision="`" * 3 + "<i>",
        fingerprint=hostile,
        machine=committed.run.machine | {"cpu": {"model": hostile}},
    )
    content = replace(content, run=run)
    for source in (
        headline.results(content, "n", []),
        headline.verdicts(content, replace(committed, run=run)),
    ):
        assert "![x](http" not in re.sub(r"(`+).*?(?<!`)\1(?!`)", "", source)
        found = [child for token in GITHUB.parse(source) for child in token.children or []]
        assert {child.type for child in found} <= {*SHOWN, "code_inline", "link_open", "link_close"}
        links = {child.attrs["href"] for child in found if child.type == "link_open"}
        assert links <= {"docs/results/n.md", "docs/results/verdicts.md", "../verdicts.md"}
