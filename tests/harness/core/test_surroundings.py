"""Standard output that fails, few descriptors and a deleted working folder end a command in one line."""

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.limits import LIMIT_S

PLACERL = Path(sys.executable).with_name("placerl")
CHEAP = (("--version",), ("--help",), ("rtl", "--list"))
RIGHT, WRONG = ("rtl", "--list"), ("nonsense",)
"""For what is refused before the command is looked at."""


def run(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PLACERL), *words]
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE} | options
    return subprocess.run(command, text=True, timeout=LIMIT_S, check=False, **options)


def one_line(done: subprocess.CompletedProcess[str], words: str) -> None:
    assert done.returncode == 1, done
    assert done.stderr.startswith(f"placerl: {words}"), done.stderr
    assert "; allowed: " in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", CHEAP)
def test_a_full_standard_output_is_named(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        one_line(run(*words, stdout=full), "standard output: found No space left on device")


@pytest.mark.parametrize("words", CHEAP)
def test_a_pipe_whose_reader_has_gone_ends_the_command_silently(words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run(*words, stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("words", [RIGHT, WRONG])
def test_a_closed_standard_output_is_refused(words: tuple[str, ...]) -> None:
    one_line(run(*words, preexec_fn=lambda: os.close(1)), "standard output: found it closed")


@pytest.mark.parametrize("words", [RIGHT, WRONG])
def test_few_descriptors_are_refused(words: tuple[str, ...]) -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))

    one_line(run(*words, preexec_fn=few), "open files: found a limit of 16")


@pytest.mark.parametrize("words", [RIGHT, WRONG])
def test_a_deleted_working_folder_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    one_line(run(*words, cwd=gone, preexec_fn=lambda: os.rmdir(gone)), "working folder: found it deleted")


@pytest.mark.parametrize("closed", [True, False])
def test_a_mistake_keeps_its_status_without_standard_error(closed: bool) -> None:
    with open("/dev/full", "w") as full:
        assert run(*WRONG, stderr=full, preexec_fn=(lambda: os.close(2)) if closed else None).returncode == 2


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("raise OSError(24, 'Too many open files')", "open files: found Too many open files"),
        ("raise RuntimeError from OSError(24, 'Too many open files')", "open files: found Too many open"),
        (
            "raise ImportError('libx.so: cannot open shared object file: Too many open files')",
            "open files: found Too many",
        ),
        (
            "raise OSError(28, 'No space left on device', 'x.sqlite')",
            "x.sqlite: found No space left on device",
        ),
        ("raise MemoryError()", "memory: found too little of it"),
    ],
)
def test_errors_of_the_surroundings_become_a_line(error: str, line: str) -> None:
    script = f"""
from placerl import __main__
from placerl.harness import cli
def app():
    {error}
cli._app = app
__main__.main()
"""
    command = [sys.executable, "-c", script]
    one_line(subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False), line)


def test_another_error_keeps_its_traceback() -> None:
    script = """
from placerl import __main__
from placerl.harness import cli
cli._app = lambda: {}['x']
__main__.main()
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert "KeyError: 'x'" in done.stderr
