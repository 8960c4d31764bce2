"""Training on a Ray cluster, structured like Ape-X: many actors, a replay in shards, one or more learners.

Ape-X is from Horgan et al. 2018, "Distributed prioritized experience replay", section 3. There are three
differences: actors explore by the workload's own schedule, a new item gets the maximum priority, and environment
and gradient steps keep the workload's ratio, so that the same seed gives the same training whatever the speed of
the machines.

Each actor, shard and learner is a role, a process that Ray calls. In a round, every actor takes some environment
steps and every learner the gradient steps that belong to them, with the shards' calls in between. This process
only submits the calls, up to `ahead` rounds before their results are ready. Ray runs a call when its inputs are
ready, and moves the inputs between machines through its object store:

    actors      collect(weights)    -> transitions   -> shards   insert
    shards      summary             -> totals        -> shards   sample
    shards      sample              -> parts         -> learners learn
    learners    learn(states)       -> TD errors     -> shards   update
                                    -> weights       -> actors
                                    -> state         -> learners, of the next round

The shards sample like one replay with all items (`harness.cluster.shard`). They receive the collected transitions
in turn, so that all hold equal parts. Weights, transitions and priorities arrive `ahead` rounds late, so that no
role waits for another's round trip; only the shards wait for each other's totals.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, gcd
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import ray
from ray.exceptions import RayError

from placerl.harness import workloads
from placerl.harness.cluster.connection import brief
from placerl.harness.cluster.placement import Placement
from placerl.harness.cluster.roles import CallStats, EnvironmentActor, LearnerActor, ReplayShard
from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import Mapping
from placerl.harness.runtime import compose, mapped_parts
from placerl.harness.runtime.actors.actor import Episode
from placerl.harness.runtime.training import WARM_UP_GRADIENT_STEPS, Progress
from placerl.harness.runtime.units.unit import UnitError
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import algorithm_of, columns_of
from placerl.primitives.quantization.precision import FLOAT_32

STEPS_A_CALL = 16  # gradient steps per call; enough that a call's overhead, about a millisecond, is small
AHEAD = 2
CHECKPOINT_ROUNDS = 200
MOST_ROLES = 1000
SIMULATED = ("fpga",)  # backends whose time is not this machine's


@dataclass(frozen=True)
class Size:
    """The numbers of actors, replay shards and learners of a training on a cluster, 1 to `MOST_ROLES` each."""

    actors: int = 2
    shards: int = 1
    learners: int = 1

    def __post_init__(self) -> None:
        for name, number in vars(self).items():
            if not 1 <= number <= MOST_ROLES:
                raise UserError("command line", f"--{name}", number, f"1 to {MOST_ROLES}")


_Asked = list[tuple[str, Any]]
"""The results that the calls of a round will return, with the name of the role that returns each."""


class ClusterTraining:
    """The training of a workload on the connected Ray cluster. The same seed and sizes give the same training.

    The interface is that of `harness.runtime.training.Training`. Below, a role is an actor, a replay shard or a
    learner, such as "actor 0". A round consists of environment steps and the gradient steps that belong to them.

    Args:
        size: number of actors, shards and learners; each actor has at least one environment.
        placement: the machines that may run each role; by default those that the mapping requires.
        ahead: number of rounds that are submitted before the results of the first are ready; with 0, each round
            waits for the one before it.

    Attributes:
        gradient_steps: number of steps taken so far, by all learners together.
        environment_steps: number of steps taken so far, by all actors together.
        restarts: how often Ray has restarted each role; roles that never were are left out.
        nodes: Ray's name of the machine on which each role ran last.
        provenance: always "measured": the reported seconds are those of a clock.

    Raises:
        UnitError: a role cannot be created.
    """

    provenance = Provenance.MEASURED

    def __init__(
        self,
        workload: Workload,
        mapping: Mapping,
        size: Size,
        *,
        placement: Placement | None = None,
        seed: int = 0,
        threads: int = 1,
        ahead: int = AHEAD,
    ) -> None:
        check(workload, mapping, size)
        placement = placement or Placement.of(mapping)
        workload = _with_environments(workload, size.actors)
        shard_workload = _of_a_shard(workload, size.shards)
        settings = workload.training
        self._batch_size = settings.batch_size
        self._algorithm = algorithm_of(workload)
        self._environments, self._learning_starts = settings.actors, settings.learning_starts
        self._steps_a_call, self._vector_steps = round_of(
            settings.actors, settings.update_interval, size.learners
        )
        self._ahead = ahead
        self.gradient_steps = 0
        self.environment_steps = 0
        self.restarts: dict[str, int] = {}
        self.nodes: dict[str, str] = {}
        self._processes: dict[str, str] = {}
        self._episodes: list[Episode] = []
        self._losses: dict[str, float] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._submitted_steps = 0
        self._inserted_rounds = 0
        self._call = 0
        self._pending: deque[_Asked] = deque()
        self._collected: deque[list[Any]] = deque()
        self._handles: deque[tuple[list[Any], list[Any]]] = deque()

        seeds = np.random.SeedSequence(seed).spawn(5)
        plan = compose.actors_of(workload, seeds[0], seeds[1], columns_of(workload), self._vector_steps)
        share = Placement.options
        remote_class = EnvironmentActor.options(**share(placement.actors))  # type: ignore[attr-defined]
        self._actors = [
            remote_class.remote(part, workload, settings.actors / len(part.environments))
            for part in plan.split(size.actors)
        ]
        remote_class = ReplayShard.options(**share(placement.shards))  # type: ignore[attr-defined]
        self._shards = [
            remote_class.remote(shard_workload, mapping, own, seeds[4], number)
            for number, own in enumerate(seeds[2].spawn(size.shards))
        ]
        remote_class = LearnerActor.options(**share(placement.learners))  # type: ignore[attr-defined]
        self._learners = [
            remote_class.remote(workload, mapping, seeds[3], threads, number)
            for number in range(size.learners)
        ]
        begun = [learner.begin.remote() for learner in self._learners]
        self._states = [state for state, _ in begun]
        self._weights = deque([begun[0][1]] * (ahead + 1))

    @property
    def calls(self) -> int:
        """The number of times that each learner has been called so far."""
        return self._call

    @property
    def gradient_steps_a_round(self) -> int:
        """The number of gradient steps that all learners together take in one round of the training.

        A round consists of environment steps and the gradient steps that belong to them.
        """
        return self._steps_a_call * len(self._learners)

    @property
    def inserts_a_round(self) -> int:
        """The number of actors whose transitions the busiest shard of the replay inserts in one round, one by one."""
        return ceil(len(self._actors) / len(self._shards))

    @property
    def environment_steps_an_actor(self) -> float:
        """The mean number of environment steps that one actor takes in one round of the training.

        A round consists of environment steps and the gradient steps that belong to them.
        """
        return self._vector_steps * self._environments / len(self._actors)

    def weights_bytes(self) -> int:
        """Return the size in bytes of the weights that the learners send to the actors."""
        return sum(array.nbytes for array in self._answers("learner 0", [self._weights[-1]])[0].values())

    def warm_up(self) -> Progress:
        """Take `learning_starts` environment steps with random actions, then the first gradient steps."""
        begin = self._begin()
        while self._submitted_steps < self._learning_starts:
            self._keep(self._collecting(weights=None, lag=0))
        self._settle()
        self._train(WARM_UP_GRADIENT_STEPS)
        return self._progress(*begin)

    def advance(self, gradient_steps: int) -> Progress:
        """Continue training, in whole rounds, until all learners together have taken `gradient_steps` more steps.

        Returns:
            The steps, seconds and episodes of this call.

        Raises:
            ValueError: `gradient_steps` is below 1.
            UnitError: an actor, shard or learner has failed, or died more often than Ray restarts it.
        """
        if gradient_steps < 1:
            raise ValueError(f"gradient_steps: found {gradient_steps}; allowed: at least 1")
        if not self.gradient_steps:
            self.warm_up()
        begin = self._begin()
        self._train(gradient_steps)
        return self._progress(*begin)

    def greedy(self) -> Callable[[npt.NDArray], npt.NDArray]:
        """Return the learners' present policy, without exploration: it maps an observation to an action."""
        (weights,) = self._answers("learner 0", [self._weights[-1]])
        return lambda observation: self._algorithm.act(weights, observation[None])[0]

    def close(self) -> None:
        """End the processes of all actors, replay shards and learners. Idempotent."""
        for role in (*self._actors, *self._shards, *self._learners):
            ray.kill(role)
        self._actors, self._shards, self._learners = [], [], []

    def _train(self, gradient_steps: int) -> None:
        until = self.gradient_steps + gradient_steps
        while (missing := until - self.gradient_steps) > 0:
            for _ in range(min(CHECKPOINT_ROUNDS, ceil(missing / self.gradient_steps_a_round))):
                self._keep(self._learning())
            self._settle()
            # If a machine fails, Ray repeats the calls that made the lost objects, but none from before this copy.
            self._states = [ray.put(state) for state in self._answers("learner", self._states)]

    def _learning(self) -> _Asked:
        """Submit the calls of one round."""
        this = self._collecting(self._weights.popleft(), self._ahead)
        if len(self._handles) > self._ahead:
            handles, td_errors = self._handles.popleft()
            for number, (shard, handle) in enumerate(zip(self._shards, handles, strict=True)):
                this.append((f"shard {number}", shard.update.remote(handle, *td_errors)))
        self._call += 1
        drawn, handles = self._sampling(this)
        updates, td_errors = [], []
        for learner, actor in enumerate(self._learners):
            parts = [each[learner] for each in drawn]
            state, weights, errors, stats = actor.learn.remote(
                self._call, self._steps_a_call, len(parts), *parts, *self._states
            )
            this.append((f"learner {learner}", stats))
            td_errors.append(errors)
            updates.append((state, weights))
        self._handles.append((handles, td_errors))
        self._states = [state for state, _ in updates]
        self._weights.append(updates[0][1])
        return this

    def _sampling(self, this: _Asked) -> tuple[list[list[Any]], list[Any]]:
        """Submit the shards' calls of one round; returns the parts for every learner, and the handles."""
        summaries = []
        for number, shard in enumerate(self._shards):
            summary, stats = shard.summary.remote()
            # Before the calls that need it, so that an error names its own shard.
            this.append((f"shard {number}", stats))
            summaries.append(summary)
        drawn, handles = [], []
        learners = len(self._learners)
        for number, shard in enumerate(self._shards):
            *parts, handle, stats = shard.sample.options(num_returns=learners + 2).remote(
                self._call, learners, self._steps_a_call, self._batch_size, *summaries
            )
            this.append((f"shard {number}", stats))
            drawn.append(parts)
            handles.append(handle)
        return drawn, handles

    def _collecting(self, weights: Any, lag: int) -> _Asked:
        """Submit an actor's calls of one round, and the insertion of what was collected `lag` rounds ago."""
        this: _Asked = []
        collected = []
        for number, actor in enumerate(self._actors):
            transitions, stats = actor.collect.remote(self._vector_steps, weights, self._submitted_steps)
            this.append((f"actor {number}", stats))
            collected.append(transitions)
        self._submitted_steps += self._vector_steps * self._environments
        self._collected.append(collected)
        while len(self._collected) > lag:
            for actor_number, transitions in enumerate(self._collected.popleft()):
                number = shard_of(actor_number, self._inserted_rounds, len(self._shards))
                this.append((f"shard {number}", self._shards[number].insert.remote(transitions)))
            self._inserted_rounds += 1
        return this

    def _keep(self, this: _Asked) -> None:
        """Wait until at most `ahead` rounds besides the new one are unanswered."""
        self._pending.append(this)
        while len(self._pending) > self._ahead + 1:
            self._take(self._pending.popleft())

    def _settle(self) -> None:
        while self._pending:
            self._take(self._pending.popleft())

    def _take(self, this: _Asked) -> None:
        """Wait for the results of a round, and add the time of the slowest role to each term.

        The calls of one role run one after another, and roles of a kind run in parallel.
        """
        of_roles: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        for (name, _), stats in zip(this, self._all(this), strict=True):
            self._note(name, stats)
            for term, seconds in stats.seconds.items():
                of_roles[term][name] += seconds
        for term, of_role in of_roles.items():
            self._seconds[term] += max(of_role.values())

    def _note(self, name: str, stats: CallStats) -> None:
        if self._processes.setdefault(name, stats.process) != stats.process:
            self._processes[name] = stats.process
            self.restarts[name] = self.restarts.get(name, 0) + 1
        self.nodes[name] = stats.node
        self._episodes += stats.episodes
        if name.startswith("actor"):
            self.environment_steps += stats.steps
        elif name.startswith("learner"):
            self.gradient_steps += stats.steps
            self._losses = stats.losses or self._losses

    def _all(self, named: _Asked) -> list[Any]:
        try:
            return list(ray.get([ref for _, ref in named]))
        except RayError:
            for name, ref in named:  # an error names the role
                self._answers(name, [ref])
            raise

    def _answers(self, name: str, refs: list[Any]) -> list[Any]:
        try:
            return list(ray.get(refs))
        except RayError as error:
            if isinstance(
                cause := getattr(error, "cause", None), UserError
            ):  # it names what the user can mend
                raise cause from error
            raise UnitError(f"{name}: {brief(error)}") from error

    def _begin(self) -> tuple[float, int, int, dict[str, float]]:
        return perf_counter(), self.gradient_steps, self.environment_steps, dict(self._seconds)

    def _progress(
        self, begin_s: float, gradient_steps: int, environment_steps: int, seconds: dict[str, float]
    ) -> Progress:
        episodes, self._episodes = sorted(self._episodes), []
        return Progress(
            gradient_steps=self.gradient_steps - gradient_steps,
            environment_steps=self.environment_steps - environment_steps,
            wall_s=perf_counter() - begin_s,
            episodes=episodes,
            terms_s={term: spent - seconds.get(term, 0.0) for term, spent in self._seconds.items()},
            losses=self._losses,
        )


def round_of(environments: int, update_interval: int, learners: int) -> tuple[int, int]:
    """Return the steps of a round, the unit in which a training on a cluster advances.

    The ratio of environment steps to gradient steps is the workload's. A round has about `STEPS_A_CALL` gradient steps
    per learner.

    Args:
        environments: number of environments of all actors together.
        update_interval: environment steps per gradient step.
        learners: number of learners; each takes the same number of gradient steps.

    Returns:
        The number of gradient steps of each learner, and the number of steps of each environment.
    """
    least = environments // gcd(environments, update_interval * learners)
    steps_a_call = least * max(1, round(STEPS_A_CALL / least))
    return steps_a_call, steps_a_call * learners * update_interval // environments


def shard_of(actor: int, round_number: int, shards: int) -> int:
    """Return the number of the replay shard that stores the transitions that an actor collects in a round.

    The shards take turns: in as many rounds as there are shards, each gets this actor's transitions once.
    """
    return (actor + round_number) % shards


def check(workload: Workload, mapping: Mapping, size: Size) -> None:
    """Check that a workload can be trained on a cluster with this mapping and these sizes, without starting anything.

    Raises:
        UserError: workload, mapping and sizes are not compatible; the message names the option.
    """
    mapped_parts.check(workload, mapping)
    if "weight" not in algorithm_of(workload).columns(1):
        allowed = "an algorithm that learns from a replay"
        raise UserError(
            workload.name, "algorithm.name", f"{workload.algorithm.name!r}, which is on-policy", allowed
        )
    for target in (mapping.learner, mapping.rmm):
        if target.backend in SIMULATED:
            raise UserError("command line", "mapping", mapping, "with --ray: backends that are not simulated")
    if mapping.learner.precision != FLOAT_32:
        raise UserError("command line", "mapping", mapping, f"with --ray: a learner in {FLOAT_32}")
    settings = workload.training
    most = min(workload.replay.capacity, settings.learning_starts) // settings.batch_size
    if size.shards > most:
        allowed = (
            f"1 to {most}, so that each shard holds a batch of {settings.batch_size} when learning starts"
        )
        raise UserError("command line", "--shards", size.shards, allowed)


def _with_environments(workload: Workload, actors: int) -> Workload:
    """Return the workload with at least one environment per actor."""
    settings = workload.training
    return (
        workload
        if settings.actors >= actors
        else workloads.override(workload, "training.actors", actors, "--actors")
    )


def _of_a_shard(workload: Workload, shards: int) -> Workload:
    """Return the workload for one shard of the replay: with its part of the items."""
    tables, batch_size = workload.tables(), workload.training.batch_size
    tables["training"] |= {
        "presampled_batches": 0,
        "batch_sizes": [batch_size],
        "learning_starts": batch_size,
    }
    tables["replay"] |= {"capacity": max(2, workload.replay.capacity // shards)}
    return workloads.from_tables(tables, "--shards")
