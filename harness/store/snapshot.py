"""Opens a store for reading: as it is now, whatever is written later and however its last writer ended.

A store is never changed in place (`harness.store.draft`), so a reader needs no lock, no journal and no right to write.

Earlier versions changed it in place. If one of them was killed, a part of the store's content is in a file next to
it: a `-wal` file, or a `-journal` that must be rolled back. Readers let SQLite do that in a copy of their own.
"""

import shlex
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from placerl.harness.core.errors import UserError
from placerl.harness.store import migration
from placerl.harness.store.file import (
    check_header,
    check_length,
    check_schema,
    connect,
    is_old,
    valid_content,
)

_TRIES = 20
State = tuple[int, int, int]


def state(path: Path) -> State:
    """Return what differs between two states of a file, without reading it: its inode, length and time of change."""
    stat = path.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def leftovers(path: Path) -> list[Path]:
    """Return the files next to a store that hold a part of its content; none but after a kill of an older version.

    Args:
        path: the store's file, not a link to it.

    Raises:
        UserError: the store is not whole without a file that is missing, or the file next to it is another store's.
    """
    journal, wal = (path.with_name(f"{path.name}{suffix}") for suffix in ("-journal", "-wal"))
    in_wal = check_header(path)
    if journal.exists():
        return [journal]
    if in_wal and not wal.exists():
        # It may be whole: a kill after SQLite had removed the -wal file leaves the same header.
        statement = f"import sqlite3; sqlite3.connect({path.name!r}).execute('PRAGMA journal_mode=DELETE')"
        accept = f"python -c {shlex.quote(statement)}"
        allowed = f"the file together with its {wal.name}; if there is none, `{accept}` accepts what is here"
        raise UserError(path, "store", "a copy that may lack finished cells", allowed)
    if not in_wal and wal.exists() and wal.stat().st_size:
        raise UserError(
            wal, "store", "a file of another store", f"none next to this {path.name}; move it away"
        )
    return [wal] if in_wal else []


def snapshot(path: Path) -> sqlite3.Connection:
    """Return a connection that reads the store at `path` as it is now; later changes of the file do not show.

    A store of the schema before is read as one of this schema (`migration`); the file stays as it is.

    Raises:
        UserError: the file is not a store, or not a whole one.
        OSError: a file cannot be read, or no temporary folder written.
    """
    path = path.resolve()
    for _ in range(_TRIES):
        beside = leftovers(path)
        if not beside:
            return _immutable(path)
        with TemporaryDirectory(prefix="placerl-store-") as folder, suppress(FileNotFoundError):
            files = [path, *beside]
            before = [state(file) for file in files]
            for file in files:
                shutil.copyfile(file, Path(folder) / file.name)
            if [state(file) for file in files] == before:
                return _recovered(Path(folder) / path.name)
    raise UserError(path, "store", "locked by another process that writes to it", "one writer at a time")


def _recovered(path: Path) -> sqlite3.Connection:
    with closing(connect(path, "rw")) as database:
        database.execute("PRAGMA journal_mode = DELETE")
    return _immutable(path)  # which stays readable when the folder is removed


@contextmanager
def _closed_on_error(database: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        database.close()
        raise


def _immutable(path: Path) -> sqlite3.Connection:
    check_length(path)
    database = connect(path, "ro&immutable=1")
    with _closed_on_error(database):
        check_schema(path, database)
        return _upgraded(path, database) if is_old(database) else database


def _upgraded(path: Path, old: sqlite3.Connection) -> sqlite3.Connection:
    """Return a copy in memory, of this schema, and close the connection to the store of the schema before."""
    copy = sqlite3.connect(":memory:", isolation_level=None)
    with _closed_on_error(copy):
        with closing(old):
            old.backup(copy)
        with valid_content(path):
            migration.upgrade(copy)
    return copy
