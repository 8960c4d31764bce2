"""Learners, full replays and actors that several benchmark cases use in turn.

The learners are in a state of real training, and the replays are full of its transitions (`trained.py`). A replay is
larger than the caches, so each user sees the same cache contents as if it had its own. Each part is created
only once, which saves memory, and the minutes of filling a replay for every mapping.
"""

from dataclasses import replace
from typing import cast

import numpy as np

from placerl.harness.loop.schedule import Fusion
from placerl.harness.mapping import Mapping, Problem, Target
from placerl.harness.mapping.target import CPU, NATIVE, STORING_DEVICES
from placerl.harness.pieces.base import block_rows, random_transitions, targets
from placerl.harness.pieces.learners import TrainedStart, created
from placerl.harness.profile.cases.shared_actors import BorrowedActors, late_pool
from placerl.harness.profile.cases.trained import profiled_start
from placerl.harness.runtime.actors.in_process import Actors
from placerl.harness.runtime.actors.pool import ActorPlan, ActorPool
from placerl.harness.runtime.compose import replay_of, storage_of
from placerl.harness.runtime.fusions import fusions
from placerl.harness.runtime.simulated_parts import is_simulated
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import resized
from placerl.primitives import sum_tree
from placerl.primitives.learner import Learner
from placerl.primitives.learner.fused import FusedSteps
from placerl.primitives.quantization.precision import IN_FLOATS
from placerl.primitives.replay import ConcurrentReplay, PrioritizedReplay
from placerl.primitives.replay.base import Replay


def managers(workload: Workload) -> list[Target]:
    """Return the backends and devices that can manage a workload's replay, the native one first.

    A uniform replay needs no management, and has only the native one.
    """
    if not workload.replay.prioritized:
        return [NATIVE]
    return sorted(targets(sum_tree.backends(), "flat"), key=lambda target: (target != NATIVE, target))


class SharedParts:
    """Learners and full replays, each created when it is first requested, and shared from then on.

    Args:
        workload: a workload whose replay fits the memory several times.
        problem: gives the batch size, and the threads of the learners.
        like: parts of the same workload and batch size with another number of actors or threads. Its replays are used
            here too, and so are its learners and actor processes if their numbers of threads and actors are the same.
    """

    def __init__(self, workload: Workload, problem: Problem, like: "SharedParts | None" = None) -> None:
        self.workload, self._problem, self._batch_size = workload, problem, problem.batch_size
        self._learners: dict[tuple[Target, int], Learner] = like._learners if like else {}
        self._replays: dict[tuple[Target, Target, Fusion, bool], Replay] = like._replays if like else {}
        self._pools: dict[tuple[Target, int, int], ActorPool] = like._pools if like else {}

    def learner(self, target: Target) -> Learner:
        """Return the learner on a backend and device, in a trained state."""
        threads = self._problem.learner_threads
        if (target, threads) not in self._learners:
            start = profiled_start(self.workload)
            learner = created(self.workload, self._batch_size, target, start, threads)
            self._learners[target, threads] = learner
        return self._learners[target, threads]

    def replay(
        self, target: Target, fusion: Fusion | None = None, storage: Target = CPU, learner: Target = NATIVE
    ) -> Replay:
        """Return a full replay as the runtime would compose it.

        Replays whose tree is apart from their storage share the storage of a device: it is larger than the caches, and
        one for each tree would take most of a profile's memory.

        Args:
            fusion: `NONE` keeps tree and storage separate; otherwise they are fused if possible.
            storage: backend and device of the storage; a simulated storage has its data on the host.
            learner: backend and device of the learner; if it is simulated, batches of a real device are copied to the
                host.
        """
        real = storage.backend in STORING_DEVICES
        fetched = real and is_simulated(Mapping(learner, NATIVE, CPU))
        mapping = Mapping(learner if fetched else NATIVE, target, storage if real else CPU)
        possible = Fusion.REPLAY in fusions(self.workload, replace(mapping, storage=storage), 0)
        form = Fusion.REPLAY if possible and fusion is not Fusion.NONE else Fusion.NONE
        key = target, mapping.storage, form, fetched
        if key not in self._replays:
            sized = resized(self.workload, self._batch_size)
            replay = replay_of(sized, mapping, storage_of(sized, mapping), form)
            same = next((one for other, one in self._replays.items() if other[1:] == key[1:]), None)
            rng = np.random.default_rng(0)
            if form is Fusion.NONE and same is not None:
                replay.storage = same.storage  # the empty one is let go: its pages were never touched
                prioritise(replay, range(len(replay)), rng)
            else:
                fill(replay, rng, profiled_start(self.workload))
            self._replays[key] = replay
        return self._replays[key]

    def actors(self, target: Target) -> Actors:
        """Return an actor in a process of its own, late in training, for the learner on a backend and device.

        Learners in floating point, which have the same policy, share a process. `close` ends it.
        """
        kind = target if target.precision not in IN_FLOATS else CPU
        trainee, key = self.learner(target), (kind, self._problem.actors, 1)
        if key not in self._pools:
            self._pools[key] = late_pool(self.workload, self._problem, trainee)
        return BorrowedActors(self._pools[key], trainee)

    def on_policy_actors(self, plan: ActorPlan, learner: Learner, processes: int) -> Actors:
        """Return actors that collect whole on-policy iterations, in processes that learners in floating point share.

        Args:
            learner: the learner whose weights the actors use.
        """
        key = CPU, len(plan.environments), processes
        if key not in self._pools:
            self._pools[key] = ActorPool(plan, learner, processes)
        return BorrowedActors(self._pools[key], learner)

    def close(self) -> None:
        """End the actors' processes, including those shared with other parts (the argument `like`). Idempotent."""
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    def steps(self, learner: Target, manager: Target) -> FusedSteps:
        """Return an object that runs whole gradient steps of a learner and a replay in one call."""
        return FusedSteps(cast(ConcurrentReplay, self.replay(manager)), self.learner(learner))


def fill(replay: Replay, rng: np.random.Generator, start: TrainedStart | None = None) -> None:
    """Insert transitions until a replay is full, those of a training or else random ones, with random priorities.

    Args:
        start: the training whose transitions are inserted; None: random transitions.
    """
    rows = block_rows(replay.storage)
    block = start.batch(rows, rng) if start else random_transitions(replay.storage.fields, rows, rng)
    while (free := replay.storage.capacity - len(replay)) > 0:
        first = len(replay)
        count = min(free, len(block["reward"]))
        columns = {name: column[:count] for name, column in block.items()}
        if isinstance(replay, PrioritizedReplay):
            # One call per block, because the tree may be simulated.
            replay.insert(columns, rng.standard_normal(count))
            continue
        replay.insert(columns)
        prioritise(replay, range(first, first + count), rng)


def prioritise(replay: Replay, rows: range, rng: np.random.Generator) -> None:
    """Give rows of a replay random priorities, some at a time, because the tree may be simulated."""
    step = block_rows(replay.storage)
    for first in range(rows.start, rows.stop, step):
        some = np.arange(first, min(first + step, rows.stop))
        replay.update_priorities(some, rng.standard_normal(len(some)))
