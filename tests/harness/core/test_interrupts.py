"""Ctrl-C at any moment of a command ends it with status 130 and at most one line."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.limits import LIMIT_S

LIBRARY = """
import os, signal, sys
try:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):
        pass
except KeyboardInterrupt as error:
    raise ImportError("initialization failed") from error
whole = True
"""
"""A library that turns Ctrl-C into an ImportError."""
DROPS = LIBRARY.replace('raise ImportError("initialization failed") from error', "pass")
COMMAND = """
import sys, time, types
from placerl import __main__
from placerl.harness.core import interrupts

cli = types.ModuleType("placerl.harness.cli")
def run_app():
    {begun}
    try:
        import library
    except ImportError:
        print("taken for a missing package", flush=True)
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        print("whole" if library.whole else "half", flush=True)
        raise
cli.run_app = run_app
sys.modules["placerl.harness.cli"] = cli
__main__.main()
"""


def run(folder: Path, library: str, begun: str) -> subprocess.CompletedProcess[str]:
    (folder / "library.py").write_text(library)
    script = f"import sys; sys.path.append({str(folder)!r})\n" + COMMAND.format(begun=begun)
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)


@pytest.mark.parametrize("library", [LIBRARY, DROPS])
def test_in_an_import_of_a_command_it_waits_for_the_import(library: str, tmp_path: Path) -> None:
    done = run(tmp_path, library, "interrupts.begun()")
    assert (done.returncode, done.stdout) == (130, "whole\n"), done.stderr
    assert done.stderr == "placerl: interrupted\n"


@pytest.mark.parametrize("library", [LIBRARY, DROPS])
def test_before_a_command_begins_it_ends_the_process_at_once(library: str, tmp_path: Path) -> None:
    done = run(tmp_path, library, "pass")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "placerl: interrupted\n")


def test_an_error_that_a_library_raises_instead_is_still_an_interruption(tmp_path: Path) -> None:
    script = """
import os, signal
from placerl.harness import cli
from placerl.harness.core import interrupts

def app():
    {begun}
    try:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass
    except KeyboardInterrupt as error:
        raise {error} from error

interrupts.raise_outside_imports()
cli._app = app
cli.run_app()
"""
    for error, begun, stored in (
        ("RuntimeError('a library')", "interrupts.storing()", "; what finished is stored"),
        ("SystemExit(1)", "interrupts.storing()", "; what finished is stored"),
        ("cli.UserError('a', 'b', 'c', 'd')", "pass", ""),
    ):
        command = [sys.executable, "-c", script.format(error=error, begun=begun)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert (done.returncode, done.stdout) == (130, ""), done.stderr
        assert done.stderr.splitlines() == [f"placerl: interrupted{stored}"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "moments"), [("--help", 10), ("doctor", 5), ("map cartpole-dqn --batch-size 32", 3)]
)
def test_at_any_moment_of_a_command(command: str, moments: int, tmp_path: Path) -> None:
    """From the first line of this project on: what comes before is Python's own start.

    Each run has a folder of its own, in which nothing is measured yet.
    """
    script = "import sys; from placerl.__main__ import main; print('begins', flush=True); main()"
    arguments = [sys.executable, "-c", script, *command.split()]

    def run(name: str, after_s: float | None) -> tuple[int, list[str], float]:
        results = {"PLACERL_RESULTS": str(tmp_path / name)}
        with subprocess.Popen(
            arguments,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=os.environ | results,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begins\n"
            start = time.monotonic()
            if after_s is not None:
                time.sleep(after_s)
                process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=LIMIT_S)
        return process.returncode, errors.splitlines(), time.monotonic() - start

    whole_s = min(run("whole", None)[2], 60)
    for moment in range(moments):
        status, lines, _ = run(str(moment), whole_s * moment / moments)
        # A command that is over already, or a process that has no interpreter any more, has its own status.
        assert status in (130, 0, -signal.SIGINT), lines
        if status == 130:
            assert [line for line in lines if "Traceback" in line or "Error" in line] == []
            assert lines[-1:][0].startswith("placerl: interrupted")
            assert sum("interrupted" in line for line in lines) == 1
