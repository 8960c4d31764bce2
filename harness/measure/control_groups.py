"""Finds the control groups, the kernel's limits of containers and services, that contain this process.

Linux has two versions, which a machine may mount side by side: version 2 has one hierarchy of groups, version 1 one
for each controller, such as "memory" or "cpu". A limit of a group also holds for the groups inside it.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path("/")
V1, V2 = "cgroup", "cgroup2"
_ESCAPE = re.compile(r"\\([0-7]{3})")


class ControlGroup(NamedTuple):
    """A control group that contains this process, directly or with other groups in between.

    Attributes:
        version: `V1` or `V2`, which name their files differently.
        folder: folder of the group's files.
    """

    version: str
    folder: Path


class _Mount(NamedTuple):
    version: str
    shown: PurePosixPath  # the group that is mounted
    folder: Path  # where it is mounted


def groups(controller: str, root: Path | None = None) -> Iterator[ControlGroup]:
    """Yield the control groups of a controller that contain this process, the innermost first.

    Args:
        controller: such as "cpu" or "memory".
        root: folder that contains `proc` and the mount points of the groups; None: the machine's.
    """
    root = root or ROOT
    named = _named(controller, root)
    mounts = [mount for mount in _mounts(controller, root) if mount.version in named]
    for version, group in named.items():
        mine = [mount for mount in mounts if mount.version == version]
        inside = [mount for mount in mine if group.is_relative_to(mount.shown)]
        for mount in inside or mine:
            # In a container a group may be named as the host sees it, while only its own subtree is mounted.
            parts = group.relative_to(mount.shown).parts if inside else ()
            for depth in range(len(parts), -1, -1):
                yield ControlGroup(version, mount.folder.joinpath(*parts[:depth]))


def lines(file: Path) -> list[str]:
    """Return the lines of a file; empty if it cannot be read, as on a system without control groups."""
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _named(controller: str, root: Path) -> dict[str, PurePosixPath]:
    """Return the path of this process's group by version; only of versions that limit the controller."""
    paths = {}
    for line in lines(root / "proc/self/cgroup"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        # A namespace names groups outside of it with "..": they are not mounted.
        if not path.startswith("/") or ".." in PurePosixPath(path).parts:
            path = "/"
        if number == "0" and not controllers:
            paths[V2] = PurePosixPath(path)
        elif controller in controllers.split(","):
            paths[V1] = PurePosixPath(path)
    return paths


def _mounts(controller: str, root: Path) -> Iterator[_Mount]:
    for line in lines(root / "proc/self/mountinfo"):
        mount, _, source = line.partition(" - ")
        places, what = mount.split(" "), source.split(" ")
        if len(places) < 5 or len(what) < 3:
            continue
        version, options = what[0], what[2].split(",")
        if version == V2 or (version == V1 and controller in options):
            shown, folder = map(_unescaped, places[3:5])
            yield _Mount(version, PurePosixPath(shown), root / folder.lstrip("/"))


def _unescaped(path: str) -> str:
    """Return a path of `mountinfo`, in which blanks and backslashes are octal numbers."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), path)
