"""Creates, checks and opens the SQLite file of a store, and explains its errors."""

import os
import sqlite3
import stat
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path

from placerl.harness.core.errors import UserError
from placerl.harness.store import migration, tables

APPLICATION_ID = 0x504C524C  # "PLRL"
SCHEMA_VERSION = tables.VERSION
_LONGEST_CELL_BYTES = 64 * 1024 * 1024  # refuses huge values in a hostile file
LARGEST_STORE_BYTES = 4 * 1024**3  # about 900 quick runs of 4.6 MB; the whole file is read into memory
_BESIDE = ("-draft", "-writer", "-in-hand", "-journal", "-wal", "-shm")
"""Suffixes of files next to a store: the draft, the writer's lock, the crash marker, and SQLite's of older versions."""
_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""Last bytes of a journal that names another file, which SQLite may delete; no version of this program wrote one."""


@contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the operating system, raised in a `with` block, into a `UserError` about `path`."""
    try:
        yield
    except sqlite3.ProgrammingError:  # a closed store or another thread: an error of the code
        raise
    except sqlite3.OperationalError as error:
        # Errors that Python's module raises itself, such as text that is not UTF-8, have no code.
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:
            raise UserError(path, "store", str(error), "an undamaged PlaceRL store") from error
        if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise UserError(path, "store", "locked by another process", "one writer at a time") from error
        raise UserError(path, "store", str(error), "a file that can be read and written") from error
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise UserError(path, "store", str(error), "an undamaged PlaceRL store") from error
    except OSError as error:
        found = error.strerror or str(error)
        if isinstance(error, FileExistsError | NotADirectoryError):
            found = "a file where the folder should be"
        named = Path(error.filename or path)
        where = path if named.parent == path.parent else named  # not the name of a temporary file
        raise UserError(where, "store", found, "a folder and file that can be written") from error


def connect(path: Path, mode: str, timeout_s: float = 0.0) -> sqlite3.Connection:
    """Return a connection to a store's file.

    Args:
        path: the file, which must exist.
        mode: "ro&immutable=1" to read a file that nobody changes, or "rw" to read and write.
        timeout_s: how long a call waits for another process that has locked the file.
    """
    # Python must not begin transactions: `draft` sets where each begins and ends.
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    database = sqlite3.connect(uri, uri=True, timeout=timeout_s, isolation_level=None)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_CELL_BYTES)
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA foreign_keys = ON")
    return database


def check_files(path: Path) -> None:
    """Check the size of a store, and that the files next to it are plain files.

    SQLite and this program write to files next to the store; a link in their place would redirect the writes.

    Raises:
        UserError: the store is larger than `LARGEST_STORE_BYTES`, or a file next to it is not a plain file, or is a
            journal that names other files.
    """
    size_bytes = path.stat().st_size
    if size_bytes > LARGEST_STORE_BYTES:
        raise UserError(path, "store", f"{size_bytes} bytes", f"at most {LARGEST_STORE_BYTES} bytes")
    for file in {path, path.resolve()}:
        for suffix in _BESIDE:
            beside = file.with_name(f"{file.name}{suffix}")
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(beside.lstat().st_mode):
                    raise UserError(beside, "store", "a link, or something that is no file", "a plain file")
    journal = path.resolve().with_name(f"{path.resolve().name}-journal")
    with suppress(FileNotFoundError), journal.open("rb") as content:
        content.seek(-min(len(_SUPER_JOURNAL), journal.stat().st_size), os.SEEK_END)
        if content.read() == _SUPER_JOURNAL:
            raise UserError(journal, "journal", "one that names other files", "a journal of this store alone")


def check_header(path: Path) -> bool:
    """Check that a file is a store of a known schema version, without changing it or any file next to it.

    Returns:
        Whether the file says that a part of its content may be in a `-wal` file, as older versions wrote it.

    Raises:
        UserError: the file is not a store, or has an unknown schema version.
    """
    with path.open("rb") as file:
        header = file.read(100)
    if header[:16] != b"SQLite format 3\0" or int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise UserError(
            path,
            "store",
            "a file that is no PlaceRL store",
            "a PlaceRL store, or for writing a new file name; `placerl merge NAME.json` makes one of a committed run",
        )
    version = int.from_bytes(header[60:64], "big", signed=True)
    if version not in (migration.VERSION, SCHEMA_VERSION):
        allowed = f"{migration.VERSION} or {SCHEMA_VERSION}; keep this file and choose another name"
        raise UserError(path, "schema version", version, allowed)
    return 2 in header[18:20]


def check_length(path: Path) -> None:
    """Check that a whole store has all of its pages; SQLite reads those that a cut took off only when they are needed.

    Raises:
        UserError: the file was cut short.
    """
    with path.open("rb") as file:
        header = file.read(100)
    page_bytes = int.from_bytes(header[16:18], "big")
    page_bytes = 1 << 16 if page_bytes == 1 else page_bytes
    if path.stat().st_size < page_bytes * int.from_bytes(header[28:32], "big"):
        raise UserError(path, "store", "a file that was cut short", "an undamaged PlaceRL store")


@cache
def _old_schema() -> list[tuple[str, str | None]]:
    with closing(sqlite3.connect(":memory:")) as reference:
        reference.executescript(migration.SCHEMA)
        return tables.schema_of(reference)


def is_old(database: sqlite3.Connection) -> bool:
    """Return whether a store has the schema before this version's."""
    return bool(database.execute("PRAGMA user_version").fetchone() == (migration.VERSION,))


def check_schema(path: Path, database: sqlite3.Connection) -> None:
    """Check that a store has only tables that this program makes, since a trigger, for example, could do anything.

    Raises:
        UserError: the store's tables, indices or triggers are not those of its version.
    """
    try:
        if not is_old(database):
            tables.stored_kinds(database)
        elif tables.schema_of(database) != _old_schema():
            raise ValueError("an old store")
    except ValueError:
        raise UserError(
            path, "store", "other tables than a PlaceRL store has", "an unaltered PlaceRL store"
        ) from None


def create_if_missing(path: Path) -> None:
    """Create an empty store at `path`, and its folder, unless the file exists.

    The file appears in one atomic step: no reader sees half of a store, and a kill does not leave one.
    """
    if os.path.lexists(path):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    new = sqlite3.connect(":memory:")
    try:
        new.executescript(tables.SCHEMA)
        new.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        new.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        content = new.serialize()
    finally:
        new.close()
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.new")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was faster; its store is equally good
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def valid_content(path: Path) -> Iterator[None]:
    """Turn content that a valid store would not hold into a `UserError`."""
    try:
        yield
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(path, "store content", error, "what this program wrote") from error
