"""Parallel actors in processes (PRL 3.1): each steps its environments with its own copy of the policy.

An actor writes the transitions of a whole request directly into memory shared with the host, because a message per
step would cost more than most environments do. Weights are double-buffered (PRL 3.3.2): the actors read one buffer
while the next weights are copied to the other.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt

from placerl.harness.environments.native_pool import Pool
from placerl.harness.runtime.actors.actor import Actor, Episode
from placerl.harness.runtime.actors.in_process import Actors, refuse_invalid
from placerl.harness.runtime.actors.pooled import PooledActor
from placerl.harness.runtime.units.inline import InlineUnit
from placerl.harness.runtime.units.process import ProcessUnit, close_all
from placerl.harness.runtime.units.shared_arrays import SharedArrays
from placerl.harness.runtime.units.unit import STALL_LIMIT_S, UnitError
from placerl.primitives.learner import Learner
from placerl.primitives.learner.base import Policy
from placerl.primitives.replay.storage import FieldSpec


@dataclass(frozen=True)
class ActorPlan:
    """The description of an actor, from which it is created in this or another process.

    Attributes:
        environments: functions that each create one environment that has been reset with its seed.
        seed: seed of the random numbers of actions.
        fields: columns of a transition, with shape and dtype.
        local_storage: number of vector steps (steps of all environments) whose transitions the actor can hold.
        clip: whether the policy's actions may be outside [-1, 1] and are clipped for the environments.
        together: creates a pool that steps all the environments in one call; None: they are stepped one
            after another.
        environment_steps: environment steps, over all environments, that count as taken before.
    """

    environments: tuple[Callable[[], gymnasium.Env[Any, Any]], ...]
    seed: np.random.SeedSequence
    fields: Mapping[str, FieldSpec]
    local_storage: int
    clip: bool = False
    together: Callable[[tuple[Any, ...]], Pool] | None = None
    environment_steps: int = 0

    def build(self, columns: Mapping[str, npt.NDArray] | None = None) -> Actor:
        """Create the actor with its environments.

        Args:
            columns: arrays for the transitions that it collects, by column; by default new arrays.
        """
        rng = np.random.default_rng(self.seed)
        create = PooledActor if self.together else Actor
        environments: Any = (
            self.together(self.environments) if self.together else [make() for make in self.environments]
        )
        actor = create(environments, rng, self.fields, self.local_storage, clip=self.clip, columns=columns)
        actor.environment_steps = self.environment_steps
        return actor

    def split(self, parts: int) -> list["ActorPlan"]:
        """Divide the environments evenly among `parts` actors, and return each actor's plan, with a seed of its own.

        The seeds are the same at every call.
        """
        # `spawn` counts what it gave, so a sequence of its own.
        seed = np.random.SeedSequence(self.seed.entropy, spawn_key=self.seed.spawn_key)
        bounds = np.linspace(0, len(self.environments), parts + 1).round().astype(int)
        return [
            replace(self, environments=self.environments[first:end], seed=own)
            for first, end, own in zip(bounds[:-1], bounds[1:], seed.spawn(parts), strict=True)
        ]

    def columns(self) -> dict[str, FieldSpec]:
        """Return the shape and dtype of each array that holds the collected transitions, by column of a transition."""
        rows = self.local_storage * len(self.environments)
        return {name: FieldSpec((rows, *field.shape), field.dtype) for name, field in self.fields.items()}


class _Request(NamedTuple):
    steps: int
    environment_steps: int  # steps that all actors have taken so far
    stepped: int  # number of environments that the active actors step together
    buffer: int  # buffer of the weights to use
    explore: bool  # whether the policy chooses the actions; otherwise they are random


class _Answer(NamedTuple):
    rows: int
    episodes: list[Episode]
    environment_s: float
    inference_s: float


def _work(
    plan: ActorPlan, policy: Policy, columns: SharedArrays, *weights: SharedArrays
) -> Callable[[_Request], _Answer]:
    """Create the actor's function inside its process."""
    actor = plan.build(columns)
    buffers = [dict(buffer) for buffer in weights]

    def work(request: _Request) -> _Answer:
        before = actor.environment_steps, actor.environment_s, actor.inference_s
        scale = request.stepped / len(plan.environments)

        def overall(own_steps: int) -> int:
            return request.environment_steps + round((own_steps - before[0]) * scale)

        def explore(observations: npt.NDArray, own_steps: int, rng: np.random.Generator) -> npt.NDArray:
            return policy.explore(buffers[request.buffer], observations, overall(own_steps), rng)

        def td_errors(transitions: Mapping[str, npt.NDArray]) -> npt.NDArray:
            return policy.acting_td_errors(buffers[request.buffer], transitions)

        actor.collect(request.steps, explore if request.explore else None, td_errors)
        return _Answer(
            actor.environment_steps - before[0],
            [Episode(overall(step), value) for step, value in actor.take_episodes()],
            actor.environment_s - before[1],
            actor.inference_s - before[2],
        )

    return work


class ActorPool(Actors):
    """Behaves like one `Actor` of all the environments, but steps them in parallel processes.

    The same plan, number of processes and weights give the same transitions.

    Args:
        plan: plan of all the environments together.
        learner: the learner whose weights, and whose method `explore`, choose the actions.
        processes: number of processes, at least 1 and at most one per environment.
        inline: whether the actors work in this process, one after another, for virtual time.

    Attributes:
        learner: the learner whose weights are used.
        active: number of actors that step, 1 to `processes`. The environments of the others pause, and the active
            ones take more steps in their place. Steps beyond those requested, which make the steps of each
            environment a whole number, are subtracted from the next request.
        environment_steps: steps taken so far, over all environments.
        environment_s, inference_s: seconds spent so far in environments and in choosing actions, by the slowest
            actor of each request, because the actors run in parallel.
        in_turns_s: seconds so far by which actors in this process took longer than the slowest of them.

    Raises:
        UnitError: an actor could not be created.
    """

    def __init__(
        self,
        plan: ActorPlan,
        learner: Learner,
        processes: int,
        *,
        inline: bool = False,
    ) -> None:
        if not 1 <= processes <= len(plan.environments):
            raise ValueError(f"processes: found {processes}; allowed: 1 to {len(plan.environments)}")
        plans = plan.split(processes)
        self.learner = learner
        self._plan = plan
        self._widths = [len(part.environments) for part in plans]
        self._columns = {name: np.zeros(field.shape, field.dtype) for name, field in plan.columns().items()}
        self._shared = [SharedArrays(part.columns()) for part in plans]
        self._weights = [SharedArrays.like(learner.policy_parameters()) for _ in range(2)]
        self._read = 0
        self.active = processes
        self._asked: tuple[int, int]  # actors, and steps of each of their environments
        self._surplus = 0  # environment steps that the actors were asked for beyond those of `submit`
        self._episodes: list[Episode] = []
        self.environment_steps = plan.environment_steps
        self.environment_s = 0.0
        self.inference_s = 0.0
        self.in_turns_s = 0.0
        self._units: list[ProcessUnit[_Request, _Answer] | InlineUnit[_Request, _Answer]] = []
        try:
            for number, (part, columns) in enumerate(zip(plans, self._shared, strict=True)):
                build = partial(_work, part, learner.policy())
                name, shared = f"actor {number}", (columns, *self._weights)
                self._units.append(
                    InlineUnit(name, build, *shared) if inline else ProcessUnit(name, build, *shared)
                )
            for unit in self._units:
                unit.wait_until_ready()
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int]:
        """Return the IDs of the processes."""
        return [unit.pid for unit in self._units]

    def bind(self, cores: Sequence[int]) -> None:
        """Bind each process to a core; OSError if one has ended, or if this process may not use a core."""
        for pid, core in zip(self.pids, cores, strict=True):
            os.sched_setaffinity(pid, {core})

    def publish(self) -> None:
        """Copy the learner's weights to the buffer that no actor reads, for the next requests; see `Actors.publish`."""
        self._weights[1 - self._read].fill(self.learner.policy_parameters())
        self._read = 1 - self._read

    def follow(self, learner: Learner) -> None:
        """Make the next requests use the current weights of another learner, whose policy is the same."""
        self.learner = learner
        self.publish()

    def submit(self, steps: int, explore: bool = True) -> None:
        """Request vector steps, each of which steps every environment once, from the active actors.

        If not all actors are active, the environments of the active ones take more steps, so that the total
        over all requests is the same, up to less than one vector step of the active environments.

        Args:
            explore: whether the policy chooses the actions; otherwise they are random.

        Raises:
            ValueError: `steps` is below 1, or each environment would take more steps than the local storage holds.
        """
        active = self._units[: self.active]
        width = sum(self._widths[: len(active)])
        missing = steps * len(self._plan.environments) - self._surplus
        each = ceil(missing / width)
        if not 1 <= each <= self._plan.local_storage:
            raise ValueError(
                f"steps: found {each} of each environment; allowed: 1 to {self._plan.local_storage}"
            )
        request = _Request(each, self.environment_steps, width, self._read, explore)
        for unit in active:
            unit.submit(request)
        self._asked = len(active), each
        self._surplus = each * width - missing

    def result(self, limit_s: float = STALL_LIMIT_S) -> dict[str, npt.NDArray]:
        """Wait for the transitions of the last request, and return them.

        Returns:
            The transitions by column, in the order in which one `Actor` with the active actors' environments would
            return them: views that the next request overwrites.

        Raises:
            UnitError: an actor died, took longer than `limit_s` seconds or returned invalid data; the message
                names it.
        """
        active, steps = self._asked
        units, widths = self._units[:active], self._widths[:active]
        answers = [unit.result(limit_s) for unit in units]
        worked_s = [unit.worked_s for unit in units if isinstance(unit, InlineUnit)]
        self.in_turns_s += sum(worked_s) - max(worked_s, default=0.0)
        for unit, answer, width in zip(units, answers, widths, strict=True):
            if answer.rows != steps * width:
                raise UnitError(f"{unit.name}: returned invalid data: {answer.rows} rows for {steps * width}")
        rows, transitions = steps * sum(widths), {}
        for name, column in self._columns.items():
            parts = [self._part(i, name, steps) for i in range(active)]
            transitions[name] = column[:rows]
            if active == 1:
                transitions[name] = parts[0].reshape(rows, *column.shape[1:])
            else:
                np.concatenate(parts, 1, column[:rows].reshape(steps, -1, *column.shape[1:]))
        self.environment_steps += rows
        self.environment_s += max(answer.environment_s for answer in answers)
        self.inference_s += max(answer.inference_s for answer in answers)
        self._episodes += sorted(episode for answer in answers for episode in answer.episodes)
        return transitions

    def take_episodes(self) -> list[Episode]:
        """Return the episodes that ended since the last call, oldest first."""
        episodes, self._episodes = self._episodes, []
        return episodes

    def close(self) -> None:
        """End every process, and release the shared memory. Idempotent."""
        close_all([unit for unit in self._units if isinstance(unit, ProcessUnit)])
        for arrays in (*self._shared, *self._weights):
            arrays.close()

    def _part(self, number: int, name: str, steps: int) -> npt.NDArray:
        column = self._shared[number][name][: steps * self._widths[number]]
        refuse_invalid(self._units[number].name, {name: column})
        return column.reshape(steps, self._widths[number], *column.shape[1:])
