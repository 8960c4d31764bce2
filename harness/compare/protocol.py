"""Starts and controls workers: training systems, each in a process and a virtual environment of its own.

Protocol. A worker reads jobs, one line of JSON each, from its standard input. It answers each with one line of
JSON on its standard output: a `WorkerResult`, or `{"error": "..."}` for a job that it cannot do. Whatever a library
prints must go to standard error. The worker keeps its agent from job to job, so that several systems can be timed
in interleaved rounds. It ends when its standard input ends.

Every fault of a worker is raised as a `WorkerFailure`, which gives what happened and the last lines that the worker
printed. The worker and every process that it started have then been ended.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError
from pydantic_core import from_json

from placerl.harness.compare import guard

MAX_ANSWER_BYTES = 1 << 20
LAST_LINES = 20
MAX_LINE_CHARACTERS = 400
EXIT_GRACE_S = 0.3
MOST_STEPS = 2**53  # integers that a float64 can represent
LEAST_WALL_S = 1e-9  # the resolution of the finest clock


class FailureKind(StrEnum):
    """The ways in which a worker, a training system in another process, can fail.

    Its virtual environment cannot be created; it ends, does not answer in time, or answers with something that is not a
    result or too long; or it says that it cannot do the job.
    """

    ENVIRONMENT = "environment"  # its virtual environment could not be made
    CRASH = "crash"  # it ended, or could not be started
    TIMEOUT = "timeout"  # it did not answer within the limit
    INVALID = "invalid"  # its answer is not a result
    FLOOD = "flood"  # its answer is longer than any result
    REFUSED = "refused"  # it says that it cannot do the job


class WorkerFailure(Exception):
    """An error: a worker (a training system in a process) failed, or its virtual environment could not be created.

    Attributes:
        kind: kind of failure, such as a crash.
        detail: what happened, in one line.
        last_lines: the last lines that it printed, oldest first: at most `LAST_LINES`, each cut to
            `MAX_LINE_CHARACTERS`.
    """

    def __init__(self, kind: FailureKind, detail: str, last_lines: Sequence[str] = ()) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
        self.last_lines = tuple(last_lines)


class WorkerJob(BaseModel):
    """A request to a worker: `gradient_steps` more steps of training on a workload.

    Attributes:
        workload: the workload's tables, as in its TOML file.
        batch_size: transitions per gradient step.
        seed: seed of networks, exploration, replay and environment; only used in a worker's first job.
        threads: threads that the system may compute with.
        gradient_steps: gradient steps to take and time in this job. What precedes the first gradient step
            (imports, compilation, `learning_starts`) is not timed.
        environment: whether environments are stepped. If not, each gradient step consists of sampling a batch, the
            step itself and, if the replay is prioritised, the update of the priorities. The replay then keeps the
            transitions that it held when learning could start.
        device: the device that the system's networks compute on: "cpu", or a CUDA device as PyTorch names it. This
            project's own worker has its mapping instead. A worker whose library is not set up for the device refuses.
        flush_subnormals: whether the worker's thread treats subnormal numbers as zero (`torch.set_flush_denormal`),
            as this project's native learner always does.
        evaluation_episodes: greedy episodes to run after the gradient steps, in an environment of their own, from
            starts that follow from the seed. Their time is in no duration.
        library: settings of the library's own, by its names for them, which replace what follows from the workload;
            a worker that knows none refuses them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    workload: dict[str, Any]
    batch_size: int = Field(ge=1)
    seed: int = Field(ge=0)
    threads: int = Field(default=1, ge=1)
    gradient_steps: int = Field(ge=1)
    environment: bool = True
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$")
    flush_subnormals: bool = False
    evaluation_episodes: int = Field(default=0, ge=0)
    library: dict[str, Any] = {}


class WorkerResult(BaseModel):
    """The answer of a worker (a training system in another process) to a `WorkerJob`.

    Attributes:
        gradient_steps: gradient steps taken within `wall_s`.
        environment_steps: steps taken within `wall_s`, over all environments.
        wall_s: duration of the job in seconds, measured by the worker inside training.
        episode_returns: undiscounted returns of the episodes that ended in this job.
        versions: versions of the system and of the libraries that it computes with.
        notes: how the system departs from the workload, such as with a uniform replay.
        terms_s: seconds within `wall_s` by part of the loop, if the system reports them.
        environment_steps_so_far: steps since the system began, with those before the first gradient step.
        evaluation_returns: undiscounted returns of the greedy episodes after the gradient steps, if asked for.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    gradient_steps: int = Field(ge=1, le=MOST_STEPS)
    environment_steps: int = Field(ge=0, le=MOST_STEPS)
    wall_s: float = Field(ge=LEAST_WALL_S, allow_inf_nan=False)
    episode_returns: list[FiniteFloat]
    versions: dict[str, str]
    notes: dict[str, str] = {}
    terms_s: dict[str, FiniteFloat] = {}
    environment_steps_so_far: int = Field(default=0, ge=0, le=MOST_STEPS)
    evaluation_returns: list[FiniteFloat] = []


def one_line(said: str) -> str:
    """Return untrusted text as one line of at most `MAX_LINE_CHARACTERS`, without control characters."""
    shown = said.strip()[:MAX_LINE_CHARACTERS]
    return "".join(character if character.isprintable() else " " for character in shown).strip()


class LastLines:
    """Keeps the last lines of a stream of bytes, such as a worker's standard error, in bounded memory."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._partial = b""

    def feed(self, data: bytes) -> None:
        """Add the next bytes of the stream."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._lines.extend(self._text(line) for line in lines[-LAST_LINES:])
        self._partial = self._partial[: 4 * MAX_LINE_CHARACTERS]

    def lines(self) -> list[str]:
        """Return the last lines that are not empty, oldest first, including an unfinished one."""
        tail = [self._text(self._partial)] if self._partial.strip() else []
        return [line for line in [*self._lines, *tail] if line][-LAST_LINES:]

    @staticmethod
    def _text(line: bytes) -> str:
        return one_line(line.decode(errors="replace"))


class GuardedProcess:
    """A command that runs under `harness.compare.guard`, which ends every process that the command has started.

    It does so when `end` is called, and also if this process dies.

    Args:
        cpus: processors that it may use; all by default.
        popen: further arguments of `subprocess.Popen`.
    """

    def __init__(self, command: Sequence[str], cpus: Sequence[int] | None = None, **popen: Any) -> None:
        processors = "all" if cpus is None else ",".join(map(str, cpus))
        lifeline_read, self._lifeline = os.pipe()
        try:
            self.process = subprocess.Popen(
                # -P: the harness's folder on sys.path would shadow modules of the standard library.
                [sys.executable, "-P", guard.__file__, str(lifeline_read), processors, *command],
                pass_fds=[lifeline_read],
                start_new_session=True,
                **popen,
            )
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(lifeline_read)

    def end(self, grace_s: float = 0.0) -> int:
        """End the command and every process that it started; return its exit status.

        Args:
            grace_s: seconds for which the command may first end by itself.
        """
        try:
            self.process.wait(grace_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if self._lifeline >= 0:
                os.close(self._lifeline)
                self._lifeline = -1
            try:
                self.process.wait(guard.TERMINATE_GRACE_S + guard.KILL_LIMIT_S + 1)
            except subprocess.TimeoutExpired:
                pass  # the guard itself hangs
            finally:
                if self.process.poll() is None:
                    os.killpg(self.process.pid, signal.SIGKILL)
                    self.process.wait()
        return self.process.returncode


class Worker:
    """A worker process: a training system that does jobs and answers each with a line of JSON.

    Args:
        environment_variables: added to a clean copy of this process's variables.
        cpus: processors that it and its children may use; all by default.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment_variables: Mapping[str, str] | None = None,
        cpus: Sequence[int] | None = None,
    ) -> None:
        self._stderr = LastLines()
        self._stdout = b""
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        environment |= {"PYTHONUNBUFFERED": "1"} | dict(environment_variables or {})
        self._guarded = GuardedProcess(
            command,
            cpus,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        process = self._guarded.process
        assert process.stdin
        assert process.stdout
        assert process.stderr
        self._in, self._out, self._err = process.stdin, process.stdout, process.stderr
        for stream in (self._in, self._out, self._err):
            os.set_blocking(stream.fileno(), False)

    def ask(self, job: WorkerJob, limit_s: float) -> WorkerResult:
        """Send a job and wait for its result.

        Raises:
            WorkerFailure: there is no valid result; the worker has been ended.
        """
        try:
            line = self._exchange(job.model_dump_json().encode() + b"\n", time.monotonic() + limit_s, limit_s)
            result = self._parse(line)
        except WorkerFailure:
            raise
        except BaseException:
            self.close()
            raise
        if result.gradient_steps < job.gradient_steps:
            raise self._failure(
                FailureKind.INVALID,
                f"took {result.gradient_steps} gradient steps where {job.gradient_steps} were asked",
            )
        return result

    def ask_json(self, request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """Send a request that has another answer than a `WorkerResult`, and return the answer, a JSON object.

        Raises:
            WorkerFailure: there is no valid answer, or it is `{"error": ...}`; the worker has been ended.
        """
        line = self._exchange(json.dumps(request).encode() + b"\n", time.monotonic() + limit_s, limit_s)
        try:
            answer = from_json(line, allow_inf_nan=False)  # `json.loads` would accept NaN and any depth
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._failure(FailureKind.INVALID, "its answer is not a JSON object")
        if "error" in answer:
            raise self._failure(FailureKind.REFUSED, str(answer["error"]))
        return answer

    def _exchange(self, request: bytes, deadline_s: float, limit_s: float) -> bytes:
        """Send a line and wait for the answer, keeping the last lines of standard error."""
        if self._out.closed:
            raise WorkerFailure(FailureKind.CRASH, "the worker is closed", self._stderr.lines())
        self._stdout += self._read_left(self._out.fileno())
        if self._stdout:
            raise self._failure(FailureKind.INVALID, "printed a line that no job asked for")
        with selectors.DefaultSelector() as selector:
            selector.register(self._in, selectors.EVENT_WRITE)
            selector.register(self._out, selectors.EVENT_READ)
            selector.register(self._err, selectors.EVENT_READ)
            while True:
                remaining_s = deadline_s - time.monotonic()
                if remaining_s <= 0:
                    raise self._failure(FailureKind.TIMEOUT, f"no answer within {limit_s:g} s")
                for key, _ in selector.select(remaining_s):
                    if key.fileobj is self._in:
                        try:
                            request = request[os.write(key.fd, request) :]
                        except BrokenPipeError:
                            request = b""
                        if not request:
                            selector.unregister(self._in)
                        continue
                    data = os.read(key.fd, 1 << 16)
                    if key.fileobj is self._err:
                        if data:
                            self._stderr.feed(data)
                        else:
                            selector.unregister(self._err)
                    elif not data:
                        raise self._failure(FailureKind.CRASH, "ended without an answer")
                    else:
                        self._stdout += data
                if len(self._stdout) > MAX_ANSWER_BYTES:
                    raise self._failure(FailureKind.FLOOD, f"answered more than {MAX_ANSWER_BYTES} bytes")
                line, newline, rest = self._stdout.partition(b"\n")
                if newline:
                    if request or rest:
                        raise self._failure(FailureKind.INVALID, "printed a line that no job asked for")
                    self._stdout = b""
                    return line

    def _parse(self, line: bytes) -> WorkerResult:
        try:
            return WorkerResult.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the line"
        try:
            refusal = _Refusal.model_validate_json(line)
        except ValidationError:
            pass
        else:
            raise self._failure(FailureKind.REFUSED, refusal.error)
        self._stderr.feed(b"\n" + line[:MAX_LINE_CHARACTERS] + b"\n")
        raise self._failure(FailureKind.INVALID, f"its answer is not a result: {where}: {first['msg']}")

    def _failure(self, kind: FailureKind, detail: str) -> WorkerFailure:
        """Close the worker, collect its last lines, and return the failure."""
        # A traceback may still arrive after standard output has ended.
        status = self.close(grace_s=1.0 if kind is FailureKind.CRASH else 0.0)
        if kind is FailureKind.CRASH:
            died = f"signal {status - 128}" if status > 128 else f"exit status {status}"
            detail = f"{detail} ({died})"
        return WorkerFailure(kind, one_line(detail), self._stderr.lines())

    def hang_up(self) -> None:
        """Close the worker's standard input, so that it ends, without waiting for its end."""
        if not self._in.closed:
            self._in.close()

    def abort(self) -> None:
        """Request the worker's end without waiting for it; an `ask` in another thread then raises `WorkerFailure`."""
        self._guarded.process.terminate()

    def close(self, grace_s: float = EXIT_GRACE_S) -> int:
        """End the worker and every process that it started, and return its exit status. Idempotent.

        Args:
            grace_s: seconds for which the worker may first end by itself.
        """
        self.hang_up()
        status = self._guarded.end(grace_s)
        if not self._err.closed:
            while data := self._read_left(self._err.fileno()):
                self._stderr.feed(data)
            self._err.close()
            self._out.close()
        return status

    @staticmethod
    def _read_left(descriptor: int) -> bytes:
        try:
            return os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(grace_s=EXIT_GRACE_S if kind is None else 0.0)


class _Refusal(BaseModel):
    model_config = ConfigDict(extra="forbid")

    error: str
