"""A script is sampled while it trains, keeps its status, and is stopped when the time is over."""

import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.why import recording
from placerl.harness.why.piece import Piece
from placerl.harness.why.profile import profile
from placerl.harness.why.recording import AS_IT_WAS, MAIN, ONE_THREAD, Recording, record
from tests.harness.why import scripts
from tests.processes import ends

pytest.importorskip("psutil")


def recording_in(folder: Path) -> Recording:
    """Record a training that goes on when the time is over."""
    script = scripts.write(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(recording, "_BLOCK_S", 0.1)
        return record([sys.executable, str(script), "60"], 5.0)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    recording.sampler()
    return recording_in(tmp_path_factory.mktemp("why"))


def test_planted_shares_are_found(recorded: Recording, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The sampler waits for times drawn at random, so that samples are independent: 5 sigma fail once in a million.

    Where the script has no core for longer than a piece of its time lasts, neighbouring samples are of one piece and
    not independent. Then another recording decides, of three at most; time counted under a wrong name is wrong in all.
    """
    assert recorded.stopped
    assert (recorded.status, recorded.problems) == (0, [])
    seen = []
    for number in range(3):
        found = profile(recorded.stacks, recorded.process)
        shares, count = {Piece.SAMPLING: 0.6, Piece.EVALUATION: 0.2}, max(1, found.samples)
        sigmas = {
            piece: abs(found.share(piece) - planted) / math.sqrt(planted * (1 - planted) / count)
            for piece, planted in shares.items()
        }
        if found.samples > 20 and max(sigmas.values()) < 5:
            return
        seen.append((found.samples, sigmas))
        if number < 2:
            recorded = recording_in(tmp_path_factory.mktemp("why"))
    pytest.fail(f"found deviations in sigma: {seen}")


def test_steps_are_counted(recorded: Recording) -> None:
    """A step takes 10 ms, or longer where others hold the core."""
    steps = recorded.steps[MAIN]
    assert steps.environment == 0
    assert 0 < steps.gradient * 0.010 < 1.1 * recorded.seconds
    assert 0 < recorded.cores_used < 1.3


def test_numbers_of_threads_take_turns(recorded: Recording) -> None:
    log = Path(recorded.command[1]).with_name("threads.log").read_text().split()
    # Seven where none is missed by a script that has no core for the length of a turn.
    assert set(log) == {"1", "2"}
    assert len(log) <= 7
    assert all(one != other for one, other in pairwise(log))
    assert all(recorded.steps[table].gradient for table in (AS_IT_WAS, ONE_THREAD))


def test_a_script_that_ends_keeps_its_status(tmp_path: Path) -> None:
    script = scripts.write(tmp_path, "import os, sys; print(sorted({*sys.modules} & {'torch'})); os._exit(5)")
    ended = record([sys.executable, str(script)], 5.0, sampled=False)
    assert (ended.status, ended.stopped) == (5, False)
    assert ended.problems == ["the script ended before it trained"]


def test_a_library_of_another_version_is_named(tmp_path: Path) -> None:
    library = tmp_path / "gymnasium" / "wrappers"
    library.mkdir(parents=True)
    for file in (library.parent / "__init__.py", library / "__init__.py", library / "common.py"):
        file.touch()
    script = tmp_path / "script.py"
    script.write_text("import gymnasium.wrappers.common")
    ended = record([sys.executable, str(script)], 5.0, sampled=False)
    (said,) = (line for line in ended.problems if line.startswith("not watched: "))
    assert said.startswith("not watched: gymnasium.wrappers.common: AttributeError")


def test_an_interpreter_that_is_none_is_refused() -> None:
    with pytest.raises(UserError, match=r"/nowhere/python: found No such file .* Python interpreter"):
        record(["/nowhere/python", "x.py"], 1.0, sampled=False)


def test_a_missing_sampler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=r"py-spy: found nothing.*pip install 'placerl\[why\]'"):
        recording.sampler()


def test_a_script_ends_with_whoever_asks_about_it(tmp_path: Path) -> None:
    script = tmp_path / "long.py"
    script.write_text("import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    asks = "import sys; from placerl.harness.why.recording import record; record(sys.argv[1:], 60, sampled=False)"
    command = [sys.executable, "-c", asks, sys.executable, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        process = int(asking.stdout.readline())
        asking.kill()
    assert ends(process)
