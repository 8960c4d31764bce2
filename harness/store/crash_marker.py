"""Remembers across crashes which cell (piece of a plan) is being measured, in a file next to the store.

A cell that crashes the process again and again can thus be given up (`MAX_CRASHES`).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MAX_CRASHES = 4
"""A cell in which the process crashed this many times in a row is recorded as failed, so that others can follow.

A user who kills a run also crashes it, so the number allows for a few kills of a cell that can be measured.
"""

_LONGEST = 100_000  # characters; a longer file was not written here


@contextmanager
def crash_marker(store: Path, cell: str) -> Iterator[int]:
    """Mark a cell as being measured for the duration of a `with` block.

    The mark is a file next to the store. It is removed when the block ends, also by an exception, and remains if
    the process crashes.

    Args:
        store: the store's file.
        cell: the cell's key.

    Yields:
        The number of times in a row that the process has crashed in this cell before.
    """
    path = store.with_name(f"{store.name}-in-hand")
    deaths = _deaths(path, cell)
    with suppress(OSError):  # on a full disk the cell itself reports the error
        path.write_text(json.dumps({"cell": cell, "deaths": deaths + 1}))
    try:
        yield deaths
    finally:
        with suppress(OSError):
            path.unlink()


def _deaths(path: Path, cell: str) -> int:
    try:
        with path.open() as file:
            noted = json.loads(file.read(_LONGEST))
        return int(noted["deaths"]) if noted["cell"] == cell else 0
    # None or unexpected content (infinity, deep brackets): no crashes are known.
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return 0
