"""Mark the cell being measured in a file next to the store, so that a cell that crashes the process is given up."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MAX_CRASHES = 4
"""A cell in which the process crashed this many times in a row is recorded as failed, so that the others are
measured.

The number is high enough that a user may kill a run several times without making a measurable cell fail.
"""

_LONGEST = 100_000  # characters; a longer file was not written here


@contextmanager
def crash_marker(store: Path, cell: str) -> Iterator[int]:
    """Mark a cell as being measured during the block; the mark remains after a crash of the process, not after an
    exception.

    Args:
        store: the store's file.
        cell: the cell's key.

    Yields:
        How many times in a row the process has crashed in this cell before.
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
