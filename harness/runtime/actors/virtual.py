"""Actors beside the learner in virtual time."""

from harness.runtime.actors.actor import Actor
from harness.runtime.actors.in_process import InlineActors, Transitions
from harness.runtime.clock import ACTORS, Made, RealTime
from harness.runtime.units.unit import STALL_LIMIT_S
from primitives.learner import Learner


class VirtualActors(InlineActors):
    """One actor on a core of its own, of which there is none: it steps when it is asked, and its clock runs beside.

    It acts on the weights from when it is asked, as a double-buffered policy would have it.

    Args:
        actor: steps the environments.
        learner: acts.
        time: the run's.
    """

    def __init__(self, actor: Actor, learner: Learner, time: RealTime) -> None:
        super().__init__(actor, learner)
        self._time = time
        self._made: Made[Transitions]

    def submit(self, steps: int, explore: bool = True) -> None:
        """See `Actors.submit`."""
        super().submit(steps, explore)
        self._made = self._time.call(ACTORS, "act", super().result)

    def result(self, limit_s: float = STALL_LIMIT_S) -> Transitions:
        """See `Actors.result`; the host waits until it is there."""
        self._time.wait(self._made.ready_s)
        return self._made.value
