"""The error that a user can mend: one line with file, field, what was found, what is allowed."""

_LONGEST_PART = 300


def _one_line(text: object) -> str:
    """`text` without line breaks or control characters, cut to a readable length."""
    start = str(text)[: _LONGEST_PART + 1]  # what a stranger wrote may be of any length
    clean = "".join(c if c.isprintable() else repr(c)[1:-1] for c in start)
    return clean if len(clean) <= _LONGEST_PART else f"{clean[:_LONGEST_PART]}..."


class UserError(Exception):
    """Bad input or a bad place to write; the command line prints it as one line and exits with status 2.

    Args:
        source: the file, folder or option that the input came from.
        field: what in it is wrong, as a path (`replay.capacity`) where there is one.
        found: what was found there.
        allowed: what is allowed there.
    """

    def __init__(self, source: object, field: object, found: object, allowed: object) -> None:
        self.source = _one_line(source)
        self.field = _one_line(field)
        self.found = _one_line(found)
        self.allowed = _one_line(allowed)
        super().__init__(self.source, self.field, self.found, self.allowed)

    def __str__(self) -> str:
        return f"{self.source}: {self.field}: found {self.found}; allowed: {self.allowed}"
