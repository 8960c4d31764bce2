"""Finds the revision of the running code, which is stored with every measured number."""

import hashlib
import os
import subprocess
from collections.abc import Set
from contextlib import suppress
from importlib import metadata
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]

STORE_NAME = "placerl.sqlite"
"""File name of a store of results. New files in its folder are results, and no part of the code that made them, unless
files of the last commit lie beside them.
"""
RESULTS = Path("results")
"""Folder of the store, if no other is given."""


def store_path(results: Path) -> Path:
    """Return the path of the store, a database of SQLite, in a folder of results."""
    return results / STORE_NAME


def _git(root: Path, *arguments: str) -> bytes:
    # Without GIT_OPTIONAL_LOCKS=0, `git status` could rewrite the index during a user's own git command.
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout


class CodeWatch:
    """Notices that the running code was edited since this object was made, for instance by `git pull`.

    Processes that start later import the edited code, so that their measurements are not of the revision that was
    read before. Only files that git tracks are watched. New files are not: a log of the run may be one. A commit of
    code that is otherwise the same is no edit.

    Args:
        root: the top of the working copy. If it is not one, nothing is ever noticed.
    """

    def __init__(self, root: Path = _ROOT) -> None:
        self._root, self._commit = root, ""
        with suppress(OSError, subprocess.SubprocessError):
            if _is_top(root):
                self._commit = _git(root, "rev-parse", "HEAD").decode().strip()
        self._begun = self._difference()

    def changed(self) -> bool:
        """Return whether the code differs now from the code when this object was made."""
        now = self._difference()
        return self._begun is not None and now is not None and now != self._begun

    def _difference(self) -> bytes | None:
        """Return a hash of how the tracked files differ from the first commit; None if that is unknown."""
        if not self._commit:
            return None
        try:
            return hashlib.sha256(_tracked_changes(self._root, self._commit)).digest()
        except (OSError, subprocess.SubprocessError):
            return None


def _is_top(root: Path) -> bool:
    """Return whether a folder is the top of a working copy, and not, as a virtual environment may be, inside another
    project's, whose commit does not describe this code.
    """
    return Path(_git(root, "rev-parse", "--show-toplevel").decode().strip()).resolve() == root.resolve()


def _tracked_changes(root: Path, commit: str) -> bytes:
    return _git(root, "diff", commit, "--binary", "--no-ext-diff", "--no-color")


def _changes_hash(root: Path) -> str:
    """Return a hash of everything that differs from the last commit, including new files; empty if nothing does.

    New files in a folder of results do not count: with them each run would change its own revision.
    """
    digest = hashlib.sha256()
    changed = _tracked_changes(root, "HEAD")
    digest.update(changed)
    others = _git(root, "ls-files", "--others", "--exclude-standard", "-z").split(b"\0")[:-1]
    code = {Path(os.fsdecode(name)).parent for name in _git(root, "ls-files", "-z").split(b"\0")[:-1]}
    new_names = [name for name in map(os.fsdecode, others) if not _is_result(root, name, code)]
    for name in sorted(new_names):
        digest.update(b"\0" + os.fsencode(name) + b"\0")
        path = root / name
        if path.is_symlink():
            digest.update(str(path.readlink()).encode(errors="surrogateescape"))
        elif path.is_file():
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:12] if changed or new_names else ""


def _is_result(root: Path, name: str, code: Set[Path]) -> bool:
    """Return whether a new file is in a folder of results, and not among files of the last commit (`code`)."""
    path = Path(name)
    return path.parent not in code and any((root / folder / STORE_NAME).is_file() for folder in path.parents)


def revision(root: Path = _ROOT) -> str:
    """Return the revision of the running code.

    Returns:
        `<commit>` (40 hexadecimal digits), `<commit>+<hash of uncommitted changes>` (12 more digits), or
        `placerl-<version>` if the code has no git working copy of its own.
    """
    try:
        if not _is_top(root):
            return f"placerl-{metadata.version('placerl')}"
        commit = _git(root, "rev-parse", "HEAD").decode().strip()
        changes = _changes_hash(root)
    except (OSError, subprocess.SubprocessError):
        return f"placerl-{metadata.version('placerl')}"
    return f"{commit}+{changes}" if changes else commit
