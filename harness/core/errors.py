"""Defines the errors that the command line shows in one line.

A user's mistake names file, field, what was found and what is allowed; what cannot be run here says why.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

_LONGEST_PART = 300
_LONGEST_ALLOWED = 4000
"""Characters of what is allowed: the names of all workloads, or of all numbers of a platform, are the way out."""
_NAME = re.compile(r"[\w:./#-]*[a-zA-Z][\w:./#-]*")
_BETWEEN = re.compile(r"[,;]\s+|,?\s+or\s+")
_MOST_NAMES = 10_000
COMMAND_LINE = "command line"
"""The source of errors in options."""


def _one_line(text: object, longest: int = _LONGEST_PART) -> str:
    """Return `text` without line breaks or control characters, cut to a readable length."""
    start = str(text)[: longest + 1]  # untrusted text may be of any length
    clean = "".join(c if c.isprintable() else repr(c)[1:-1] for c in start)
    return clean if len(clean) <= longest else f"{clean[:longest]}..."


def _parts(text: object) -> tuple[object, ...]:
    """Return the names of options and the texts between them of which a text of a message consists."""
    parts = text if isinstance(text, tuple) else (text,)
    return tuple(part if isinstance(part, OptionName) else str(part) for part in parts)


def _joined(parts: tuple[object, ...], *, python: bool = False) -> str:
    """Return a text, with the names of options as the command line or as Python has them."""
    return "".join(part.python if python and isinstance(part, OptionName) else str(part) for part in parts)


def closest(name: object, names: Iterable[str]) -> str:
    """Return the one of `names` that a misspelt `name` probably means.

    Returns:
        The name; "" if none is similar, if `name` is not a single word, or if it is spelt correctly.
    """
    typed = str(name)[: _LONGEST_PART + 1].strip("'\"")
    known = {each.lower(): each for each in names}
    if not _NAME.fullmatch(typed) or len(typed) > _LONGEST_PART:
        return ""
    matches = get_close_matches(typed.lower(), known, n=1)
    return known[matches[0]] if matches and known[matches[0]] != typed else ""


def _listed(allowed: object) -> list[str]:
    """Return the names that a text such as "a, b or c" lists."""
    words = _BETWEEN.split(str(allowed)[: 100 * _LONGEST_PART], maxsplit=_MOST_NAMES)
    return [word for word in words if _NAME.fullmatch(word)]


@dataclass(frozen=True)
class OptionName:
    """The name of an option in an error. Each front end has its own word for it: `batch_size` in Python, and
    `--batch-size` on the command line.

    Attributes:
        python: the name in Python.
        flag: the command line's, where that is not the same with hyphens.
    """

    python: str
    flag: str = ""

    def __str__(self) -> str:
        return self.flag or f"--{self.python.replace('_', '-')}"


class UserError(Exception):
    """A user's mistake, in the input or in a path to write to.

    For this error the command line prints one line and exits with status 2.

    Options are named by `OptionName`s, also among words: a tuple of parts is one text. The message has the command
    line's words; `in_python` has those of a function.

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
        self._parts = [_parts(text) for text in (source, field, found, allowed)]
        texts = [_joined(parts) for parts in self._parts]
        self.source, self.field, self.found = map(_one_line, texts[:3])
        self.allowed = _one_line(texts[3], _LONGEST_ALLOWED)
        listed = _listed(texts[3]) if names is None else names
        self.meant = closest(texts[2] if name is None else name, listed)
        super().__init__(self.source, self.field, self.found, self.allowed)

    def in_python(self, function: str) -> "UserError":
        """Return the error as a function raises it: the command line's options are its arguments."""
        source, *rest = self._parts
        of_option = source == (COMMAND_LINE,) or isinstance(source[0], OptionName)
        texts = (_joined(parts, python=True) for parts in rest)
        error = UserError(function if of_option else self.source, *texts)
        error.meant = self.meant
        return error

    def __str__(self) -> str:
        line = f"{self.source}: {self.field}: found {self.found}; allowed: {self.allowed}"
        return f"{line}; did you mean {self.meant}?" if self.meant else line


class NotRunError(Exception):
    """The base class of errors that say why something cannot be run here; the command line prints them in one line."""
