"""Changes a store by replacing its file: a draft, a changed copy, takes the name in one step once it is on the disk.

At every moment, and after a kill at any moment, the file is therefore a whole store with every cell that was
acknowledged. So is each copy of it, also one that is made during a change: it reads the old file or the new one.
The price is that each change writes the whole file.
"""

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from placerl.harness.store.file import connect
from placerl.harness.store.snapshot import leftovers, state

_COPIED_BYTES = 1 << 20


@contextmanager
def draft(path: Path, timeout_s: float) -> Iterator[sqlite3.Connection]:
    """Provide a connection for a `with` block that changes a store: all of it at the end, or nothing if it raises.

    Args:
        path: the store's file, not a link to it. The caller is the only process that changes it (`WriterLock`).
        timeout_s: how long to wait for another program that has locked the file through SQLite.

    Raises:
        UserError: the store is not whole (`leftovers`).
        sqlite3.Error, OSError: the draft cannot be written, or the store is locked.
    """
    new = path.with_name(f"{path.name}-draft")
    # Closing a file gives up the locks that this process holds on it, so it stays open until the end.
    with closing(_locked(path, timeout_s)), path.open("rb") as old:
        try:
            new.unlink(missing_ok=True)  # of a writer that was killed
            with open(new, "xb", opener=_private) as copy:  # the store itself may be private
                _copy(old, copy)
            _own_as(path.stat(), new)
            shutil.copystat(path, new)
            with closing(connect(new, "rw")) as database:
                database.execute("PRAGMA journal_mode = MEMORY")  # a draft that fails is thrown away
                database.execute("PRAGMA synchronous = OFF")  # `_flush` waits for the disk, once
                database.execute("BEGIN")
                yield database
                database.execute("COMMIT")
                changed = database.total_changes > 0
            if changed:
                _flush(new)
                new.replace(path)
            else:
                new.unlink()
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        _flush(path.parent)


def _locked(path: Path, timeout_s: float) -> sqlite3.Connection:
    """Return a connection that holds SQLite's lock on the store, after SQLite has taken in what a kill left next to it.

    The lock keeps out other programs that use SQLite, and other stores that this process has open on the file.
    """
    while True:
        leftovers(path)
        before = state(path)
        database = connect(path, "rw", timeout_s)
        try:
            database.execute("PRAGMA journal_mode = DELETE")
            database.execute("BEGIN IMMEDIATE")
            if state(path)[0] == before[0]:
                return database
        except BaseException:
            database.close()
            raise
        database.close()  # another thread has replaced the file meanwhile


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _copy(old: BinaryIO, new: BinaryIO) -> None:
    """Copy a file into an empty one, by the kernel where it can: that takes a third of the time.

    On file systems whose files can share blocks (XFS, Btrfs), nothing is copied.
    """
    with suppress(OSError):  # what a file system or an old kernel does not support is done by the rest
        while os.copy_file_range(old.fileno(), new.fileno(), _COPIED_BYTES):
            pass
    shutil.copyfileobj(old, new, _COPIED_BYTES)


def _own_as(wanted: os.stat_result, new: Path) -> None:
    """Give a file the owner and group of another, as far as this user may: root must not take a user's store."""
    given = new.stat()
    if (wanted.st_uid, wanted.st_gid) == (given.st_uid, given.st_gid):
        return
    for owner in (wanted.st_uid, -1):
        with suppress(OSError):
            os.chown(new, owner, wanted.st_gid)
            return


def _flush(path: Path) -> None:
    """Wait until a file or folder is on the disk; not for folders of file systems that cannot say (CIFS)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(descriptor)
