"""Ensures that only one process writes to a file, by a lock that the kernel releases when the process ends."""

import fcntl
import os
import weakref
from contextlib import suppress
from pathlib import Path

from placerl.harness.core.errors import UserError


def _release(path: Path, descriptor: int, owner: int) -> None:
    if os.getpid() != owner:  # a forked child holds no lock and must not remove its parent's file
        return
    # Unlinked while still locked, so that nobody can lock a file that is about to vanish.
    with suppress(OSError):
        path.unlink()
    os.close(descriptor)


class WriterLock:
    """A lock that a process holds while it may write to a file.

    Constructing it takes the lock; calling `release`, or the end of the process for any reason, gives it back. It
    is a POSIX record lock on `<file>-writer`: forked children do not inherit it, and it does not keep threads of
    one process apart.

    Args:
        path: the file to be written, which need not exist.

    Raises:
        UserError: another process holds the lock.
        OSError: the lock file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        beside = path.with_name(f"{path.name}-writer")
        while (descriptor := _try(path, beside)) is None:
            pass
        self.release = weakref.finalize(self, _release, beside, descriptor, os.getpid())


def _try(path: Path, beside: Path) -> int | None:
    """Return the locked file's descriptor; None if the last holder removed the file before it was locked here."""
    descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if beside.stat().st_ino == os.fstat(descriptor).st_ino:
            return descriptor
    except FileNotFoundError:
        pass  # removed after it was opened here
    except (BlockingIOError, PermissionError):
        os.close(descriptor)
        found = "locked by another process that writes to it"
        raise UserError(path, "store", found, "one writer at a time") from None
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
