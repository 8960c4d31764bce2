"""Mark the cell being measured in a file next to the store, so that a cell that crashes the process is given up."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MAX_CRASHES = 4
"""A cell in which the process crashed this many times in a row is recorded as failed; the others get their turn.

High enough that a user who kills a run a few times does not make a cell fail that can be measured."""

_LONGEST = 100_000  # characters; more is not ours


@contextmanager
def crash_marker(store: Path, cell: str) -> Iterator[int]:
    """Mark a cell as being measured until the block ends; the mark outlives a crash of the process, not an exception.

    Args:
        store: the store's file.
        cell: the cell's key.

    Yields:
        How often in a row the process has crashed in this cell before.
    """
    path = store.with_name(f"{store.name}-in-hand")
    deaths = _deaths(path, cell)
    with suppress(OSError):  # on a full disk the cell itself will say so
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
    # None, or not ours (infinity, any depth of brackets): nothing is known.
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return 0
