"""The actor side of a training, wherever it runs: asked for vector steps, it answers with transitions.

| class | where the environments are stepped | weights |
|---|---|---|
| `InlineActors` | in the caller's thread, when the result is asked for | the learner's own |
| `ThreadActors` | in a thread, beside the learner | a copy, double-buffered |
| `harness.runtime.actors.pool.ActorPool` | in processes, beside the learner and each other | a copy, double-buffered |
"""

from abc import ABC, abstractmethod

import numpy.typing as npt

from harness.runtime.actors.actor import Actor, Episode
from harness.runtime.actors.double_buffer import DoubleBufferedPolicy
from harness.runtime.units.unit import STALL_LIMIT_S, Unit, UnitError
from primitives.learner import Learner
from primitives.learner.base import all_finite

Transitions = dict[str, npt.NDArray]
"""By column, (steps * environments, ...), in the order of the steps: views that the next request overwrites."""


def refuse_rubbish(actor: str, columns: Transitions) -> None:
    """UnitError, which names the actor, where a column of floats holds NaN or infinity."""
    for name, column in columns.items():
        if column.dtype.kind == "f" and not all_finite(column):
            raise UnitError(f"{actor}: returned rubbish: NaN or infinity in {name!r}")


class Actors(ABC):
    """What the training loops need of actors.

    Attributes:
        environment_steps: taken so far, over all environments.
        environment_s, inference_s: seconds spent so far in environments, and in choosing actions.
    """

    environment_steps: int
    environment_s: float
    inference_s: float

    @abstractmethod
    def submit(self, steps: int, explore: bool = True) -> None:
        """Ask for vector steps, at random where they are not to `explore`; one request waits at most."""

    @abstractmethod
    def result(self, limit_s: float = STALL_LIMIT_S) -> Transitions:
        """The transitions of the last request.

        Raises:
            UnitError: an actor died, stalled for `limit_s` seconds or returned rubbish; names it.
        """

    @abstractmethod
    def publish(self) -> None:
        """Have the next requests act on the learner's present weights. The learner must stand still."""

    @abstractmethod
    def take_episodes(self) -> list[Episode]:
        """The episodes that ended since the last call, oldest first."""

    @abstractmethod
    def close(self) -> None:
        """End what was started, and close the environments. Again is nothing."""

    def collect(self, steps: int, explore: bool = True) -> Transitions:
        """`submit` and `result`."""
        self.submit(steps, explore)
        return self.result()


ONE = "actor"
"""What the only one is called."""
CHECKED_ROWS = 64
"""Of fewer in turns with the learner, the check would be a quarter of a fused gradient step: rubbish among them is
looked for when something fails on it (`Training.take`)."""


class InlineActors(Actors):
    """One actor in the caller's thread, on the learner's own weights.

    Args:
        actor: steps the environments.
        learner: acts.
    """

    def __init__(self, actor: Actor, learner: Learner) -> None:
        self._actor = actor
        self._learner = learner
        self._asked: tuple[int, bool]  # steps, and whether to explore

    @property
    def environment_steps(self) -> int:  # type: ignore[override]
        """Taken so far, over all environments."""
        return self._actor.environment_steps

    @property
    def environment_s(self) -> float:  # type: ignore[override]
        """Seconds spent so far in environments."""
        return self._actor.environment_s

    @property
    def inference_s(self) -> float:  # type: ignore[override]
        """Seconds spent so far in choosing actions."""
        return self._actor.inference_s

    def submit(self, steps: int, explore: bool = True) -> None:
        """See `Actors.submit`; the work is done in `result`."""
        self._asked = steps, explore

    def result(self, limit_s: float = STALL_LIMIT_S) -> Transitions:
        """See `Actors.result`; what the environments raise comes as it is."""
        return self.collect(*self._asked)

    def collect(self, steps: int, explore: bool = True) -> Transitions:
        """See `Actors.collect`."""
        try:
            transitions = self._actor.collect(steps, self._learner.explore if explore else None)
        except ValueError:  # the policy's, if what it was to act on is rubbish
            refuse_rubbish(ONE, {"observation": self._actor.observations})
            raise
        if len(transitions["reward"]) >= CHECKED_ROWS:
            refuse_rubbish(ONE, transitions)
        return transitions

    def publish(self) -> None:
        """Nothing to do: the learner itself acts."""

    def take_episodes(self) -> list[Episode]:
        """See `Actors.take_episodes`."""
        return self._actor.take_episodes()

    def close(self) -> None:
        """Close the environments."""
        self._actor.close()


class ThreadActors(InlineActors):
    """One actor in a thread of its own, which runs beside the learner as far as either lets go of the GIL.

    Args:
        actor: steps the environments.
        learner: whose weights are acted on; the actor starts with them as they are now.
    """

    def __init__(self, actor: Actor, learner: Learner) -> None:
        super().__init__(actor, learner)
        self._policy = DoubleBufferedPolicy(learner)
        self._unit: Unit[tuple[int, bool], Transitions] = Unit(ONE, self._work)
        self._published = False  # both buffers are alike

    def submit(self, steps: int, explore: bool = True) -> None:
        """See `Actors.submit`."""
        if self._published:
            self._policy.swap()
            self._published = False
        self._unit.submit((steps, explore))

    def result(self, limit_s: float = STALL_LIMIT_S) -> Transitions:
        """See `Actors.result`."""
        transitions = self._unit.result(limit_s)
        refuse_rubbish(ONE, transitions)
        return transitions

    def collect(self, steps: int, explore: bool = True) -> Transitions:
        """See `Actors.collect`."""
        self.submit(steps, explore)
        return self.result()

    def publish(self) -> None:
        """See `Actors.publish`."""
        self._policy.publish()
        self._published = True

    def close(self) -> None:
        """End the thread and close the environments."""
        self._unit.close()
        super().close()

    def _work(self, request: tuple[int, bool]) -> Transitions:
        steps, explore = request
        return self._actor.collect(steps, self._policy if explore else None)
