"""Workers that crash, hang, print invalid lines, flood or leave processes behind become one failure each."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from placerl.harness.compare import guard, protocol, registry
from placerl.harness.compare.protocol import FailureKind, Worker, WorkerFailure, WorkerJob
from tests.limits import LIMIT_S
from tests.processes import ends, gone

NASTY = Path(__file__).with_name("nasty_worker.py")
JOB = WorkerJob(workload={"name": "none"}, batch_size=32, seed=0, gradient_steps=10)


def nasty(*arguments: str) -> Worker:
    return Worker([sys.executable, str(NASTY), *arguments])


def fails(*arguments: str, limit_s: float = LIMIT_S) -> WorkerFailure:
    worker = nasty(*arguments)
    pid = worker._guarded.process.pid
    with pytest.raises(WorkerFailure) as failure:
        worker.ask(JOB, limit_s)
    assert not psutil.pid_exists(pid), "the guard is left, as a process or a zombie"
    with pytest.raises(WorkerFailure):
        worker.ask(JOB, limit_s)
    worker.close()
    return failure.value


def process_id(path: Path) -> int:
    deadline_s = time.monotonic() + LIMIT_S
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline_s, f"{path} was not written"
        time.sleep(0.01)
    return int(path.read_text())


def temporary_folder(pid: int) -> Path:
    """Of a process; one that has just begun has no environment variables to show for a moment."""
    deadline_s = time.monotonic() + LIMIT_S
    while not (variables := psutil.Process(pid).environ()):
        assert time.monotonic() < deadline_s, f"process {pid} showed no environment variables"
        time.sleep(0.01)
    return Path(variables["TMPDIR"])


def test_job_after_job_and_nothing_left() -> None:
    with nasty("good") as worker:
        pid = worker._guarded.process.pid
        results = [worker.ask(JOB.model_copy(update={"seed": seed}), LIMIT_S) for seed in range(3)]
    assert [result.notes["seed"] for result in results] == ["0", "1", "2"]
    assert results[0].gradient_steps == 10
    assert results[0].wall_s == 0.5
    assert not psutil.pid_exists(pid)
    assert worker.close() == 0


@pytest.mark.parametrize(
    ("what", "kind", "said"),
    [
        ("crash", FailureKind.CRASH, "RuntimeError: the network exploded"),
        ("killed", FailureKind.CRASH, "started"),
        ("exit", FailureKind.CRASH, "started"),
        ("invalid", FailureKind.INVALID, "Using cpu device"),
        ("nan", FailureKind.INVALID, "NaN"),
        ("nan-return", FailureKind.INVALID, "NaN"),
        ("short", FailureKind.INVALID, "started"),
        ("refuse", FailureKind.REFUSED, "started"),
        ("flood", FailureKind.FLOOD, "started"),
    ],
)
def test_misbehaviour_is_named_with_the_last_lines(what: str, kind: FailureKind, said: str) -> None:
    failure = fails(what)
    assert failure.kind is kind
    assert any(said in line for line in failure.last_lines), failure.last_lines


def test_death_by_signal_and_by_status_are_told_apart() -> None:
    assert "signal 9" in fails("killed").detail
    assert "exit status 3" in fails("noisy").detail


def test_a_refusal_keeps_its_reason() -> None:
    assert fails("refuse").detail == "sac is not supported"


@pytest.mark.parametrize("what", ["hang", "ignore-sigterm"])
def test_a_hang_ends_at_the_limit(what: str) -> None:
    failure = fails(what, limit_s=1.5)  # the worker's own hour is longer than a test may take
    assert failure.kind is FailureKind.TIMEOUT


def test_last_lines_are_bounded_and_the_last() -> None:
    failure = fails("noisy")
    assert len(failure.last_lines) <= protocol.LAST_LINES
    assert max(map(len, failure.last_lines)) <= protocol.MAX_LINE_CHARACTERS
    assert "line 99999" in failure.last_lines
    assert "line 0" not in failure.last_lines


def test_an_unasked_line_spoils_the_answer() -> None:
    assert fails("twice").kind is FailureKind.INVALID


def test_an_unasked_line_after_the_answer_is_no_answer_to_the_next_job(tmp_path: Path) -> None:
    path = tmp_path / "written"
    with nasty("late", str(path)) as worker:
        worker.ask(JOB, LIMIT_S)
        path.with_name(path.name + ".go").touch()
        process_id(path)  # the second line is written by then
        with pytest.raises(WorkerFailure, match="no job asked for"):
            worker.ask(JOB, LIMIT_S)


def test_a_command_that_is_not_there() -> None:
    with Worker(["/nowhere/python"]) as worker, pytest.raises(WorkerFailure) as failure:
        worker.ask(JOB, LIMIT_S)
    assert failure.value.kind is FailureKind.CRASH
    assert "cannot start /nowhere/python" in failure.value.last_lines[-1]


def test_daemons_go_with_the_worker(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    with nasty("daemon", str(path)) as worker:
        worker.ask(JOB, LIMIT_S)
        pid = process_id(path)
        assert not gone(pid)
    assert gone(pid)


def test_daemons_go_with_a_worker_that_crashes(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    assert fails("daemon-crash", str(path)).kind is FailureKind.CRASH
    assert gone(process_id(path))


def test_children_go_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    with nasty("child-then-hang", str(path)) as worker:
        worker.ask(JOB, LIMIT_S)
        child = process_id(path)
        assert not gone(child)
        with pytest.raises(WorkerFailure) as failure:
            worker.ask(JOB, 0.1)
        assert failure.value.kind is FailureKind.TIMEOUT
        assert gone(child)


def test_a_guard_that_hangs_is_killed_and_closing_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "KILL_LIMIT_S", -0.9)  # so that it is waited for half a second
    worker = nasty("good")
    worker.ask(JOB, LIMIT_S)
    hanging = worker._guarded.process.pid
    (at_work,) = psutil.Process(hanging).children()
    temporary = temporary_folder(at_work.pid)
    try:
        os.kill(hanging, signal.SIGSTOP)
        assert worker.close() == -signal.SIGKILL
        assert not psutil.pid_exists(hanging)
        assert ends(at_work.pid)
    finally:
        shutil.rmtree(temporary)  # which the guard would have removed


@pytest.mark.parametrize("what", ["litter", "litter-killed"])
def test_temporary_files_go_with_the_worker(what: str, tmp_path: Path) -> None:
    path = tmp_path / "where"
    with nasty(what, str(path)) as worker:
        if what == "litter":
            worker.ask(JOB, LIMIT_S)
            assert Path(path.read_text()).is_file()
        else:
            with pytest.raises(WorkerFailure, match="signal 9"):
                worker.ask(JOB, LIMIT_S)
    left = Path(path.read_text())
    assert not left.exists()
    assert not left.parent.exists()


OWNER = """
import signal
import sys
from placerl.harness.compare.protocol import Worker, WorkerJob
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell ignores for what it starts with &
worker = Worker([sys.executable, *sys.argv[1:]])
for _ in range(2):
    worker.ask(WorkerJob(workload={}, batch_size=1, seed=0, gradient_steps=1), 3600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_its_owner(number: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(NASTY), "child-then-hang", str(path)], stderr=subprocess.DEVNULL
    )
    try:
        child = process_id(path)
        temporary = temporary_folder(child)
        assert temporary.is_dir()
        below = [p.pid for p in psutil.Process(owner.pid).children(recursive=True)]
        assert child in below
        owner.send_signal(number)
        owner.wait(LIMIT_S)
    finally:
        owner.kill()
        owner.wait()
    assert all(ends(pid) for pid in below)
    assert not temporary.exists()


def test_a_job_refuses_what_no_worker_can_do() -> None:
    for wrong in ({"batch_size": 0}, {"gradient_steps": 0}, {"threads": 0}, {"seed": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            WorkerJob(**({"workload": {}, "batch_size": 1, "seed": 0, "gradient_steps": 1} | wrong))


@pytest.fixture
def baselines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of baselines whose environments install nothing: pip gets no torch and empty requirements."""
    monkeypatch.setattr(registry, "BASELINES", tmp_path)
    monkeypatch.setattr(registry, "TORCH", "pip")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return tmp_path


def baseline(folder: Path, name: str, requirements: str) -> None:
    (folder / name).mkdir()
    (folder / name / "requirements.txt").write_text(requirements)
    (folder / name / "worker.py").write_text(NASTY.read_text().replace("main(*sys.argv[1:])", 'main("good")'))


def test_a_broken_baseline_stops_no_other(baselines: Path) -> None:
    baseline(baselines, "broken", "there-is-no-such-distribution==1\n")
    baseline(baselines, "sound", "")
    assert registry.baseline_names() == ["broken", "sound"]
    outcome = registry.build_baselines(["broken", "missing", "sound"])
    assert outcome["sound"] is None
    for name in ("broken", "missing"):
        failure = outcome[name]
        assert failure is not None
        assert failure.kind is FailureKind.ENVIRONMENT
    assert any("there-is-no-such-distribution" in line for line in outcome["broken"].last_lines)
    with registry.baseline_worker("sound") as worker:
        assert worker.ask(JOB, LIMIT_S).gradient_steps == 10


def test_an_environment_is_made_once_and_again_when_its_requirements_change(
    baselines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    baseline(baselines, "sound", "")
    commands: list[list[str]] = []

    def record(name: str, command: list[str], limit_s: float) -> None:
        (baselines / name / ".venv").mkdir(exist_ok=True)
        commands.append(command)

    monkeypatch.setattr(registry, "_run", record)
    registry.build_baseline("sound")
    made = len(commands)
    registry.build_baseline("sound")
    assert len(commands) == made
    (baselines / "sound" / "requirements.txt").write_text("# changed\n")
    registry.build_baseline("sound")
    assert len(commands) == 2 * made
    assert registry.TORCH in commands[-1]


@pytest.mark.parametrize(
    ("requirements", "added"),
    [
        ("torchrl==1\ntorch==2.14.1\n", False),
        ("torch>=2\n", False),
        ("torchrl==1\ntorch\n", True),
        ("torchrl==1\n", True),
        ("torch-x==1\n", True),
    ],
)
def test_the_pin_of_pytorch_binds_those_that_have_none_of_their_own(
    baselines: Path, monkeypatch: pytest.MonkeyPatch, requirements: str, added: bool
) -> None:
    monkeypatch.setattr(registry, "TORCH", "torch==1")
    baseline(baselines, "sound", requirements)
    commands: list[list[str]] = []

    def record(name: str, command: list[str], limit_s: float) -> None:
        (baselines / name / ".venv").mkdir(exist_ok=True)
        commands.append(command)

    monkeypatch.setattr(registry, "_run", record)
    registry.build_baseline("sound")
    assert (registry.TORCH in commands[-1]) == added


def test_what_pip_cannot_build_is_built_at_the_end_and_again_when_that_changes(
    baselines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    baseline(baselines, "sound", "")
    script = baselines / "sound" / registry.INSTALL
    script.write_text("first\n")
    commands: list[list[str]] = []

    def record(name: str, command: list[str], limit_s: float) -> None:
        (baselines / name / ".venv").mkdir(exist_ok=True)
        commands.append(command)

    monkeypatch.setattr(registry, "_run", record)
    python = registry.build_baseline("sound")
    assert commands[-1] == [str(python), "-P", str(script)]
    script.write_text("second\n")
    registry.build_baseline("sound")
    assert len([command for command in commands if str(script) in command]) == 2


def test_an_environment_that_takes_too_long(baselines: Path) -> None:
    baseline(baselines, "sound", "")
    with pytest.raises(WorkerFailure, match="not built within"):
        registry.build_baseline("sound", limit_s=0.01)
    assert not (baselines / "sound" / ".venv" / "stamp").exists()


def test_an_environment_that_cannot_be_made_is_not_tried_in_every_cell(
    baselines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    baseline(baselines, "broken", "")
    tried: list[str] = []

    def fail(name: str, command: list[str], limit_s: float) -> None:
        tried.append(name)
        raise WorkerFailure(FailureKind.ENVIRONMENT, "no such package")

    monkeypatch.setattr(registry, "_run", fail)
    for _ in range(2):
        with pytest.raises(WorkerFailure, match="no such package"):
            registry.build_baseline("broken")
    assert len(tried) == 1
    (baselines / "broken" / "requirements.txt").write_text("# mended\n")
    with pytest.raises(WorkerFailure):
        registry.build_baseline("broken")
    assert len(tried) == 2


def test_environment_of_a_worker_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    script = "import os, sys; sys.exit(f\"{os.environ.get('PYTHONPATH')} {os.sched_getaffinity(0)}\")"
    cpu = min(os.sched_getaffinity(0))
    worker = Worker([sys.executable, "-c", script], cpus=[cpu])
    with pytest.raises(WorkerFailure) as failure:
        worker.ask(JOB, LIMIT_S)
    assert failure.value.last_lines[-1] == f"None {{{cpu}}}"


def test_pytorch_is_pinned_by_the_constraints_alone() -> None:
    assert re.fullmatch(r"torch==\d+\.\d+\.\d+", registry.TORCH)
    root = registry.BASELINES.parent
    for path in (root / "pyproject.toml", *registry.BASELINES.glob("*/requirements.txt")):
        assert registry.TORCH not in path.read_text(), path
