"""Trains a workload under a mapping, with the loop of `harness.loop.training_loop`.

A mapping says where learner, replay management (sampling and priorities) and data storage run.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any, cast

import numpy.typing as npt
import torch
from typing_extensions import TypeIs

from placerl.harness import platforms
from placerl.harness.loop.clock import LEARNER, RMM
from placerl.harness.loop.placement import Placement
from placerl.harness.loop.real_time import RealTime
from placerl.harness.loop.schedule import Fusion
from placerl.harness.loop.training_loop import Shape, Traffic, TrainingLoop, Units
from placerl.harness.loop.virtual_time import VirtualTime
from placerl.harness.mapping.base import Platform
from placerl.harness.mapping.problem import PRIORITY_BYTES
from placerl.harness.measure.conditions import caller_pinned, set_blas_threads, usable_cores
from placerl.harness.runtime import snapshot
from placerl.harness.runtime.actors.actor import Episode
from placerl.harness.runtime.actors.in_process import ONE, Actors, Collecting, InlineActors, refuse_invalid
from placerl.harness.runtime.actors.pool import ActorPlan, ActorPool
from placerl.harness.runtime.clock import time_of, weights_bytes
from placerl.harness.runtime.compose import Parts, compose, start_actors
from placerl.harness.runtime.learners.parallel_updates import ParallelLearner
from placerl.harness.runtime.learners.processes import LearnerProcesses
from placerl.harness.runtime.reallocation import Reallocator, parallel_learner
from placerl.harness.runtime.resolve import Resolved
from placerl.harness.runtime.snapshot import Snapshot
from placerl.harness.runtime.units.replay import TimeBeside
from placerl.primitives.learner import Learner
from placerl.primitives.learner.fused import FusedSteps
from placerl.primitives.learner.relaxed import Managed, ManagedSteps
from placerl.primitives.replay import ConcurrentReplay, Replay
from placerl.primitives.training.rounds import FusedRounds

WARM_UP_GRADIENT_STEPS = 50
WARM_UP_ROWS = 256
"""Most rows that the actors collect at once before learning starts."""
_CALLS_A_STEP = 3
"""Calls of the replay management per gradient step: insertion, sampling, update."""


@dataclass(frozen=True)
class Progress:
    """The result of one stretch of training.

    Attributes:
        gradient_steps: steps taken in it.
        environment_steps: steps taken in it, over all environments.
        wall_s: duration in seconds.
        episodes: episodes that ended in it; their environment steps count from the beginning of training.
        terms_s: seconds by term, a part of the loop: environment, infer, insert, sample, gather, learner, update. If
            sampling is fused with gathering, the term sample includes gathering; if whole gradient steps or rounds are
            fused, the term step replaces sample, gather, learner and update. If the replay manager has a thread of
            its own, the terms of both threads together may exceed `wall_s`, and the term wait is the time for which the
            other waits for it. The term publish is the transfer of a simulated learner's weights to the actors. If an
            on-policy learner is simulated, the term deal is the host's dealing of minibatches, which is otherwise part
            of the term learner. The resident loop has one term, round, or iteration on-policy. The rest of `wall_s` is
            the loop itself.
        losses: losses of the last gradient step, by name; in the resident loop their means over the stretch.
    """

    gradient_steps: int
    environment_steps: int
    wall_s: float
    episodes: list[Episode]
    terms_s: dict[str, float]
    losses: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Counts:
    """Counters that only grow: the difference of two readings is what happened between them."""

    now_s: float
    gradient_steps: int
    environment_steps: int
    terms_s: dict[str, float]


def _is_managed(replay: Replay, learner: Learner, shape: Shape) -> TypeIs[ConcurrentReplay]:
    """Return whether a thread of C++ can manage a replay in parallel with a learner.

    It takes TD errors in single precision, and inserts as soon as it can.
    """
    if not isinstance(replay, ConcurrentReplay) or shape.deferred:
        return False
    return learner.algorithm.dtype == torch.float32


def links_of_map() -> Platform:
    """Return the platform of the MAP paper, which states the links of the simulated FPGA to the host."""
    return platforms.load("map-tpds23")


class Training:
    """Trains a workload with its parts on the backends and devices that a mapping names.

    The same seed gives the same training. A round has `update_interval` environment steps per gradient step. A
    vector step steps all environments once, so a round with several environments is the smallest number of vector
    steps that gives whole gradient steps. A gradient step (MAP II-A2, PAL Algorithm 1) consists of sampling,
    gathering, the learner's step and the update of the priorities.

    With D > 0 (`presampled_batches`) sampling does not wait for the last priority updates (MAP V-A): D
    batches are sampled ahead. If a row was overwritten after its batch was sampled, it keeps the priority of its new
    item (the purpose of PRL 3.2.1's collision-free insertion).

    With `schedule.replay_beside` the D batches are sampled, and priorities updated, in parallel with the learner. If
    replay management and storage are one native call, a C++ thread does this without Python, whatever the learner
    (`primitives.learner.relaxed`); otherwise a Python thread calls them; in virtual time, it is a core of its own.
    Without this option, D saves time only in virtual time, if a device does this work.

    With `schedule.overlap` = n > 0 the actors run in parallel with the rest (PRL 3.2): during n gradient steps they
    collect the environment steps that belong to them, with the weights from before. Their transitions are inserted,
    and the weights handed over, between two such iterations. The order is still the same for the same seed.

    Args:
        resolved: what is trained, and how (`harness.runtime.resolve`).
        parts: existing parts to use instead of those that mapping, seed and fusion define, such as parts that do
            nothing, to measure the loop itself.
        platform: returns the platform that states the bandwidth of links to simulated devices.
        begun: a snapshot with which to continue (`write_snapshot`), of a training of the same task, mapping and
            schedule; None: begin. The environments begin new episodes, and batches are sampled ahead again.

    Attributes:
        gradient_steps, environment_steps: steps taken so far.
        replay, learner: the parts of the training.
        fusion: which calls are joined into one native call.
        placement: the core of the thread that trains, and of its replay manager and actor processes, if they are bound.
        reallocator: re-allocates actors, if requested.
        provenance: provenance of the seconds that it reports: not "measured" if a part runs on a simulated device,
            in virtual time (`harness.runtime.clock`, `harness.runtime.simulated_parts`).

    Raises:
        UserError: a part cannot be created.
    """

    def __init__(
        self,
        resolved: Resolved,
        *,
        seed: int = 0,
        parts: Parts | None = None,
        platform: Callable[[], Platform] = links_of_map,
        begun: Snapshot | None = None,
    ) -> None:
        task, mapping, schedule = resolved.task, resolved.mapping, resolved.schedule
        processes, shape = resolved.processes, resolved.shape
        torch.set_num_threads(schedule.threads)
        set_blas_threads(schedule.threads)  # actors in turns with the learner choose their actions with NumPy
        settings = task.training
        self._gradient_steps_a_round = shape.gradient_steps
        rows = min(WARM_UP_ROWS, task.replay.capacity)
        self._warm_up_steps = max(shape.vector_steps, rows // settings.actors)
        self._learning_starts = settings.learning_starts
        created = parts is None
        # A single active actor steps for all.
        room = max(shape.vector_steps, self._warm_up_steps) * (settings.actors if schedule.reallocate else 1)
        parts = parts or compose(
            resolved, seed=seed, local_storage=room, environment_steps=begun.environment_steps if begun else 0
        )
        self._parallel: ParallelLearner | LearnerProcesses | None = None
        with ExitStack() as opened:  # if anything fails, what was started before is ended
            if created and isinstance(parts.learner, ParallelLearner):  # one with streams
                opened.callback(parts.learner.close)
            if schedule.reallocate:
                self._parallel = parallel_learner(parts.learner, processes, mapping, platform)
            elif schedule.learners > 1:
                learner = parts.learner
                self._parallel = LearnerProcesses(
                    learner.algorithm,
                    processes=schedule.learners,
                    batch_size=learner.batch_size,
                    seed=learner.seed,
                )
            if self._parallel:
                opened.callback(self._parallel.close)
                parts = replace(parts, learner=self._parallel)
            self._storage, self.replay = parts.storage, parts.replay
            self.learner, self.fusion = parts.learner, resolved.fusion
            self._steps: FusedSteps | ManagedSteps | None = parts.steps
            self._time: RealTime = time_of(
                mapping,
                self.learner,
                self.replay,
                platform,
                (RMM,) if schedule.replay_beside else (),
                {LEARNER: shape.batch_size} if schedule.streamed else {},
            )
            if schedule.replay_beside and not isinstance(self._time, VirtualTime) and self._steps is None:
                if _is_managed(self.replay, self.learner, shape):
                    self._steps = ManagedSteps(self.replay, self.learner, shape.batch_size, shape.ahead)
                else:
                    self._time = TimeBeside(shape.ahead + _CALLS_A_STEP)
            opened.callback(self._time.close)
            self.provenance = self._time.provenance
            self._storage.without_waiting = isinstance(self._time, VirtualTime)
            item_bytes = self._storage.nbytes // self._storage.capacity
            items_bytes = shape.batch_size * item_bytes
            device, simulated = mapping.storage.device, mapping.storage.backend == "fpga"
            together = simulated and self._time.is_simulated(RMM)
            self._storage_apart = simulated or self._time.is_simulated(RMM)
            traffic = Traffic(
                row_bytes=PRIORITY_BYTES + (item_bytes if together else 0),
                stored_bytes=item_bytes if simulated and not together else 0,
                items_bytes=items_bytes,
                # With re-allocation the host keeps the weights.
                weights_bytes=0 if self._parallel else weights_bytes(self._time, self.learner),
                storage_apart=self._storage_apart,
                # A storage on a simulated device has its memory's bandwidth; every other one is measured.
                gather_s=items_bytes / platform().bytes_per_s(device, device) if simulated else 0.0,
            )
            self._actors, self._plan = settings.actors, parts.actors
            self.gradient_steps = 0
            self.placement: Placement | None = None
            if schedule.pinned:
                self.placement = Placement.of(usable_cores(), 1, int(schedule.replay_beside), processes)
            self._acting: Collecting = parts.acting or self._started_actors(
                parts.actors, processes, shape.overlapped
            )
            opened.callback(self._acting.close)
            units = Units(
                cast(Actors, self._acting),
                self._storage,
                self.replay,
                self.learner,
                parts.rng,
                self._steps,
                self._steps if self.fusion is Fusion.ROUND else None,
                parts.returns,
            )
            self._loop = TrainingLoop(self._time, units, shape, traffic)
            if self.placement:
                for core in self.placement.managers:
                    manager = self._steps if isinstance(self._steps, Managed) else self._time
                    cast(Managed | TimeBeside, manager).bind(core)
            self.reallocator = (
                Reallocator(cast(ParallelLearner, self.learner), cast(ActorPool, self._acting))
                if schedule.reallocate
                else None
            )
            if begun:
                self._load(begun)
                if isinstance(self._acting, Actors):
                    self._acting.publish()
            self._opened = opened.pop_all()

    @property
    def environment_steps(self) -> int:
        """Return the number of environment steps taken so far, over all environments."""
        return self._acting.environment_steps

    def warm_up(self) -> Progress:
        """Fill the replay to `learning_starts` with random actions, then take the first gradient steps.

        Both are part of the training but not of its throughput: during the first nothing is learnt, and the
        second compiles and allocates, which happens only once.
        """
        before = self._counts()
        self.fill()
        self.take(WARM_UP_GRADIENT_STEPS)
        return self._progress(before)

    def fill(self) -> None:
        """Step the environments with random actions, and store transitions, until `learning_starts` steps are taken."""
        with self._bound():
            while self.environment_steps < self._learning_starts:
                missing = ceil((self._learning_starts - self.environment_steps) / self._actors)
                self._loop.fill(min(missing, self._warm_up_steps))

    def advance(self, gradient_steps: int) -> Progress:
        """Continue training for at least `gradient_steps`, in whole rounds, and return what happened.

        The first call also runs the warm-up, which the result does not include.

        Raises:
            ValueError: `gradient_steps` is below 1.
        """
        if gradient_steps < 1:
            raise ValueError(f"gradient_steps: found {gradient_steps}; allowed: at least 1")
        if not self.gradient_steps:
            self.warm_up()
        before = self._counts()
        self.take(gradient_steps)
        return self._progress(before)

    def learn(self, gradient_steps: int) -> Progress:
        """Take exactly `gradient_steps` on the transitions that the replay holds, without environment steps.

        This times replay and learner alone. The first call also runs the warm-up, as in `advance`.

        Raises:
            ValueError: `gradient_steps` is below 1.
        """
        if gradient_steps < 1:
            raise ValueError(f"gradient_steps: found {gradient_steps}; allowed: at least 1")
        if not self.gradient_steps:
            self.warm_up()
        before = self._counts()
        with self._bound():
            self._loop.learn(gradient_steps)
        self.gradient_steps += gradient_steps
        return self._progress(before)

    def greedy(self) -> Callable[[npt.NDArray], npt.NDArray]:
        """Return the learner's present policy, without exploration: it maps an observation to an action."""
        return self.learner.act

    def write_snapshot(self, path: Path, notes: Mapping[str, Any]) -> None:
        """Write a snapshot with which another training continues (`begun`), in this process or in a later one.

        Args:
            path: the file; its folder exists, and gets a file with the replay's items, too.
            notes: what else the snapshot holds, values that JSON has.

        Raises:
            OSError: a file cannot be written; an earlier snapshot of this name stays.
        """
        self._drain()
        snapshot.write(
            path,
            self.learner,
            self.replay,
            gradient_steps=self.gradient_steps,
            environment_steps=self.environment_steps,
            notes=notes,
        )

    def _load(self, begun: Snapshot) -> None:
        begun.load(self.learner, self.replay)
        self.gradient_steps = begun.gradient_steps
        self._loop.inserted = self.replay._position()[1]

    def close(self) -> None:
        """End the threads and processes, if there are any, and close the environments. Idempotent."""
        self._opened.close()

    def take(self, gradient_steps: int) -> None:
        """Take at least `gradient_steps`, in whole rounds, without a warm-up and without returning a `Progress`."""
        until = self.gradient_steps + gradient_steps
        try:
            with self._bound():
                while self.gradient_steps < until:
                    missing = until - self.gradient_steps
                    rounds = (
                        ceil(missing / self._gradient_steps_a_round) if self.fusion is Fusion.ROUND else 1
                    )
                    self._loop.run(rounds)
                    self.gradient_steps += rounds * self._gradient_steps_a_round
                    if self.reallocator:
                        self.reallocator.step()
        except ValueError:  # raised by a replay or a learner for NaN or infinity
            refuse_invalid(ONE, self._storage.columns)
            raise

    def _started_actors(self, plan: ActorPlan, processes: int, overlapped: bool) -> Actors:
        if not isinstance(self._time, VirtualTime):
            actors = start_actors(plan, self.learner, processes, beside=overlapped)
            if self.placement and isinstance(actors, ActorPool):
                actors.bind(self.placement.actors)
            return actors
        if processes:
            pool = ActorPool(plan, self.learner, processes, inline=True)
            self._time.leave_out(lambda: pool.in_turns_s)
            return pool
        return InlineActors(plan.build(), self.learner)

    def _bound(self) -> AbstractContextManager[None]:
        """Bind the calling thread while it trains, if it is to be bound; the caller's own work runs anywhere."""
        return caller_pinned(self.placement.learners[0]) if self.placement else nullcontext()

    def _drain(self) -> None:
        self._time.drain()
        if self._steps:
            self._steps.drain()

    def _counts(self) -> _Counts:
        spent_s = self._time.terms_s
        terms_s = {
            "environment": self._acting.environment_s,
            "infer": self._acting.inference_s,
            "insert": spent_s["insert"],
        }
        if isinstance(self._steps, Managed):
            terms_s |= self._steps.terms_s
        elif isinstance(self._steps, FusedRounds):
            terms_s |= self._steps.spent_s()
        elif self.fusion is Fusion.STEP:
            terms_s["step"] = spent_s["step"]
        else:
            terms_s |= {name: spent_s[name] for name in ("sample", "learner", "update")}
        if isinstance(self._time, TimeBeside):
            terms_s["wait"] = spent_s["wait"]
        if self._time.is_simulated(LEARNER):
            terms_s["publish"] = spent_s["publish"]
        if self._storage_apart:
            terms_s |= {name: spent_s[name] for name in ("gather", "write")}
        elif self.fusion is Fusion.NONE:
            terms_s["gather"] = self._storage.gather_s
            terms_s["sample"] -= self._storage.gather_s  # which is part of sampling
        return _Counts(self._time.now_s(), self.gradient_steps, self.environment_steps, terms_s)

    def _progress(self, before: _Counts) -> Progress:
        self._drain()
        after = self._counts()
        return Progress(
            gradient_steps=after.gradient_steps - before.gradient_steps,
            environment_steps=after.environment_steps - before.environment_steps,
            wall_s=after.now_s - before.now_s,
            episodes=self._acting.take_episodes(),
            terms_s={name: after.terms_s[name] - before.terms_s[name] for name in after.terms_s},
            losses=self._loop.losses,
        )
