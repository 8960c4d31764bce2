"""Runs a user's script unchanged, and records from outside what it does."""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from placerl.harness.core.errors import UserError
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.why import probe
from placerl.harness.why.probe import sitecustomize
from placerl.harness.why.stacks import Stack, parse

RATE_HZ = 50
"""Samples per second: enough for shares within two percent in a minute, and few enough to cost next to nothing."""
_BEGIN_S = 30.0
"""Longest wait for the first gradient step before sampling begins."""
_POLL_S = 0.1
_BLOCK_S = 0.5
_PAIRS = 6
_GRACE_S = 5.0
MAIN, AS_IT_WAS, ONE_THREAD = range(sitecustomize.TABLES)
"""The tables of the counters: while the script is sampled, and while PyTorch's threads take turns."""


@dataclass(frozen=True)
class Steps:
    """What a script did in some time.

    Attributes:
        counts: (2, 2) how often an event of the second index followed one of the first: an environment step (0) or a
            step of an optimizer (1).
        seconds: (2, 2) float64, the time between the two, in total.
    """

    counts: np.ndarray
    seconds: np.ndarray

    def since(self, earlier: "Steps | None") -> "Steps":
        """Return what was done after an earlier moment; None: after the start."""
        return (
            self if earlier is None else Steps(self.counts - earlier.counts, self.seconds - earlier.seconds)
        )

    @property
    def environment(self) -> int:
        """Environment steps, of all copies of the environment at once."""
        return int(self.counts[:, sitecustomize.ENVIRONMENT].sum())

    @property
    def gradient(self) -> int:
        """Steps of optimizers."""
        return int(self.counts[:, sitecustomize.GRADIENT].sum())

    @property
    def bursts(self) -> int:
        """Steps of optimizers that follow a step of an environment."""
        return int(self.counts[sitecustomize.ENVIRONMENT, sitecustomize.GRADIENT])


@dataclass
class Recording:
    """What was recorded of a script.

    Attributes:
        command: the command line.
        status: the script's exit status; 0 if it was stopped after its time.
        stopped: whether it was stopped after its time.
        seconds: how long it was sampled.
        process: id of the process that trains.
        stacks: what was sampled.
        steps: of the process that trains, by table (`MAIN`, ...).
        facts: what the probe saw in any process, in order.
        cores: usable cores.
        cores_used: average number of busy cores, of all processes of the script.
        busy_threads: threads that were busy for more than a twentieth of the time.
        problems: why something is missing, a line each.
    """

    command: Sequence[str]
    status: int = 0
    stopped: bool = False
    seconds: float = 0.0
    process: int = 0
    stacks: list[Stack] = field(default_factory=list)
    steps: dict[int, Steps] = field(default_factory=dict)
    facts: list[dict[str, Any]] = field(default_factory=list)
    cores: int = 1
    cores_used: float = 0.0
    busy_threads: int = 0
    problems: list[str] = field(default_factory=list)


class Probes:
    """The counters that the processes of a script keep in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _slots(self, process: int, mode: str = "r") -> np.ndarray:
        return np.memmap(self.folder / f"{process}.counts", np.int64, mode, shape=(sitecustomize.SLOTS,))  # type: ignore[call-overload]

    def steps(self, process: int, table: int = MAIN) -> Steps:
        """Return what a process has counted in a table."""
        begin = sitecustomize.FIRST + table * sitecustomize.WIDTH
        pairs = np.array(self._slots(process)[begin : begin + sitecustomize.WIDTH]).reshape(2, 2, 2)
        return Steps(pairs[..., 0], pairs[..., 1] / 1e9)

    def set(self, process: int, table: int, threads: int) -> None:
        """Let a process count in a table from now on, and PyTorch there use some threads; 0: as they are."""
        slots = self._slots(process, "r+")
        slots[sitecustomize.THREADS], slots[sitecustomize.TABLE] = threads, table

    def trains(self) -> int:
        """Return the process with the most gradient steps so far; 0 if there is none."""
        steps = {one: self.steps(one).gradient for one in self.processes()}
        return max((one for one in steps if steps[one]), key=steps.__getitem__, default=0)

    def processes(self) -> list[int]:
        """Return the processes that count."""
        size = sitecustomize.SLOTS * 8
        return [int(path.stem) for path in self.folder.glob("*.counts") if path.stat().st_size == size]

    def facts(self) -> list[dict[str, Any]]:
        """Return the facts of all processes."""
        paths = sorted(self.folder.glob("*.facts"))
        return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]


def sampler() -> str:
    """Return the path of py-spy.

    Raises:
        UserError: it is not installed.
    """
    own = Path(sys.executable).with_name("py-spy")
    found = str(own) if own.is_file() else shutil.which("py-spy")
    if found is None:
        raise UserError(
            "this machine", "py-spy", "nothing: it is not installed", "pip install 'placerl[why]'"
        )
    return found


def record(command: Sequence[str], seconds: float, *, sampled: bool = True, quiet: bool = False) -> Recording:
    """Run a script to its end or until it has been sampled long enough, with its own input and output.

    Sampling begins with the first gradient step, or after half a minute without one. At the end, while the script still
    trains, PyTorch uses one thread and as many as before in turns; what the script computes then is thrown away.

    Args:
        command: the interpreter, the script and its arguments.
        seconds: for how long it is sampled, and then stopped.
        sampled: whether stacks are sampled; without, only steps are counted.
        quiet: whether the script's output is dropped.

    Raises:
        UserError: py-spy is not installed, or the command cannot be started.
    """
    spy = sampler() if sampled else ""
    with tempfile.TemporaryDirectory(prefix="placerl-why-") as name:
        return _Run(command, seconds, spy, Path(name), subprocess.DEVNULL if quiet else None).recording()


def _end_with_parent() -> None:
    """Let the kernel end this process when its parent does, however that ends."""
    set_signal_at_parents_end = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(set_signal_at_parents_end, signal.SIGTERM, 0, 0, 0)


class _Run:
    """One run of a script."""

    def __init__(
        self, command: Sequence[str], seconds: float, spy: str, folder: Path, output: int | None
    ) -> None:
        self.seconds, self.spy, self.folder = seconds, spy, folder
        self.result = Recording(command, cores=len(usable_cores()))
        self.probes = Probes(folder)
        paths = [str(Path(probe.__file__).parent), os.environ.get("PYTHONPATH", "")]
        surroundings = {sitecustomize.FOLDER: str(folder), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        try:
            self.script = subprocess.Popen(
                command,
                env=os.environ | surroundings,
                stdout=output,
                stderr=output,
                preexec_fn=_end_with_parent,
            )
        except OSError as error:
            raise UserError("command line", command[0], error.strerror, "a Python interpreter") from error
        self.root = psutil.Process(self.script.pid)

    def recording(self) -> Recording:
        result = self.result
        try:
            self._await_training()
            self._sample()
            if self.script.poll() is None:
                self._take_turns()
        except KeyboardInterrupt:
            result.problems.append("interrupted: what was seen until then is shown")
        finally:
            self._stop()
        result.facts = self.probes.facts()
        missed = {
            f"{fact['module']}: {fact['reason']}" for fact in result.facts if fact["fact"] == "unpatched"
        }
        result.problems += [f"not watched: {one}" for one in sorted(missed)]
        if not self.probes.processes():
            result.problems.append("no steps were counted: the interpreter ignores PYTHONPATH")
        return result

    def _await_training(self) -> None:
        end = time.monotonic() + _BEGIN_S
        while self.script.poll() is None and time.monotonic() < end and not self.probes.trains():
            time.sleep(_POLL_S)

    def _sample(self) -> None:
        """Sample until the script ends or the time is over."""
        if self.script.poll() is not None:
            self.result.problems.append("the script ended before it trained")
            return
        trains = self.probes.trains()
        if not trains:
            self.result.problems.append("no gradient step was seen: all that ran was sampled")
        raw, before, begin = self.folder / "stacks.raw", self._times(), time.monotonic()
        counted = {one: self.probes.steps(one) for one in self.probes.processes()}
        spy = self._sampling(raw) if self.spy else None
        used = before
        while self.script.poll() is None and (left := begin + self.seconds - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
            used = used | self._times()
        self.result.seconds = wall = time.monotonic() - begin
        busy = [used[one] - before.get(one, 0.0) for one in used]
        self.result.cores_used = sum(busy) / wall
        self.result.busy_threads = sum(one > wall / 20 for one in busy)
        self.result.process = process = self.probes.trains() or self.script.pid
        with suppress(OSError):
            self.result.steps[MAIN] = self.probes.steps(process).since(counted.get(process))
        if spy is not None:
            self._read(spy, raw)

    def _sampling(self, raw: Path) -> "subprocess.Popen[bytes]":
        command = [self.spy, "record", "--pid", str(self.script.pid), "--output", str(raw), "--format", "raw"]
        command += ["--rate", str(RATE_HZ), "--threads", "--subprocesses", "--idle", "--full-filenames"]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def _read(self, spy: "subprocess.Popen[bytes]", raw: Path) -> None:
        with suppress(ProcessLookupError):
            spy.send_signal(signal.SIGINT)
        _, said = spy.communicate()
        if raw.is_file():
            with raw.open(encoding="utf-8", errors="replace") as lines:
                self.result.stacks = list(parse(lines))
        if not self.result.stacks:
            last = said.decode(errors="replace").strip().splitlines()[-1:]
            self.result.problems.append(f"py-spy sampled nothing: {''.join(last)}")

    def _times(self) -> dict[tuple[int, int], float]:
        """Return the processor seconds of all threads of the script so far, by process and thread."""
        times = {}
        with suppress(psutil.Error):
            for process in [self.root, *self.root.children(recursive=True)]:
                with suppress(psutil.Error):
                    for thread in process.threads():
                        times[process.pid, thread.id] = thread.user_time + thread.system_time
        return times

    def _take_turns(self) -> None:
        """Compare PyTorch's speed with one thread and with as many as it uses, if it uses more."""
        threads = max((fact["torch"] for fact in self.probes.facts() if fact["fact"] == "threads"), default=1)
        if threads < 2 or not self.spy:
            return
        for turn in range(2 * _PAIRS):
            one = (turn + 1) // 2 % 2  # as before, one, one, as before, ...
            self.probes.set(self.result.process, MAIN, 1 if one else threads)
            time.sleep(_BLOCK_S / 5)  # not counted: the turn's first steps begin with the other number
            self.probes.set(self.result.process, ONE_THREAD if one else AS_IT_WAS, 1 if one else threads)
            time.sleep(_BLOCK_S)
        for table in (AS_IT_WAS, ONE_THREAD):
            self.result.steps[table] = self.probes.steps(self.result.process, table)

    def _stop(self) -> None:
        """End the script if it still runs, and all that it started."""
        status = self.script.poll()
        if status is None:
            self.result.stopped = True
            processes = self.root.children(recursive=True)
            for process in [self.root, *processes]:
                with suppress(psutil.Error):
                    process.terminate()
            _, alive = psutil.wait_procs(processes, _GRACE_S)
            with suppress(subprocess.TimeoutExpired):
                self.script.wait(_GRACE_S)
            for process in alive:
                with suppress(psutil.Error):
                    process.kill()
            self.script.kill()
            self.script.wait()
            return
        self.result.status = 128 - status if status < 0 else status
