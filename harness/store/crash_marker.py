"""Remembers beside a store which cell is being measured: one that kills the process must not do so for ever."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MOST_DEATHS = 4
"""A cell that the process died in so many times running is recorded as failed, and the others come to their turn.

More than somebody kills a run in one cell by chance: a cell that can be measured must not come out failed."""

_LONGEST = 100_000  # characters; more is not ours


@contextmanager
def in_hand(store: Path, cell: str) -> Iterator[int]:
    """Notes a cell for as long as it is enclosed; an exception ends that, the process's death does not.

    Args:
        store: the store's file.
        cell: the cell's key.

    Yields:
        How many times running the process has died in this cell.
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
