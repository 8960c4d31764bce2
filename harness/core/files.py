"""Writes files so that no reader sees an incomplete file."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from placerl.harness.core.errors import UserError


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
