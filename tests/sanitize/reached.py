"""The places in the sources from which an extension has released the interpreter's lock."""

import ctypes
import subprocess
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
_MOST = 1024


def places(extension: ModuleType) -> set[str]:
    """Return, as `file:line`, where this extension of a build with sanitizers has released the lock so far.

    Raises:
        RuntimeError: addr2line failed.
    """
    assert extension.__file__ is not None
    library = ctypes.CDLL(extension.__file__)
    library.placerl_gil_releases.restype = ctypes.c_size_t
    offsets = (ctypes.c_size_t * _MOST)()
    count = library.placerl_gil_releases(offsets, ctypes.c_size_t(_MOST))
    lines = addresses(extension.__file__, offsets[:count])
    return {place for place in lines if place}


def addresses(path: str, offsets: list[int]) -> list[str]:
    """Return for each address in a library the innermost line of this project, `file:line`; empty without one."""
    found = []
    for offset in offsets:
        done = subprocess.run(
            ["addr2line", "-i", "-e", path, hex(offset)],
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin"},
        )
        if done.returncode:
            raise RuntimeError(f"addr2line: {done.stderr}")
        found.append(next(filter(None, map(own, done.stdout.splitlines())), ""))
    return found


def own(line: str) -> str:
    """Return a line of addr2line's output, relative to this project's root; empty for other projects' sources."""
    file, _, number = line.partition(" ")[0].rpartition(":")
    path = Path(file).resolve()
    inside = path.is_relative_to(ROOT / "primitives") or path.is_relative_to(ROOT / "harness")
    return f"{path.relative_to(ROOT)}:{number}" if inside else ""
