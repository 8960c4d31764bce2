"""A change replaces the file of a store in one step, or leaves no trace."""

import errno
import os
import signal
import stat
import threading
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.store import draft
from placerl.harness.store.store import Store
from tests.harness.store.rows import row

MACHINE = {"fingerprint": "f"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Store.open(tmp_path / "store.sqlite") as store:
        store.begin_run("quick", "r", MACHINE).finish("a", [row(1.0)])
    return tmp_path / "store.sqlite"


@pytest.mark.parametrize("step", ["copyfileobj", "copystat", "connect", "_flush"])
def test_a_kill_at_any_step_leaves_the_store_whole(path: Path, step: str) -> None:
    before = path.read_bytes()
    if os.fork() == 0:
        import placerl.harness.store.draft as module

        target = module.shutil if step.startswith("copy") else module
        connect, calls = getattr(target, step), []

        def kill(*arguments: object) -> object:
            calls.append(arguments)
            if step != "connect" or len(calls) == 2:  # the first connection holds the lock
                os.kill(os.getpid(), signal.SIGKILL)
            return connect(*arguments)

        setattr(target, step, kill)
        Store.open(path).begin_run("quick", "r", MACHINE).finish("b", [row(1.0)])
    _, status = os.wait()
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert path.read_bytes() == before
    with Store.open(path, read_only=True) as store:
        assert store.cells(1) == ["a"]
    with Store.open(path) as store:
        store.begin_run("quick", "r", MACHINE).finish("b", [row(1.0)])
        assert store.cells(1) == ["a", "b"]
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_what_a_change_does_not_change_is_kept(path: Path) -> None:
    path.chmod(0o640)
    with Store.open(path) as store:
        store.begin_run("quick", "r", MACHINE).finish("b", [row(1.0)])
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can own a file as another user")
def test_the_owner_of_a_store_keeps_it_when_root_writes(path: Path) -> None:
    os.chown(path, 12345, 23456)
    with Store.open(path) as store:
        store.begin_run("quick", "r", MACHINE).finish("b", [row(1.0)])
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


def test_where_the_owner_cannot_be_kept_the_group_is_tried(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(file: Path, owner: int, group: int) -> None:
        asked.append((owner, group))
        raise PermissionError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    found = list(path.stat())
    draft._own_as(os.stat_result([*found[:4], 12345, 23456, *found[6:]]), path)
    assert asked == [(12345, 23456), (-1, 23456)]


def test_a_draft_is_private_until_it_has_the_rights_of_the_store(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.chmod(0o600)
    modes = []

    def copy(old: BinaryIO, new: BinaryIO) -> None:
        modes.append(os.fstat(new.fileno()).st_mode & 0o777)
        copied(old, new)

    copied = draft._copy
    monkeypatch.setattr(draft, "_copy", copy)
    with Store.open(path) as store:
        store.begin_run("quick", "r", MACHINE).finish("b", [row(1.0)])
    assert modes == [0o600, 0o600]


@pytest.mark.parametrize("steps", [0, 1, 3, 1000])
def test_what_the_kernel_does_not_copy_is_copied_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    content, calls, kernel = os.urandom(10_000), [], os.copy_file_range

    def fail_after(old: int, new: int, count: int) -> int:
        calls.append(count)
        if len(calls) > steps:
            raise OSError(errno.EOPNOTSUPP, "not supported")
        return kernel(old, new, count)

    monkeypatch.setattr(draft, "_COPIED_BYTES", 999)
    monkeypatch.setattr(os, "copy_file_range", fail_after)
    (tmp_path / "old").write_bytes(content)
    with (tmp_path / "old").open("rb") as old, (tmp_path / "new").open("xb") as new:
        draft._copy(old, new)
    assert calls
    assert (tmp_path / "new").read_bytes() == content


def test_a_folder_that_cannot_be_flushed_is_no_failure_and_a_file_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on CIFS. The file has been replaced when the folder is flushed, so that an error would be untrue."""

    def refuse(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) or not folders_only:
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refuse)
    with Store.open(path) as store:
        run = store.begin_run("quick", "r", MACHINE)
        folders_only = True
        run.finish("b", [row(1.0)])
        folders_only = False
        with pytest.raises(UserError, match="Invalid argument"):
            run.finish("c", [row(1.0)])
        assert run.cells() == ["a", "b"]


def test_resuming_a_run_writes_nothing(path: Path) -> None:
    before = path.stat()
    with Store.open(path) as store:
        store.begin_run("quick", "r", MACHINE)
    assert path.stat() == before


def test_a_link_to_a_store_stays_a_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "elsewhere" / "link.sqlite"
    link.parent.mkdir()
    link.symlink_to(path)
    with Store.open(link) as store:
        store.begin_run("quick", "r", MACHINE).finish("b", [row(1.0)])
    assert link.is_symlink()
    with Store.open(path, read_only=True) as store:
        assert store.cells(1) == ["a", "b"]


def test_a_block_that_raises_leaves_no_trace(path: Path) -> None:
    before = path.read_bytes()
    with Store.open(path) as store:
        with suppress(ZeroDivisionError), store.writing() as database:
            database.execute("DELETE FROM measurement")
            assert store.measurements() == [], "reading in the block sees the change"
            raise ZeroDivisionError
        assert len(store.measurements()) == 1
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_block_inside_another_is_a_part_of_it(path: Path) -> None:
    before = path.read_bytes()
    with Store.open(path) as store:
        with suppress(ZeroDivisionError), store.writing():
            store.begin_run("quick", "r", MACHINE).finish("b", [row(1.0)])
            assert path.read_bytes() == before
            raise ZeroDivisionError
        assert store.cells(1) == ["a"]


def test_threads_of_one_process_lose_nothing(path: Path) -> None:
    """Each with a store of its own, which the lock between processes does not keep apart."""

    def write(name: str) -> None:
        with Store.open(path, timeout_s=600) as store:
            run = store.begin_run("quick", name, MACHINE)
            for cell in range(5):
                run.finish(str(cell), [row(1.0)])

    threads = [threading.Thread(target=write, args=(name,)) for name in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Store.open(path, read_only=True) as store:
        assert sorted(len(store.cells(run.id)) for run in store.runs()) == [1, 5, 5, 5]
