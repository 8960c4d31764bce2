"""Actors as the training loop uses them: they take requests for environment steps and return transitions.

| class | where the environments are stepped | weights |
|---|---|---|
| `InlineActors` | in the caller's thread, when the result is requested | the learner's own |
| `ThreadActors` | in a thread, in parallel with the learner | a copy, double-buffered |
| `harness.runtime.actors.pool.ActorPool` | in processes, in parallel | a copy, double-buffered |
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy.typing as npt

from placerl.harness.runtime.actors.actor import Actor, Episode
from placerl.harness.runtime.actors.double_buffer import DoubleBufferedPolicy
from placerl.harness.runtime.units.unit import STALL_LIMIT_S, Unit, UnitError
from placerl.primitives.learner import Learner
from placerl.primitives.learner.columns import all_finite

Transitions = dict[str, npt.NDArray]
"""Transitions by column, (steps * environments, ...), in the order of the steps: views that a request overwrites."""


def refuse_invalid(actor: str, columns: Transitions) -> None:
    """Raise UnitError if a column of floats holds NaN or infinity.

    Args:
        actor: name of the actor, for the message.
        columns: transitions by column.
    """
    for name, column in columns.items():
        if column.dtype.kind == "f" and not all_finite(column):
            raise UnitError(f"{actor}: returned invalid data: NaN or infinity in {name!r}")


class Collecting(ABC):
    """What a training reads of its actors, however these work.

    Attributes:
        environment_steps: steps taken so far, over all environments.
        environment_s, inference_s: seconds spent so far in environments and in choosing actions.
    """

    environment_steps: int
    environment_s: float
    inference_s: float

    @abstractmethod
    def take_episodes(self) -> list[Episode]:
        """Return the episodes that ended since the last call, oldest first."""

    @abstractmethod
    def close(self) -> None:
        """End the actors' threads or processes, if there are any, and close the environments. Idempotent."""


class Actors(Collecting):
    """The interface through which a training uses its actors, whatever threads or processes they run in."""

    @abstractmethod
    def submit(self, steps: int, explore: bool = True) -> None:
        """Request `steps` vector steps, each of which steps every environment once; only one request may be open.

        Args:
            explore: whether the policy chooses the actions, with its exploration; otherwise they are
                uniformly random.
        """

    @abstractmethod
    def result(self, limit_s: float = STALL_LIMIT_S) -> Transitions:
        """Return the transitions of the last request.

        Raises:
            UnitError: an actor died, took longer than `limit_s` seconds or returned invalid numbers; the message
                names it.
        """

    @abstractmethod
    def publish(self) -> None:
        """Make the next requests use the learner's current weights. The learner must not step during the call."""

    def collect(self, steps: int, explore: bool = True) -> Transitions:
        """Request `steps` vector steps, and return their transitions: `submit`, then `result`.

        Args:
            steps: number of vector steps, each of which steps every environment once.
            explore: whether the policy chooses the actions; otherwise they are random.
        """
        self.submit(steps, explore)
        return self.result()


ONE = "actor"
"""Name in error messages of an actor that is the only one."""
CHECKED_ROWS = 64
"""Fewest rows in which `InlineActors` search for NaN and infinity. For fewer rows, the search would take a quarter
of a fused gradient step; invalid numbers are then searched for when a later step fails (`Training.take`).
"""


class InlineActors(Actors):
    """One actor in the caller's thread, which uses the learner's own weights.

    Args:
        actor: steps the environments.
        learner: chooses the actions.
    """

    def __init__(self, actor: Actor, learner: Learner) -> None:
        self._actor = actor
        self._learner = learner
        self._asked: tuple[int, bool]  # steps, and whether to explore

    @property
    def environment_steps(self) -> int:  # type: ignore[override]
        """Return the number of environment steps taken so far, over all environments."""
        return self._actor.environment_steps

    @property
    def environment_s(self) -> float:  # type: ignore[override]
        """Return the seconds spent so far in environments."""
        return self._actor.environment_s

    @property
    def inference_s(self) -> float:  # type: ignore[override]
        """Return the seconds spent so far in choosing actions."""
        return self._actor.inference_s

    def submit(self, steps: int, explore: bool = True) -> None:
        """Store the request for `steps` vector steps; `result` then takes these steps.

        A vector step steps every environment once.

        Args:
            explore: whether the policy chooses the actions; otherwise they are random.
        """
        self._asked = steps, explore

    def result(self, limit_s: float = STALL_LIMIT_S) -> Transitions:
        """Take the requested steps, and return their transitions; exceptions of the environments are not caught.

        The steps are taken in the caller's thread, so `limit_s` is ignored.
        """
        return self.collect(*self._asked)

    def collect(self, steps: int, explore: bool = True) -> Transitions:
        """Take `steps` vector steps now, and return their transitions.

        Args:
            steps: number of vector steps, each of which steps every environment once.
            explore: whether the policy chooses the actions; otherwise they are random.

        Raises:
            UnitError: the observations for the policy, or at least `CHECKED_ROWS` returned rows, hold NaN
                or infinity.
        """
        try:
            policy = self._learner.explore if explore else None
            transitions = self._actor.collect(steps, policy, self._td_errors)
        except ValueError:  # raised by the policy if its inputs are invalid
            refuse_invalid(ONE, {"observation": self._actor.observations})
            raise
        if len(transitions["reward"]) >= CHECKED_ROWS:
            refuse_invalid(ONE, transitions)
        return transitions

    def _td_errors(self, transitions: Mapping[str, npt.NDArray]) -> npt.NDArray:
        return self._learner.acting_td_errors(transitions)

    def publish(self) -> None:
        """Do nothing: the learner itself chooses the actions."""

    def take_episodes(self) -> list[Episode]:
        """Return the episodes that ended since the last call, oldest first."""
        return self._actor.take_episodes()

    def close(self) -> None:
        """Close the environments."""
        self._actor.close()


class ThreadActors(InlineActors):
    """One actor in its own thread, which runs in parallel with the learner when either releases the GIL.

    Args:
        actor: steps the environments.
        learner: the learner whose weights are used; the actor starts with its current weights.
    """

    def __init__(self, actor: Actor, learner: Learner) -> None:
        super().__init__(actor, learner)
        self._policy = DoubleBufferedPolicy(learner)
        self._unit: Unit[tuple[int, bool], Transitions] = Unit(ONE, self._work)
        self._published = False  # both buffers are equal

    def submit(self, steps: int, explore: bool = True) -> None:
        """Start vector steps in the actor's thread, with the weights that were published last.

        Args:
            steps: number of vector steps, each of which steps every environment once.
            explore: whether the policy chooses the actions; otherwise they are random.
        """
        if self._published:
            self._policy.swap()
            self._published = False
        self._unit.submit((steps, explore))

    def result(self, limit_s: float = STALL_LIMIT_S) -> Transitions:
        """Wait for the transitions of the last request, and return them by column.

        Args:
            limit_s: most seconds to wait.

        Raises:
            UnitError: the actor failed, took longer than `limit_s`, or returned numbers that are not finite.
        """
        transitions = self._unit.result(limit_s)
        refuse_invalid(ONE, transitions)
        return transitions

    def collect(self, steps: int, explore: bool = True) -> Transitions:
        """Request `steps` vector steps from the thread, and return their transitions.

        Args:
            steps: number of vector steps, each of which steps every environment once.
            explore: whether the policy chooses the actions; otherwise they are random.
        """
        self.submit(steps, explore)
        return self.result()

    def publish(self) -> None:
        """Copy the learner's weights to the buffer that the next request reads. The learner must not step meanwhile."""
        self._policy.publish()
        self._published = True

    def close(self) -> None:
        """End the thread and close the environments."""
        self._unit.close()
        super().close()

    def _work(self, request: tuple[int, bool]) -> Transitions:
        steps, explore = request
        return self._actor.collect(steps, self._policy if explore else None, self._policy.acting_td_errors)
