"""Remembers across crashes how often the process crashed in each cell of a run, in a file next to the store.

A cell (a piece of a plan) that crashes the process again and again can thus be given up (`MAX_CRASHES`).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from placerl.harness.core.errors import UserError
from placerl.harness.core.files import write_atomically

MAX_CRASHES = 4
"""A cell in which the process crashed this many times in a row is recorded as failed, so that others can follow.

A user who kills a run also crashes it, so the number allows for a few kills of a cell that can be measured.
"""

_LONGEST = 100_000  # characters; a longer file was not written here


@contextmanager
def crash_marker(store: Path, run: str, cell: str) -> Iterator[int]:
    """Mark a cell as being measured for the duration of a `with` block.

    The mark is an entry of a file next to the store, which holds the number of crashes of each cell. The cell's entry
    is removed when the block ends, also by an exception, and remains if the process crashes. Entries of other cells and
    runs are kept: a cell that is measured first on every restart must not erase the crashes in a later one.

    Args:
        run: the run's key; in a new run, such as one of another revision, a cell starts without crashes.

    Yields:
        The number of times in a row that the process has crashed in this cell before.
    """
    path = store.with_name(f"{store.name}-in-hand")
    entry, others = f"{run}/{cell}", _deaths(path)
    earlier = others.pop(cell, 0)  # from a version that did not note the run
    deaths = others.pop(entry, earlier)
    _write(path, {**others, entry: deaths + 1})
    try:
        yield deaths
    finally:
        _write(path, others)


def _write(path: Path, deaths: dict[str, int]) -> None:
    text = json.dumps({"deaths": deaths})
    with suppress(OSError, UserError):  # on a full disk the cell itself reports the error
        if deaths:
            write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
        else:
            path.unlink(missing_ok=True)


def _deaths(path: Path) -> dict[str, int]:
    """Return the number of crashes by run and cell; also from a file of an earlier version, which held one cell."""
    try:
        with path.open() as file:
            noted = json.loads(file.read(_LONGEST))
        deaths = {noted["cell"]: noted["deaths"]} if "cell" in noted else noted["deaths"]
        return {str(cell): int(count) for cell, count in deaths.items()}
    # None or unexpected content (infinity, deep brackets): no crashes are known.
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return {}
