"""Defines the errors that the command line shows in one line.

A user's mistake names file, field, what was found and what is allowed; what cannot be run here says why.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST_PART = 300
_NAME = re.compile(r"[\w:./#-]*[a-zA-Z][\w:./#-]*")
_BETWEEN = re.compile(r"[,;]\s+|,?\s+or\s+")
_MOST_NAMES = 10_000


def _one_line(text: object) -> str:
    """Return `text` without line breaks or control characters, cut to a readable length."""
    start = str(text)[: _LONGEST_PART + 1]  # untrusted text may be of any length
    clean = "".join(c if c.isprintable() else repr(c)[1:-1] for c in start)
    return clean if len(clean) <= _LONGEST_PART else f"{clean[:_LONGEST_PART]}..."


def closest(name: object, names: Iterable[str]) -> str:
    """Return the one of `names` that a misspelt `name` probably means.

    Returns:
        The name; "" if none is similar, if `name` is not a single word, or if it is spelt correctly.
    """
    typed = str(name)[: _LONGEST_PART + 1].strip("'\"")
    known = {each.lower(): each for each in names}
    if not _NAME.fullmatch(typed) or len(typed) > _LONGEST_PART:
        return ""
    found = get_close_matches(typed.lower(), known, n=1)
    return known[found[0]] if found and known[found[0]] != typed else ""


def _listed(allowed: object) -> list[str]:
    """Return the names that a text such as "a, b or c" lists."""
    words = _BETWEEN.split(str(allowed)[: 100 * _LONGEST_PART], maxsplit=_MOST_NAMES)
    return [word for word in words if _NAME.fullmatch(word)]


class UserError(Exception):
    """A user's mistake, in the input or in a path to write to.

    For this error the command line prints one line and exits with status 2.

    Args:
        source: the file, folder or option that is wrong.
        field: the wrong field, as a path such as `replay.capacity`; empty if there is none.
        found: the value found there.
        allowed: what is allowed there. If it lists names and one is similar to the value found, the message ends
            by suggesting that name.
        name: the name that may be misspelt; by default the value found.
        names: the names that may have been meant; by default those that `allowed` lists.

    Attributes:
        meant: the name that was probably meant; empty if none is similar.
    """

    def __init__(
        self,
        source: object,
        field: object,
        found: object,
        allowed: object,
        *,
        name: object = None,
        names: Iterable[str] | None = None,
    ) -> None:
        self.source = _one_line(source)
        self.field = _one_line(field)
        self.found = _one_line(found)
        self.allowed = _one_line(allowed)
        self.meant = closest(found if name is None else name, _listed(allowed) if names is None else names)
        super().__init__(self.source, self.field, self.found, self.allowed)

    def __str__(self) -> str:
        line = f"{self.source}: {self.field}: found {self.found}; allowed: {self.allowed}"
        return f"{line}; did you mean {self.meant}?" if self.meant else line


class NotRunError(Exception):
    """The base class of errors that say why something cannot be run here; the command line prints them in one line."""
