"""The three roles of a training on a cluster, each a Ray actor: environments, a shard of the replay, a learner.

What they hand to one another goes through Ray's object store. A role that dies is started anew by Ray, and the call it
died in is made again: an actor goes on in new episodes, a shard begins empty, and a learner takes the state of the
call before, which it is handed with each call, so that nothing it learnt is lost.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import ray
import torch

from harness.cluster.connection import RESTARTS
from harness.mapping import Mapping
from harness.runtime import compose
from harness.runtime.actor import Episode
from harness.runtime.actor_pool import ActorPlan
from harness.runtime.compose import Fusion
from harness.runtime.training import not_overwritten
from harness.workload import Workload

UNTIL_GONE = -1
"""Calls are made again for as long as Ray starts their role anew: while a machine is dying it takes several tries."""
Arrays = dict[str, npt.NDArray]


@dataclass
class Told:
    """What a role tells of one call.

    Attributes:
        process: changes when Ray has started the role anew.
        node: Ray's name of the machine that it is on.
        steps: environment steps or gradient steps taken.
        seconds: spent, by term.
        episodes: that ended.
        losses: of the last gradient step.
    """

    process: str
    node: str
    steps: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    episodes: list[Episode] = field(default_factory=list)
    losses: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, term: str) -> Iterator[None]:
        """Counts what is enclosed."""
        begin_s = perf_counter()
        yield
        self.seconds[term] = self.seconds.get(term, 0.0) + perf_counter() - begin_s


class Batch(NamedTuple):
    """A sampled batch on its way to a learner."""

    columns: Arrays
    weights: npt.NDArray[np.float32]


class Ticket(NamedTuple):
    """Where batches came from, for the update of their priorities.

    Attributes:
        process: of the shard; another one holds other items.
        indices: (B,) rows of each batch.
        inserted: items that the shard had taken when they were sampled.
    """

    process: str
    indices: list[npt.NDArray[np.int64]]
    inserted: int


class _Role:
    def __init__(self, threads: int = 1) -> None:
        torch.set_num_threads(threads)
        self._process = uuid4().hex
        self._node = ray.get_runtime_context().get_node_id()

    def _told(self) -> Told:
        return Told(self._process, self._node)


def _owned(arrays: Arrays) -> Arrays:
    """Copies: what comes out of the object store cannot be written, which PyTorch and C++ want of their inputs."""
    return {name: np.array(array) for name, array in arrays.items()}


@ray.remote(num_cpus=0, max_restarts=RESTARTS, max_task_retries=UNTIL_GONE)
class EnvironmentActor(_Role):
    """Steps some of the environments.

    Args:
        plan: its environments.
        workload: whose algorithm acts.
        share: environments of all actors together, over its own.
    """

    def __init__(self, plan: ActorPlan, workload: Workload, share: float) -> None:
        super().__init__()
        self._actor = plan.build()
        self._algorithm = compose.algorithm_of(workload)
        self._share = share

    @ray.method(num_returns=2)
    def collect(self, steps: int, weights: Arrays | None, environment_steps: int) -> tuple[Arrays, Told]:
        """Vector steps under the weights, at random without; `environment_steps`: that all actors have taken so far."""
        told, actor = self._told(), self._actor
        before, spent = actor.environment_steps, (actor.environment_s, actor.inference_s)

        def overall(own_steps: int) -> int:
            return environment_steps + round((own_steps - before) * self._share)

        policy: Callable[..., npt.NDArray] | None = None
        if weights is not None:
            acting = _owned(weights)

            def policy(observations: npt.NDArray, own_steps: int, rng: np.random.Generator) -> npt.NDArray:
                return self._algorithm.explore(acting, observations, overall(own_steps), rng)

        transitions = actor.collect(steps, policy)
        told.steps = actor.environment_steps - before
        told.seconds = {"environment": actor.environment_s - spent[0], "infer": actor.inference_s - spent[1]}
        told.episodes = [Episode(overall(step), value) for step, value in actor.take_episodes()]
        return transitions, told


@ray.remote(num_cpus=0, max_restarts=RESTARTS, max_task_retries=UNTIL_GONE)
class ReplayShard(_Role):
    """A part of the replay, with priorities of its own.

    Args:
        workload: of the shard's own capacity.
        mapping: what keeps the priorities.
        seed: of sampling.
    """

    def __init__(self, workload: Workload, mapping: Mapping, seed: np.random.SeedSequence) -> None:
        super().__init__()
        storage = compose.storage_of(workload, mapping)
        fused = Fusion.REPLAY in compose.fusions(workload, mapping, presampled_batches=0)
        self._replay = compose.replay_of(workload, mapping, storage, Fusion.REPLAY if fused else Fusion.NONE)
        self._capacity = storage.capacity
        self._rng = np.random.default_rng(seed)
        self._inserted = 0

    def insert(self, transitions: Arrays) -> Told:
        """Takes what an actor has collected."""
        told = self._told()
        with told.timed("insert"):
            self._replay.insert(transitions)
        told.steps = len(transitions["reward"])
        self._inserted += told.steps
        return told

    @ray.method(num_returns=3)
    def sample(self, batches: int, batch_size: int) -> tuple[list[Batch], Ticket, Told]:
        """Batches of a size; none while there are not so many items, as after a new start."""
        told = self._told()
        drawn = []
        if len(self._replay) >= batch_size:
            with told.timed("sample"):
                drawn = [self._replay.sample(batch_size, self._rng) for _ in range(batches)]
        ticket = Ticket(self._process, [sample.indices for sample in drawn], self._inserted)
        return [Batch(sample.batch, sample.weights) for sample in drawn], ticket, told

    def update(self, ticket: Ticket, td_errors: Sequence[npt.NDArray]) -> Told:
        """The new priorities of batches that were sampled here, but of items that have been replaced since."""
        told = self._told()
        if ticket.process == self._process:
            with told.timed("update"):
                for indices, errors in zip(ticket.indices, td_errors, strict=True):
                    kept = not_overwritten(indices, self._capacity, self._inserted, ticket.inserted)
                    self._replay.update_priorities(indices[kept], errors[kept])
        return told


@ray.remote(num_cpus=0, max_restarts=RESTARTS, max_task_retries=UNTIL_GONE)
class LearnerActor(_Role):
    """Takes gradient steps; several learners go on from the mean of their states.

    Args:
        workload, mapping, batch_size: what is learnt, and where.
        seed: of the first state.
        threads: that it computes with.
        number: which of the learners it is.
    """

    def __init__(
        self,
        workload: Workload,
        mapping: Mapping,
        batch_size: int,
        seed: np.random.SeedSequence,
        threads: int,
        number: int,
    ) -> None:
        super().__init__(threads)
        self._learner = compose.learner_of(workload, mapping, batch_size, seed, threads)
        self._number = number
        self._holds = -1  # the call whose state it has

    @ray.method(num_returns=2)
    def begin(self) -> tuple[Arrays, Arrays]:
        """The first state, and the weights to act on."""
        return self._learner.state_dict(), self._learner.parameters()

    @ray.method(num_returns=4)
    def learn(
        self, call: int, batches: list[Batch], *states: Arrays
    ) -> tuple[Arrays, Arrays, list[npt.NDArray], Told]:
        """A gradient step on each batch.

        Args:
            call: its number.
            batches: at most one sampling's.
            states: of every learner after the call before, its own at its number.

        Returns:
            State, weights to act on, (B,) TD errors of each batch, and what it tells.
        """
        told = self._told()
        with told.timed("state"):
            if len(states) > 1 or self._holds != call - 1:
                self._learner.load_state_dict(mean_state(states, self._number))
        td_errors = []
        with told.timed("learner"):
            for batch in batches:
                outcome = self._learner.step(_owned(batch.columns), np.array(batch.weights))
                td_errors.append(np.array(outcome.td_errors))
                told.losses = outcome.losses
        told.steps = len(batches)
        self._holds = call
        with told.timed("state"):
            state, weights = self._learner.state_dict(), self._learner.parameters()
        return state, weights, td_errors, told


def mean_state(states: Sequence[Arrays], own: int) -> Arrays:
    """The mean of learners' states, optimiser and all; counters and generators are the own one's.

    Args:
        states: `Learner.state_dict` of each.
        own: the number of the learner that goes on from it.
    """
    if len(states) == 1:
        return dict(states[0])
    return {
        name: np.mean([state[name] for state in states], axis=0, dtype=np.float64).astype(array.dtype)
        if array.dtype.kind == "f"
        else array
        for name, array in states[own].items()
    }
