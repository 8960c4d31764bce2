"""The Ray actors of a training on a cluster: one kind steps environments, one holds a shard of the replay, one learns.

These three kinds are called roles. They exchange data through Ray's object store. Ray restarts a role that dies
and repeats its last call. After that, the environments begin new episodes, and a shard begins empty. A learner
loses nothing, because every call passes it the state that the previous call returned.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import ray
import torch

from placerl.harness.cluster.connection import RESTARTS
from placerl.harness.cluster.shard import Arrays, Drawn, SampleHandle, Shard, ShardSummary, whole_batches
from placerl.harness.loop.schedule import Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.pieces.memory import check_learner
from placerl.harness.runtime import compose
from placerl.harness.runtime.actors.actor import Episode
from placerl.harness.runtime.actors.pool import ActorPlan
from placerl.harness.runtime.mapped_parts import learner_of
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import algorithm_of

UNTIL_GONE = -1
"""Value for Ray's `max_task_retries`: a call is repeated as long as Ray restarts the process that failed in it.

While a machine fails, a call may need several tries.
"""


@dataclass
class CallStats:
    """What an environment actor, a replay shard or a learner reports about one call.

    Attributes:
        process: ID of the process; it changes when Ray has restarted it.
        node: Ray's name of the machine.
        steps: environment steps (actor), inserted transitions (shard) or gradient steps (learner) of the call.
        seconds: seconds of the call's parts, by name: "environment" (steps), "infer" (actions), "insert", "sample",
            "update" (priorities), "learner" (gradient steps) or "state" (averaging the learners' states).
        episodes: episodes that ended in the call.
        losses: losses of the last gradient step.
    """

    process: str
    node: str
    steps: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    episodes: list[Episode] = field(default_factory=list)
    losses: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, term: str) -> Iterator[None]:
        """Add the seconds that the `with` block takes to `seconds[term]`."""
        begin_s = perf_counter()
        yield
        self.seconds[term] = self.seconds.get(term, 0.0) + perf_counter() - begin_s


class _Role:
    def __init__(self, threads: int = 1) -> None:
        torch.set_num_threads(threads)
        self._process = uuid4().hex
        self._node = ray.get_runtime_context().get_node_id()

    def _stats(self) -> CallStats:
        return CallStats(self._process, self._node)


def _owned(arrays: Arrays) -> Arrays:
    """Return copies: arrays from the object store are read-only, but PyTorch and C++ need writable inputs."""
    return {name: np.array(array) for name, array in arrays.items()}


@ray.remote(num_cpus=0, max_restarts=RESTARTS, max_task_retries=UNTIL_GONE)
class EnvironmentActor(_Role):
    """Steps some of a training's environments.

    Args:
        share: number of environments of all actors, divided by the number of this actor's environments.
    """

    def __init__(self, plan: ActorPlan, workload: Workload, share: float) -> None:
        super().__init__()
        self._actor = plan.build()
        self._algorithm = algorithm_of(workload)
        self._share = share

    @ray.method(num_returns=2)
    def collect(self, steps: int, weights: Arrays | None, environment_steps: int) -> tuple[Arrays, CallStats]:
        """Step all of this actor's environments `steps` times, and return the transitions.

        Args:
            weights: weights of the policy that acts; None: actions are random.
            environment_steps: steps that all actors have taken before; exploration depends on it.

        Returns:
            The transitions by column, and the call's statistics.
        """
        stats, actor = self._stats(), self._actor
        before, spent = actor.environment_steps, (actor.environment_s, actor.inference_s)

        def overall(own_steps: int) -> int:
            return environment_steps + round((own_steps - before) * self._share)

        policy: Callable[..., npt.NDArray] | None = None
        if weights is not None:
            acting = _owned(weights)

            def policy(observations: npt.NDArray, own_steps: int, rng: np.random.Generator) -> npt.NDArray:
                return self._algorithm.explore(acting, observations, overall(own_steps), rng)

        transitions = actor.collect(steps, policy)
        stats.steps = actor.environment_steps - before
        stats.seconds = {"environment": actor.environment_s - spent[0], "infer": actor.inference_s - spent[1]}
        stats.episodes = [Episode(overall(step), value) for step, value in actor.take_episodes()]
        return transitions, stats


@ray.remote(num_cpus=0, max_restarts=RESTARTS, max_task_retries=UNTIL_GONE)
class ReplayShard(_Role):
    """Holds one shard of the replay, a `Shard`, in a process of its own."""

    def __init__(
        self,
        workload: Workload,
        mapping: Mapping,
        seed: np.random.SeedSequence,
        shared_seed: np.random.SeedSequence,
        number: int,
    ) -> None:
        super().__init__()
        self._shard = Shard(workload, mapping, seed, shared_seed, number)

    def insert(self, transitions: Arrays) -> CallStats:
        """Insert the transitions that an actor has collected, (n, ...) by column, and return the call's statistics."""
        stats = self._stats()
        with stats.timed("insert"):
            stats.steps = self._shard.insert(transitions)
        return stats

    @ray.method(num_returns=2)
    def summary(self) -> tuple[ShardSummary, CallStats]:
        """Return the shard's sum of priorities, number of items and largest priority, and the call's statistics."""
        return self._shard.summary(), self._stats()

    def sample(
        self, call: int, learners: int, batches: int, batch_size: int, *summaries: ShardSummary
    ) -> tuple[Drawn | SampleHandle | CallStats, ...]:
        """Draw the items that this shard contributes to each learner's batches.

        Returns:
            The items for each learner, then the handle for `update`, then the call's statistics.
        """
        stats = self._stats()
        with stats.timed("sample"):
            drawn, handle = self._shard.sample(call, learners, batches, batch_size, summaries)
        return *drawn, handle, stats

    def update(self, handle: SampleHandle, *td_errors: Sequence[npt.NDArray]) -> CallStats:
        """Update the priorities of items that this shard sampled, and return the call's statistics."""
        stats = self._stats()
        with stats.timed("update"):
            self._shard.update(handle, *td_errors)
        return stats


@ray.remote(num_cpus=0, max_restarts=RESTARTS, max_task_retries=UNTIL_GONE)
class LearnerActor(_Role):
    """Takes gradient steps. If there are several learners, each begins every call with the mean of their states."""

    def __init__(
        self,
        workload: Workload,
        mapping: Mapping,
        seed: np.random.SeedSequence,
        threads: int,
        number: int,
    ) -> None:
        super().__init__(threads)
        self._batch_size = workload.training.batch_size
        check_learner(workload, self._batch_size, mapping.learner.backend)
        self._learner = learner_of(workload, mapping, seed, Schedule(threads=threads))
        self._beta = compose.beta_of(workload)
        self._number = number
        self._holds = -1  # the call whose resulting state it has

    @ray.method(num_returns=2)
    def begin(self) -> tuple[Arrays, Arrays]:
        """Return the learner's first state (parameters and optimiser), and the weights to act with."""
        return self._learner.state_dict(), self._learner.parameters()

    @ray.method(num_returns=4)
    def learn(
        self, call: int, batches: int, shards: int, *inputs: Any
    ) -> tuple[Arrays, Arrays, list[npt.NDArray], CallStats]:
        """Take a gradient step on each complete batch.

        Args:
            call: number of this call, counted from 1.
            batches: number of batches requested from the shards.
            inputs: the items that each shard has drawn for this learner (`Drawn`), followed by the states of every
                learner after the previous call, in the order of their numbers.

        Returns:
            The new state, the weights to act with, the (B,) TD errors of each batch (empty if the batch was
            incomplete), and the call's statistics.
        """
        stats = self._stats()
        drawn, states = inputs[:shards], inputs[shards:]
        with stats.timed("state"):
            if len(states) > 1 or self._holds != call - 1:
                self._learner.load_state_dict(mean_state(states, self._number))
        # number of the first among all learners' gradient steps
        first = ((call - 1) * len(states) + self._number) * batches
        betas = [self._beta(step) for step in range(first, first + batches)]
        td_errors = []
        with stats.timed("learner"):
            for batch in whole_batches(drawn, self._batch_size, betas):
                if batch is None:
                    td_errors.append(np.zeros(0, np.float32))
                    continue
                outcome = self._learner.step(*batch)
                td_errors.append(np.array(outcome.td_errors))
                stats.losses = outcome.losses
                stats.steps += 1
        self._holds = call
        with stats.timed("state"):
            state, weights = self._learner.state_dict(), self._learner.parameters()
        return state, weights, td_errors, stats


def mean_state(states: Sequence[Arrays], own: int) -> Arrays:
    """Return the mean of several learners' states, parameters and optimiser.

    Only floating-point arrays are averaged. The others, such as counters and random generators, are those of the
    learner `own`.

    Args:
        states: `Learner.state_dict` of each learner.
        own: number of the learner that continues with the result.
    """
    if len(states) == 1:
        return dict(states[0])
    return {
        name: np.mean([state[name] for state in states], axis=0, dtype=np.float64).astype(array.dtype)
        if array.dtype.kind == "f"
        else array
        for name, array in states[own].items()
    }
