"""A processing unit in its own process: like `Unit`, a function that answers requests, but without a shared GIL.

Requests and answers are small and sent through a socket; large data is in `SharedArrays`. The process ends when its
unit is closed, and when its parent process ends for any reason.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any, Generic, NoReturn

import cloudpickle

from placerl.harness.core.errors import UserError
from placerl.harness.runtime.units.shared_arrays import SharedArrays
from placerl.harness.runtime.units.unit import STALL_LIMIT_S, Answer, Request, UnitError

START_LIMIT_S = 300.0  # to import PyTorch on a busy machine
_CLOSE_GRACE_S = 0.5


class ProcessUnit(Generic[Request, Answer]):
    """A process that answers requests in order.

    Args:
        name: name of the process in error messages.
        build: called in the new process with `shared`; returns the unit's function, from a request to its answer.
            Functions and classes of the main program are pickled by value.
        shared: arrays in memory that this process and the new one share.
        threads: threads of numerical libraries in the process.

    Raises:
        UnitError: `build` cannot be pickled.
    """

    def __init__(
        self,
        name: str,
        build: Callable[..., Callable[[Request], Answer]],
        *shared: SharedArrays,
        threads: int = 1,
    ) -> None:
        self.name = name
        self._failure: str | UserError | None = None
        self._ready = False
        try:
            payload = cloudpickle.dumps((build, [arrays.fields for arrays in shared]))
        except Exception as error:  # whatever the user's objects raise
            how = f"cannot be sent to its process: {type(error).__name__}: {error}"
            raise UnitError(f"{name}: {how}") from error
        ours, theirs = socket.socketpair()
        descriptors = [theirs.fileno(), *(arrays.descriptor for arrays in shared)]
        command = [sys.executable, "-P", "-m", "placerl.harness.runtime.units.process", str(os.getpid())]
        limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        with theirs:
            self._process = subprocess.Popen(
                [*command, *map(str, descriptors)],
                pass_fds=descriptors,
                env=os.environ | limits,
                stdin=subprocess.DEVNULL,
                # standard output is reserved for the command's own output
                stdout=sys.stderr if _is_file(sys.stderr) else None,
            )
        self._connection = Connection(ours.detach())
        # `Connection.poll` makes a selector at each call, which takes longer than all else.
        self._readable = select.poll()
        self._readable.register(self._connection.fileno(), select.POLLIN)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # `result` reports how it ended
            self._connection.send((sys.path, os.getcwd()))
            self._connection.send_bytes(payload)

    @property
    def pid(self) -> int:
        """Return the ID of the process."""
        return self._process.pid

    def wait_until_ready(self, limit_s: float = START_LIMIT_S) -> None:
        """Wait until the unit's function has been created.

        Raises:
            UserError: creating it raised this error.
            UnitError: creating it raised another one, the process ended, the unit is closed, or it took longer than
                `limit_s` seconds.
        """
        if not self._ready:
            self._receive(limit_s)
            self._ready = True

    def submit(self, request: Request) -> None:
        """Send a request to the process, without waiting for the answer.

        Raises:
            UnitError: the unit has failed before, or is closed.
        """
        self.wait_until_ready()
        self._check()
        try:
            self._connection.send(request)
        except (BrokenPipeError, ConnectionResetError):
            self._fail(self._how_it_ended())

    def result(self, limit_s: float = STALL_LIMIT_S) -> Answer:
        """Wait for the answer to the oldest unanswered request, and return it.

        Raises:
            UserError: the unit's function raised it.
            UnitError: the unit's function raised another exception, its process ended, the unit is closed, or there was
                no answer within `limit_s` seconds.
        """
        answer: Answer = self._receive(limit_s)
        return answer

    def ask_to_end(self) -> None:
        """Make the process end after its current answer, without waiting for it. Idempotent."""
        self._failure = self._failure or "closed"
        self._connection.close()  # ends the process if it waits for requests or wants to send its answer

    def close(self) -> None:
        """End the process; it is killed if it does not end by itself. Idempotent."""
        close_all([self])

    def wait_for_end(self, limit_s: float | None = None) -> None:
        """Wait until the process has ended, for at most `limit_s` seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(limit_s)

    def kill(self) -> None:
        """Kill the process if it has not ended, without waiting for it."""
        if self._process.poll() is None:
            self._process.kill()

    def _receive(self, limit_s: float) -> Any:
        self._check()
        try:
            if not self._readable.poll(1e3 * limit_s):
                raise UnitError(f"{self.name}: stalled: no answer for {limit_s:g} s")
            answer, error = self._connection.recv()
        except (EOFError, ConnectionResetError):
            self._fail(self._how_it_ended())
        if error is not None:
            self._fail(error)
        return answer

    def _check(self) -> None:
        if self._failure is not None:
            self._fail(self._failure)

    def _fail(self, how: str | UserError) -> NoReturn:
        self._failure = how
        if isinstance(how, UserError):  # it names what the user can mend
            raise how from None
        raise UnitError(f"{self.name}: {how}") from None

    def _how_it_ended(self) -> str:
        try:
            status = self._process.wait(_CLOSE_GRACE_S)
        except subprocess.TimeoutExpired:
            return "its process closed the connection"
        if status < 0:
            return f"its process was ended by {signal.Signals(-status).name}"
        return f"its process ended with status {status}"


def close_all(units: Sequence[ProcessUnit[Any, Any]]) -> None:
    """End several units together: all of them have the same half second to end by themselves, then they are killed."""
    for unit in units:
        unit.ask_to_end()
    deadline_s = monotonic() + _CLOSE_GRACE_S
    for unit in units:
        unit.wait_for_end(max(0.0, deadline_s - monotonic()))
    for unit in units:
        unit.kill()
    for unit in units:
        unit.wait_for_end()


def _is_file(stream: Any) -> bool:
    try:
        return stream.fileno() >= 0
    except (AttributeError, OSError, ValueError):
        return False


def _end_with(parent: int) -> None:
    """End this process as soon as its parent has ended."""
    try:
        ended = os.pidfd_open(parent)
    except ProcessLookupError:
        os._exit(1)
    if os.getppid() != parent:
        os._exit(1)

    def wait() -> None:
        select.select([ended], [], [])
        os._exit(1)

    threading.Thread(target=wait, name="parent", daemon=True).start()


def serve(parent: int, descriptor: int, *memory: int) -> None:
    """Run as the unit's process: create the function, then answer requests until the connection closes.

    Args:
        parent: ID of the parent process; this process ends when it does.
        descriptor: file descriptor of the socket to the parent.
        memory: file descriptors of the shared arrays.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent closes the unit
    _end_with(parent)
    connection = Connection(descriptor)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the parent has ended
        sys.path[:], folder = connection.recv()
        os.chdir(folder)
        payload = connection.recv_bytes()

        def make() -> Callable[[Any], Any]:
            build, fields = cloudpickle.loads(payload)
            work: Callable[[Any], Any] = build(*map(SharedArrays, fields, memory))
            return work

        work, error = _attempt(make)
        connection.send((None, error))
        while error is None:
            answer, error = _attempt(partial(work, connection.recv()))
            connection.send((answer, error))


def _attempt(do: Callable[[], Any]) -> tuple[Any, str | UserError | None]:
    try:
        return do(), None
    except UserError as error:
        return None, error
    except Exception as error:  # any exception stops this unit and is reported to the parent
        return None, f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    serve(*map(int, sys.argv[1:]))
