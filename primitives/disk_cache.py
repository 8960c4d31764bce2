"""Files that take long to make, kept on disk under a hash of all that went into them.

Several processes may ask for one file at once: one makes it, the others wait. What a killed process left half
made is never taken for whole, and is removed by the next one that makes that file.
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
    """`$PLACERL_CACHE`, else `placerl` in the user's cache folder (`$XDG_CACHE_HOME`, `~/.cache`)."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "placerl"


def key(*parts: str) -> str:
    """A name for what is made of `parts` and nothing else."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(f"{len(encoded)}:".encode() + encoded)
    return digest.hexdigest()[:32]


def made(name: str, make: Callable[[Path], None]) -> Path:
    """The cached file `name`; where there is none, `make(path)` writes it first.

    Args:
        name: file name with a `key` in it, so that another content has another name.
        make: writes the file at the path given, whose folder is new, empty and its own.
    """
    path = folder() / name
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(f"{path.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # given back by the system when this process ends, however it ends
        if not path.exists():
            for left_over in path.parent.glob(f"{path.name}.unfinished-*"):
                shutil.rmtree(left_over, ignore_errors=True)
            # A new folder each time: a tool that outlived its killed caller may still write into the old one.
            workplace = Path(tempfile.mkdtemp(prefix=f"{path.name}.unfinished-", dir=path.parent))
            make(workplace / path.name)
            os.replace(workplace / path.name, path)
            shutil.rmtree(workplace)
    return path
