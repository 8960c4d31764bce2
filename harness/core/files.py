"""Writes files so that no reader sees an incomplete file."""

import os
import shutil
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


def check_writable_file(path: Path) -> None:
    """Report a file that `write_atomically` cannot write before a measurement, and not after it.

    Raises:
        UserError: it is a folder, or its folder cannot be created or written.
    """
    _refuse_folder(path, "--out")
    if not _takes_bytes(path):
        check_writable(path.parent)


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file next to `path` and then move it there, so that no reader sees an incomplete file.

    Behind a link, the file that it names is replaced. A device or a pipe stays, and takes what is written.

    Args:
        path: the file; its folder is created if it does not exist.

    Raises:
        UserError: it is a folder, or its folder cannot be written.
    """
    _refuse_folder(path, "file")
    try:
        if _takes_bytes(path):
            _write_into(path, write)
            return
        path = path.resolve()
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


def _refuse_folder(path: Path, field: str) -> None:
    if path.is_dir():
        raise UserError(path, field, "a folder", "the path of a file")


def _takes_bytes(path: Path) -> bool:
    """Return whether a path is there and is no regular file, such as a device or a pipe."""
    return path.exists() and not path.is_file()


def _write_into(path: Path, write: Callable[[Path], object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, path.name)
        write(written)
        with written.open("rb") as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)
