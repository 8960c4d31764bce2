"""Writes text into Markdown so that it is shown as it stands, whoever wrote it.

A store may come from a stranger, and a machine names its own processor: such text must not become a link, an image,
HTML, a formula or another cell on the page that shows it.
"""

import re
import unicodedata

_HIDDEN = (
    "Cc",
    "Cf",
    "Cs",
    "Zl",
    "Zp",
)  # Unicode's categories of what is not seen, such as marks of direction
# Backslashes where every renderer knows them; references, which none takes for syntax, where one does not.
_SYNTAX = re.compile(
    r"[\\`*{|]"  # code, emphasis, attributes, templates and cells
    r"|\](?=[(\[])|\A\[(?=[^\]]*\]:)"  # the end of a link's text; where the line begins, its definition
    r"|(?<![^\W_])_|_(?![^\W_])"  # emphasis; between two letters it is none
    r"|[<$]|&(?=[#\w])"  # HTML, formulas, references
    r"|(?<=.)~|~(?=~)"  # strikethrough, which one mark at the start, as of noise, does not make
    r"|:(?=//)|@|(?<=www)\.",  # GitHub makes links of addresses
    re.IGNORECASE,
)
_BACKSLASH = frozenset("\\`*{|]_")
_NAMED = {"<": "&lt;", "&": "&amp;"}


def hidden(character: str) -> bool:
    """Whether a character is not seen on a page or changes how others are shown, such as an override of direction."""
    return unicodedata.category(character) in _HIDDEN


def printable(text: str) -> str:
    """Return the text in one line, with the number of each hidden character, such as U+202E, in its place."""
    line = re.sub(r"[ \t\r\n]+", " ", text)
    return "".join(f"U+{ord(each):04X}" if hidden(each) else each for each in line)


def escaped(text: str) -> str:
    """Return Markdown that shows the text: for a cell of a table, or within a line.

    Args:
        text: any text; its line ends become spaces, and its hidden characters their numbers.
    """
    return _SYNTAX.sub(lambda match: _escape(match[0]), printable(text))


def _escape(character: str) -> str:
    if character in _BACKSLASH:
        return f"\\{character}"
    return _NAMED.get(character, f"&#{ord(character)};")


def code(text: str) -> str:
    """Return Markdown that shows the text as code, within a line but not in a table; empty if the text is blank."""
    line = printable(text).strip(" ")
    if not line:
        return ""
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    space = " " if "`" in (line[0], line[-1]) else ""
    return f"{fence}{space}{line}{space}{fence}"
