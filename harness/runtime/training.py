"""Training under a mapping: the loop of `harness.mapping.loop` on the parts that the mapping asks for."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import ceil
from typing import cast

import torch

from harness import platforms
from harness.core.errors import UserError
from harness.mapping import Mapping
from harness.mapping.base import PRIORITY_BYTES, Platform
from harness.mapping.loop import LEARNER, RMM, Shape, Traffic, TrainingLoop, Units
from harness.measure.conditions import set_blas_threads
from harness.runtime import memory
from harness.runtime.actors.actor import Episode
from harness.runtime.actors.in_process import ONE, Actors, InlineActors, refuse_rubbish
from harness.runtime.actors.pool import ActorPlan, ActorPool
from harness.runtime.balance import Balance, check_learners, parallel_learner
from harness.runtime.clock import RealTime, VirtualTime, time_of, weights_bytes
from harness.runtime.compose import Fusion, Parts, check_processes, check_replay_beside, compose, start_actors
from harness.runtime.iteration import Iteration, check_overlap, collected_rows
from harness.runtime.learners.parallel_updates import ParallelLearner
from harness.runtime.learners.processes import LearnerProcesses
from harness.runtime.units.replay import TimeBeside
from harness.workloads.task import Task

WARM_UP_GRADIENT_STEPS = 50
_WARM_UP_ROWS = 256
_CALLS_A_STEP = 3
"""Of a gradient step to the replay management: insertion, sampling, update."""


@dataclass(frozen=True)
class Progress:
    """What one stretch of training took.

    Attributes:
        gradient_steps: taken in it.
        environment_steps: taken in it, over all environments.
        wall_s: seconds.
        episodes: those that ended in it; their environment steps count from the beginning of training.
        terms_s: seconds by part of the loop: environment, infer, insert, sample, gather, learner, update.
            Sampling that is fused with gathering is one term, sample; a whole fused gradient step is one
            term, step. A simulated learner's weights on their way to the actors are one more, publish. What is
            missing to `wall_s` is the loop itself.
        losses: of the last gradient step, by name.
    """

    gradient_steps: int
    environment_steps: int
    wall_s: float
    episodes: list[Episode]
    terms_s: dict[str, float]
    losses: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Counts:
    """All that only grows: the difference of two is what happened between them."""

    now_s: float
    gradient_steps: int
    environment_steps: int
    terms_s: dict[str, float]


def links_of_map() -> Platform:
    """MAP's platform, whose board the simulated FPGA is: its links are those of a simulated run."""
    return platforms.load("map-tpds23")


class Training:
    """Training of a workload on a mapping: the same seed gives the same training.

    A round is `update_interval` environment steps for each gradient step: with several environments stepped
    together, the smallest number of vector steps that holds whole gradient steps. A gradient step is
    (MAP II-A2, PAL Algorithm 1) sampling, gathering, the learner's step and the update of the priorities.

    With `presampled_batches` = D > 0 the dependency of sampling on the last priority updates is relaxed
    (MAP V-A): D batches are sampled ahead. A row that was overwritten since its batch was sampled keeps the
    priority of its new item (what PRL 3.2.1's collision-free insertion is for).

    With `replay_beside` the D batches are sampled, and priorities updated, while the learner works: otherwise only
    in virtual time, where a device does that, does D hide anything.

    With `overlap` = n > 0 the actor is a unit of its own beside the rest (PRL 3.2): while n gradient steps
    are taken, it collects the environment steps that belong to them, with the weights from before them; its
    transitions are inserted, and the weights handed over, between two such iterations. Everything still
    happens in the same order for the same seed.

    Args:
        workload: what to train.
        mapping: what runs where.
        batch_size: transitions in a gradient step; the workload's by default.
        seed: of everything random.
        threads: that the learner may compute with: PyTorch's and NumPy's in this process, or the native learner's.
        presampled_batches: D; the workload's by default.
        fusion: which neighbours run as one call; by default as many as the mapping allows.
        overlap: gradient steps of an iteration, at least, that the actors work beside; 0: they take turns
            with the learner.
        processes: to step the environments in, side by side; 0: in this one, one after the other.
        learners: processes that each differentiate a part of every batch, their gradients put together (PAL V-B);
            needs a learner on PyTorch.
        reallocate: move actors to training and back as they are needed (PRL Algorithm 1); what trains then
            depends on the machine's times. Needs a learner on PyTorch, an overlap and two processes or more.
        envpool: step the environments with EnvPool (`harness.environments.env_pool`).
        replay_beside: have replay management and storage work beside the learner, in a thread (`replay_unit`); needs
            D > 0, and devices that are there.
        delay: of a learner of precision "dynamic", gradient steps; see `compose.learner_of`.
        parts: made before, instead of those that mapping, seed and fusion ask for: parts that do nothing, to
            measure the loop itself.
        platform: tells the speed of links to simulated devices.

    Attributes:
        gradient_steps, environment_steps: taken so far.
        replay, learner: the parts at work.
        fusion: what is fused.
        balance: what re-allocates, where that is asked for.
        provenance: of the seconds that it tells: not measured, where a part runs on a simulated device, in virtual
            time (`harness.runtime.clock`, `harness.runtime.time_provenance`).

    Raises:
        UserError: mapping, batch size and workload do not fit together, or something is not installed.
    """

    def __init__(
        self,
        workload: Task,
        mapping: Mapping,
        *,
        batch_size: int | None = None,
        seed: int = 0,
        threads: int = 1,
        presampled_batches: int | None = None,
        fusion: Fusion | None = None,
        overlap: int = 0,
        processes: int = 0,
        learners: int = 1,
        reallocate: bool = False,
        envpool: bool = False,
        replay_beside: bool = False,
        delay: int | None = None,
        parts: Parts | None = None,
        platform: Callable[[], Platform] = links_of_map,
    ) -> None:
        if overlap < 0:
            raise ValueError(f"overlap: found {overlap}; allowed: at least 0")
        check_processes(workload, processes)
        check_learners(mapping, learners, processes, overlap, reallocate)
        torch.set_num_threads(threads)
        set_blas_threads(threads)  # actors in turns with the learner choose their actions with NumPy
        settings = workload.training
        self._batch_size = settings.batch_size if batch_size is None else batch_size
        ahead = settings.presampled_batches if presampled_batches is None else presampled_batches
        check_replay_beside(mapping, replay_beside, ahead)
        check_overlap(workload, overlap)
        iteration = Iteration.of(settings, overlap)
        self._vector_steps = iteration.vector_steps
        self._gradient_steps_a_round = iteration.gradient_steps
        self._warm_up_steps = max(self._vector_steps, _WARM_UP_ROWS // settings.actors)
        self._learning_starts = settings.learning_starts
        if parts is None:
            collected = collected_rows(workload, overlap, reallocate)
            memory.check(workload, self._batch_size, ahead, processes, learners, collected)
        parts = parts or compose(
            workload,
            mapping,
            batch_size=self._batch_size,
            seed=seed,
            # A single active actor steps for all.
            local_storage=max(self._vector_steps, self._warm_up_steps)
            * (settings.actors if reallocate else 1),
            presampled_batches=ahead,
            fusion=fusion,
            envpool=envpool,
            threads=threads,
            delay=delay,
        )
        self._parallel: ParallelLearner | LearnerProcesses | None = None
        if reallocate:
            self._parallel = parallel_learner(parts.learner, processes)
        elif learners > 1:
            made = parts.learner
            self._parallel = LearnerProcesses(
                made.algorithm, processes=learners, batch_size=made.batch_size, seed=made.seed
            )
        if self._parallel:
            parts = replace(parts, learner=self._parallel)
        self._storage, self.replay = parts.storage, parts.replay
        self.learner, self.fusion = parts.learner, parts.fusion
        self._time: RealTime = (
            TimeBeside(ahead + _CALLS_A_STEP)
            if replay_beside
            else time_of(mapping, self.learner, self.replay, platform)
        )
        self.provenance = self._time.provenance
        item_bytes = self._storage.nbytes // self._storage.capacity
        items_bytes = self._batch_size * item_bytes
        device = mapping.storage.device
        traffic = Traffic(
            # A storage that is not on the host is on the replay management's device.
            row_bytes=PRIORITY_BYTES + (item_bytes if device != "cpu" else 0),
            items_bytes=items_bytes,
            weights_bytes=weights_bytes(self._time, self.learner),
            storage_apart=self._time.is_simulated(RMM),
            # A storage on a simulated device is as fast as its memory; one on the host is measured.
            gather_s=0.0 if device == "cpu" else items_bytes / platform().bytes_per_s(device, device),
        )
        self._actors = settings.actors
        self.gradient_steps = 0
        self._acting = self._started_actors(workload, parts.actors, processes, overlap > 0)
        shape = Shape(self._vector_steps, self._gradient_steps_a_round, self._batch_size, overlap > 0, ahead)
        units = Units(self._acting, self._storage, self.replay, self.learner, parts.rng, parts.steps)
        self._loop = TrainingLoop(self._time, units, shape, traffic)
        self.balance = (
            Balance(cast(ParallelLearner, self.learner), cast(ActorPool, self._acting))
            if reallocate
            else None
        )

    @property
    def environment_steps(self) -> int:
        """Taken so far, over all environments."""
        return self._acting.environment_steps

    def warm_up(self) -> Progress:
        """Fill the replay to `learning_starts` with random actions, then take the first gradient steps.

        Both are part of training, but not of its throughput: nothing is learnt in the one, and what the
        other compiles and allocates is done once.
        """
        before = self._counts()
        while self.environment_steps < self._learning_starts:
            missing = ceil((self._learning_starts - self.environment_steps) / self._actors)
            self._loop.fill(min(missing, self._warm_up_steps))
        self.take(WARM_UP_GRADIENT_STEPS)
        return self._progress(before)

    def advance(self, gradient_steps: int) -> Progress:
        """Train on for at least `gradient_steps`: whole rounds.

        Raises:
            ValueError: `gradient_steps` below 1.
        """
        if gradient_steps < 1:
            raise ValueError(f"gradient_steps: found {gradient_steps}; allowed: at least 1")
        if not self.gradient_steps:
            self.warm_up()
        before = self._counts()
        self.take(gradient_steps)
        return self._progress(before)

    def learn(self, gradient_steps: int) -> Progress:
        """Take gradient steps alone, without environment steps, on what the replay holds: replay and learner by
        themselves. Arguments as `advance`.
        """
        if gradient_steps < 1:
            raise ValueError(f"gradient_steps: found {gradient_steps}; allowed: at least 1")
        if not self.gradient_steps:
            self.warm_up()
        before = self._counts()
        self._loop.learn(gradient_steps)
        self.gradient_steps += gradient_steps
        return self._progress(before)

    def close(self) -> None:
        """End the threads and processes, where there are some, and close the environments."""
        self._acting.close()
        self._time.close()
        if self._parallel:
            self._parallel.close()

    def take(self, gradient_steps: int) -> None:
        """Take at least so many gradient steps, whole rounds, with neither warm-up nor account."""
        until = self.gradient_steps + gradient_steps
        try:
            while self.gradient_steps < until:
                self._loop.round()
                self.gradient_steps += self._gradient_steps_a_round
                if self.balance:
                    self.balance.step()
        except ValueError:  # a replay's or a learner's, of numbers that are none
            refuse_rubbish(ONE, self._storage.columns)
            raise

    def _started_actors(self, workload: Task, plan: ActorPlan, processes: int, overlapped: bool) -> Actors:
        if not isinstance(self._time, VirtualTime):
            return start_actors(plan, self.learner, processes, beside=overlapped)
        if processes:
            raise UserError(workload.name, "actor processes", processes, "0 in virtual time")
        return InlineActors(plan.build(), self.learner)

    def _counts(self) -> _Counts:
        spent_s = self._time.terms_s
        terms_s = {
            "environment": self._acting.environment_s,
            "infer": self._acting.inference_s,
            "insert": spent_s["insert"],
        }
        if self.fusion is Fusion.STEP:
            terms_s["step"] = spent_s["step"]
        else:
            terms_s |= {name: spent_s[name] for name in ("sample", "learner", "update")}
        if self._time.is_simulated(LEARNER):
            terms_s["publish"] = spent_s["publish"]
        if self._time.is_simulated(RMM):
            terms_s |= {name: spent_s[name] for name in ("gather", "write")}
        elif self.fusion is Fusion.NONE:
            terms_s["gather"] = self._storage.gather_s
            terms_s["sample"] -= self._storage.gather_s  # which happened inside it
        return _Counts(self._time.now_s(), self.gradient_steps, self.environment_steps, terms_s)

    def _progress(self, before: _Counts) -> Progress:
        self._time.drain()
        after = self._counts()
        return Progress(
            gradient_steps=after.gradient_steps - before.gradient_steps,
            environment_steps=after.environment_steps - before.environment_steps,
            wall_s=after.now_s - before.now_s,
            episodes=self._acting.take_episodes(),
            terms_s={name: after.terms_s[name] - before.terms_s[name] for name in after.terms_s},
            losses=self._loop.losses,
        )
