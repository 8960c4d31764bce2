"""A cache on disk for files that take long to make. A file's name holds a hash of everything it was made
from.

Several processes may ask for one file at the same time: one makes it and the others wait. A file that a
killed process left half written is never used; the next process that makes the file removes it.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

CACHE_VARIABLE = "PLACERL_CACHE"


def folder() -> Path:
    """Return the folder of the cache.

    It is `$PLACERL_CACHE`, or else `placerl` in the user's cache folder (`$XDG_CACHE_HOME`, `~/.cache`). The path is
    absolute, since a tool that makes a file may run in another folder.
    """
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "placerl"


def key(*parts: str) -> str:
    """Return a hash of several texts, for use in the name of a cached file.

    Args:
        parts: everything that the file's content depends on, such as sources and settings.
    """
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(f"{len(encoded)}:".encode() + encoded)
    return digest.hexdigest()[:32]


def made(name: str, make: Callable[[Path], None]) -> Path:
    """Return the path of the cached file `name`; if it does not exist, `make(path)` writes it first.

    Args:
        name: file name that contains a `key`, so that different contents have different names.
        make: writes the file at the path it is given; the path's folder is new, empty and used by this call
            only.
    """
    path = folder() / name
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(f"{path.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the system releases it when this process ends, however it ends
        if not path.exists():
            for left_over in path.parent.glob(f"{path.name}.unfinished-*"):
                shutil.rmtree(left_over, ignore_errors=True)
            # A new folder each time: a tool that outlived its killed caller may still write into the old one.
            workplace = Path(tempfile.mkdtemp(prefix=f"{path.name}.unfinished-", dir=path.parent))
            make(workplace / path.name)
            os.replace(workplace / path.name, path)
            shutil.rmtree(workplace)
    return path
