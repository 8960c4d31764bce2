"""Lists and starts the systems that can be compared: this project, and other libraries, the baselines.

Each system runs as a worker, in a process of its own (`harness.compare.protocol`). A baseline also has a virtual
environment of its own, which is first built from its requirements.
"""

import fcntl
import hashlib
import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from placerl.harness.compare.protocol import FailureKind, GuardedProcess, LastLines, Worker, WorkerFailure
from placerl.harness.core.shipped import INSTALLED, shipped
from placerl.primitives import disk_cache

BUILD_LIMIT_S = 1200.0

BASELINES = shipped("baselines")
ENVIRONMENTS = Path(__file__).parents[1] / "environments"
REPLAY_WORKER = BASELINES / "replay_worker.py"
OWN_REPLAY = Path(__file__).with_name("own_replay.py")
INSTALL = "install.py"
# Added to requirements that pin no PyTorch: without it a resolver may choose a build of several GB for CUDA.
(TORCH,) = re.findall(r"^torch==.+$", shipped("constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
_PINS_TORCH = re.compile(r"^torch\s*[=<>~!]", re.MULTILINE)
TRAINED = {"rllib": ("dqn", "sac", "ppo"), "rllib_2_6_3": ("ddpg", "td3")}
"""The algorithms for which each of two RLlib versions is used: 2.6.3 is the last version with DDPG (MAP, PAL)."""
RLLIB = tuple(TRAINED)
JUDGED_FOR_PORTABILITY = ("sb3", *RLLIB)
"""Baselines whose portability over device assignments is compared with this project's."""
_failed: dict[tuple[Path, str], WorkerFailure] = {}
"""Why a virtual environment could not be built in this process, so that it is not tried again."""


def baseline_names() -> list[str]:
    """Return the sorted names of all baselines, the folders under `baselines/` with a `requirements.txt`."""
    return sorted(path.parent.name for path in BASELINES.glob("*/requirements.txt"))


def trains(baseline: str, algorithm: str) -> bool:
    """Return whether a baseline, another library, is used here to train an algorithm.

    This is also True for a baseline without an entry in `TRAINED`: whether it can is only found when it runs.

    Args:
        baseline: a folder under `baselines/`.
    """
    return algorithm in TRAINED.get(baseline, (algorithm,))


def replay_alone(name: str) -> bool:
    """Return whether a baseline, another library, provides only a replay here and trains nothing.

    The folder of such a baseline has `replay.py` and no `worker.py`.
    """
    folder = BASELINES / name
    return (folder / "replay.py").is_file() and not (folder / "worker.py").is_file()


def baseline_python(name: str) -> Path:
    """Return the path of the Python interpreter in a baseline's virtual environment, which may not exist yet."""
    return _environment(name) / "bin" / "python"


def _environment(name: str) -> Path:
    """Return where a baseline's environment is: in its folder, or in the cache if the code runs from a wheel."""
    return (disk_cache.folder() / "baselines" if INSTALLED else BASELINES) / name / ".venv"


def _stamp(folder: Path) -> str:
    version = ".".join(map(str, sys.version_info[:3]))
    install = folder / INSTALL
    parts = (folder / "requirements.txt").read_bytes(), install.read_bytes() if install.is_file() else b""
    return hashlib.sha256(f"{version} {TORCH}".encode() + b"".join(parts)).hexdigest()


def is_built(name: str) -> bool:
    """Return whether a baseline's virtual environment exists and is that of its present requirements."""
    stamp = _environment(name) / "stamp"
    return stamp.is_file() and stamp.read_text() == _stamp(BASELINES / name)


def build_baseline(name: str, limit_s: float = BUILD_LIMIT_S) -> Path:
    """Create a baseline's virtual environment from its requirements, unless it exists.

    What pip cannot build from requirements alone is built by the baseline's `install.py`, which the new interpreter
    runs at the end.

    Args:
        name: a folder under `baselines/`.

    Returns:
        Path of its interpreter.

    Raises:
        WorkerFailure: of kind ENVIRONMENT, with pip's last lines; raised at once if it has failed before in this
            process.
    """
    folder = BASELINES / name
    requirements = folder / "requirements.txt"
    if not requirements.is_file():
        raise WorkerFailure(FailureKind.ENVIRONMENT, f"{name}: there is no baselines/{name}/requirements.txt")
    environment = _environment(name)
    stamp = environment / "stamp"
    python = baseline_python(name)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)  # one process builds, others wait
        wanted = _stamp(folder)
        if not (stamp.is_file() and stamp.read_text() == wanted):
            if failure := _failed.get((folder, wanted)):
                raise failure
            try:
                _run(name, [sys.executable, "-m", "venv", "--clear", str(environment)], limit_s)
                pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
                pins = [] if _PINS_TORCH.search(requirements.read_text()) else [TORCH]
                _run(name, [*pip, *pins, "--requirement", str(requirements)], limit_s)
                if (folder / INSTALL).is_file():
                    _run(name, [str(python), "-P", str(folder / INSTALL)], limit_s)
            except WorkerFailure as failure:
                _failed[folder, wanted] = failure
                raise
            stamp.write_text(wanted)
    finally:
        os.close(handle)
    return python


def build_baselines(names: Sequence[str]) -> dict[str, WorkerFailure | None]:
    """Build the virtual environments of several baselines; if one fails, go on with the next.

    Returns:
        A dict from each name to its failure, or to None if the environment was built or existed.
    """
    outcome: dict[str, WorkerFailure | None] = {}
    for name in names:
        try:
            build_baseline(name)
            outcome[name] = None
        except WorkerFailure as failure:
            outcome[name] = failure
    return outcome


def _run(name: str, command: list[str], limit_s: float) -> None:
    """Run a command of a build; on failure raise with its last lines."""
    said = LastLines()
    guarded = GuardedProcess(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    output = guarded.process.stdout
    assert output
    deadline_s = time.monotonic() + limit_s
    timed_out = False
    try:
        with output, selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while not timed_out:
                timed_out = not selector.select(max(0.0, deadline_s - time.monotonic()))
                if not timed_out:
                    data = os.read(output.fileno(), 1 << 16)
                    if not data:
                        break
                    said.feed(data)
    finally:
        status = guarded.end(grace_s=0.0 if timed_out else 1.0)
    if timed_out:
        raise WorkerFailure(FailureKind.ENVIRONMENT, f"{name}: not built within {limit_s:g} s", said.lines())
    if status:
        raise WorkerFailure(
            FailureKind.ENVIRONMENT, f"{name}: {command[2]} ended with {status}", said.lines()
        )


def baseline_worker(name: str, cpus: Sequence[int] | None = None) -> Worker:
    """Start a baseline's worker; its virtual environment is built first if it does not exist.

    Args:
        cpus: processors that it may use; all by default.
    """
    python = build_baseline(name)
    script = [str(BASELINES / name / "worker.py")]
    if replay_alone(name):
        script = [str(REPLAY_WORKER), str(BASELINES / name / "replay.py")]
    modules = os.pathsep.join(map(str, (ENVIRONMENTS, BASELINES)))
    return Worker([str(python), "-P", *script], environment_variables={"PYTHONPATH": modules}, cpus=cpus)


def plain_worker(name: str) -> Worker:
    """Start a baseline's worker with this interpreter: of one that needs nothing but what this project needs too."""
    command = [sys.executable, "-P", str(BASELINES / name / "worker.py")]
    return Worker(command, environment_variables=own_modules(ENVIRONMENTS, BASELINES))


def own_worker(
    mapping: str,
    cpus: Sequence[int] | None = None,
    **flags: bool,
) -> Worker:
    """Start a worker that trains with this project's runtime; it answers the same jobs as a baseline's.

    Args:
        flags: how this project trains, such as `envpool=True`; the names are `own_worker.FLAGS`.
    """
    command = [sys.executable, "-P", "-m", "placerl.harness.compare.own_worker", mapping]
    command += [f"--{name.replace('_', '-')}" for name, is_set in flags.items() if is_set]
    return Worker(command, environment_variables=own_modules(), cpus=cpus)


def own_replay_worker(cpus: Sequence[int] | None = None) -> Worker:
    """Start a worker that runs this project's replay without training; it answers the same requests as a baseline's.

    Args:
        cpus: processors that it may use; all by default.
    """
    command = [sys.executable, "-P", str(REPLAY_WORKER), str(OWN_REPLAY)]
    return Worker(command, environment_variables=own_modules(BASELINES), cpus=cpus)


def own_modules(*folders: Path) -> dict[str, str]:
    """Return the variable with which this project's own workers find the modules that this process finds.

    Workers of other libraries, which have environments of their own, do without this process's `PYTHONPATH`.

    Args:
        folders: more folders with modules, which are searched first.
    """
    inherited = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join([*map(str, folders), *([inherited] if inherited else [])])}
