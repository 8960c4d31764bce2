"""A processing unit in the caller's thread, for virtual time: it works when its answer is requested."""

from collections.abc import Callable
from functools import partial
from typing import Generic

from placerl.harness.measure.full_speed import own_time
from placerl.harness.runtime.units.shared_arrays import SharedArrays
from placerl.harness.runtime.units.unit import STALL_LIMIT_S, Answer, Request


class InlineUnit(Generic[Request, Answer]):
    """Answers one request at a time, with the interface of `ProcessUnit`; exceptions of its function are not caught.

    Args:
        name: name of the unit in error messages.
        build: called with `shared`; returns the unit's function, from a request to its answer.
        shared: the arrays that the function reads and writes.

    Attributes:
        pid: 0, because it has no process.
        worked_s: seconds that the last answer took, without waiting for a core.
    """

    pid = 0

    def __init__(
        self, name: str, build: Callable[..., Callable[[Request], Answer]], *shared: SharedArrays
    ) -> None:
        self.name = name
        self.worked_s = 0.0
        self._work = build(*shared)
        self._asked: Request

    def wait_until_ready(self) -> None:
        """Do nothing: the function was created with the unit."""

    def submit(self, request: Request) -> None:
        """Store a request; `result` answers it."""
        self._asked = request

    def result(self, limit_s: float = STALL_LIMIT_S) -> Answer:
        """Answer the stored request now, in the caller's thread, so that `limit_s` is ignored."""
        answer, self.worked_s = own_time(partial(self._work, self._asked))
        return answer

    def close(self) -> None:
        """Do nothing: the unit has no process."""
