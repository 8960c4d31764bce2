"""Files that take long to make: made once, by one process, and never half."""

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from placerl.primitives import disk_cache


def _make(name: str, folder: str, made: Any) -> None:
    import os

    os.environ[disk_cache.CACHE_VARIABLE] = folder

    def make(path: Path) -> None:
        made.put(name)
        path.write_text(name)

    assert disk_cache.made("x/one", make).read_text()


def test_one_process_makes_what_several_ask_for(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    made = context.SimpleQueue()
    processes = [context.Process(target=_make, args=(str(i), str(tmp_path), made)) for i in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert (tmp_path / "x/one").read_text() == made.get()
    assert made.empty()


def test_a_relative_folder_is_one_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool that makes a file may run in another folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(disk_cache.CACHE_VARIABLE, "cache")
    assert disk_cache.folder() == tmp_path / "cache"


def test_what_was_left_half_made_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk_cache.CACHE_VARIABLE, str(tmp_path))

    def killed(path: Path) -> None:
        path.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        disk_cache.made("x/one", killed)
    assert not (tmp_path / "x/one").exists()
    assert disk_cache.made("x/one", lambda path: path.write_text("whole") and None).read_text() == "whole"
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == ["one", "one.lock"]
