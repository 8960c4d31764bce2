"""Processing units (MAP Table II): a function in a thread of its own, with bounded queues of requests and answers."""

import os
import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from placerl.harness.core.errors import UserError

Request = TypeVar("Request")
Answer = TypeVar("Answer")

STALL_LIMIT_S = 60.0
_CLOSE_LIMIT_S = 2.0


class UnitError(RuntimeError):
    """An actor, a learner or another unit failed, stalled or returned invalid data.

    The message begins with the unit's name. If the unit runs in a thread, `__cause__` is the exception that it raised.
    """


class Unit(Generic[Request, Answer]):
    """A thread that answers requests in order.

    It runs in parallel with other units while its work releases the GIL, as native calls and simulators do.

    Args:
        name: name of the unit in error messages.
        work: function from a request to its answer; never called twice at the same time.
        depth: capacity of each of the two queues. If the queue of requests is full, `submit` waits; if the queue of
            answers is full, the thread waits.
    """

    def __init__(self, name: str, work: Callable[[Request], Answer], depth: int = 1) -> None:
        self.name = name
        self._work = work
        self._requests: queue.Queue[Request | None] = queue.Queue(depth)
        self._answers: queue.Queue[tuple[Answer | None, BaseException | None]] = queue.Queue(depth)
        self._closing = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def submit(self, request: Request, limit_s: float = STALL_LIMIT_S) -> None:
        """Put a request into the unit's queue, without waiting for the answer.

        Raises:
            UnitError: the unit has failed before, is closed, or took no request within `limit_s` seconds.
        """
        self._check()
        try:
            self._requests.put(request, timeout=limit_s)
        except queue.Full:
            raise UnitError(f"{self.name}: stalled: took no request for {limit_s:g} s") from None

    def result(self, limit_s: float = STALL_LIMIT_S) -> Answer:
        """Wait for the answer to the oldest unanswered request, and return it.

        Raises:
            UserError: the unit's function raised it.
            UnitError: the unit's function raised another exception, the unit is closed, or there was no answer within
                `limit_s` seconds.
        """
        self._check()
        try:
            answer, self._failure = self._answers.get(timeout=limit_s)
        except queue.Empty:
            raise UnitError(f"{self.name}: stalled: no answer for {limit_s:g} s") from None
        self._check()
        return answer  # type: ignore[return-value]

    def bind(self, core: int) -> None:
        """Bind the thread to a core; OSError if this process may not use it."""
        assert self._thread.native_id is not None
        os.sched_setaffinity(self._thread.native_id, {core})

    def close(self) -> None:
        """End the thread after its current request; waiting requests and answers are dropped."""
        self._closing.set()
        for waiting in (self._requests, self._answers):  # so that neither side waits for room
            _drain(waiting)
        self._requests.put(None)
        self._thread.join(_CLOSE_LIMIT_S)

    def _check(self) -> None:
        if isinstance(self._failure, UserError):  # it names what the user can mend
            raise self._failure
        if self._failure is not None:
            raise UnitError(
                f"{self.name}: {type(self._failure).__name__}: {self._failure}"
            ) from self._failure
        if self._closing.is_set():
            raise UnitError(f"{self.name}: closed")

    def _serve(self) -> None:
        while not self._closing.is_set():
            request = self._requests.get()
            if request is None:
                return
            try:
                self._answers.put((self._work(request), None))
            except BaseException as error:  # `sys.exit` too stops this unit and is reported to its user
                self._answers.put((None, error))
                return


def _drain(waiting: queue.Queue[Any]) -> None:
    try:
        while True:
            waiting.get_nowait()
    except queue.Empty:
        pass
