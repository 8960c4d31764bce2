"""Files are written whole or not at all, through links, and into what is no file."""

import os
import threading
from pathlib import Path

import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.core.files import check_writable_file, write_atomically


def write(path: Path, text: str = "new") -> None:
    write_atomically(path, lambda target: target.write_text(text))


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    file, link = tmp_path / "folder" / "file", tmp_path / "link"
    file.parent.mkdir()
    file.write_text("old")
    link.symlink_to(file)
    check_writable_file(link)
    write(link)
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert sorted(tmp_path.rglob("*")) == [file.parent, file, link], "nothing else is left"


def test_a_pipe_stays_and_takes_what_is_written(tmp_path: Path) -> None:
    pipe, found = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    check_writable_file(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    write(pipe)
    reader.join(60)
    assert found == ["new"]
    assert pipe.is_fifo()


def test_a_device_stays() -> None:
    null = Path("/dev/null")
    check_writable_file(null)
    write(null)
    assert null.is_char_device()


def test_a_folder_is_refused_before_and_after_the_work(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--out: found a folder; allowed: the path of a file"):
        check_writable_file(tmp_path)
    with pytest.raises(UserError, match="file: found a folder; allowed: the path of a file"):
        write(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")

    def fail(target: Path) -> None:
        target.write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_atomically(file, fail)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
