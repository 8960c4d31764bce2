"""Writes files so that no reader sees an incomplete file."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from placerl.harness.core.errors import UserError


def check_writable(folder: Path) -> None:
    """Report a folder that cannot be written before a measurement, which may take hours, and not after it.

    Raises:
        UserError: the folder cannot be created or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(folder, "--out", error.strerror, "a folder that can be written") from error


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file next to `path` and then move it there, so that no reader sees an incomplete file.

    Args:
        path: the file; its folder is created if it does not exist.

    Raises:
        UserError: the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            temporary.chmod(0o644)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(path, "folder", error.strerror or error, "a folder that can be written") from error
