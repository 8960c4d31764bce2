"""Learners and full replays that several cases of one cell use in turn.

A replay outgrows the caches, so that whoever uses it finds of it what it would find of its own; making each once saves
the memory and the minutes of filling one for every mapping.
"""

from typing import cast

import numpy as np
import numpy.typing as npt

from harness.mapping import Mapping, Problem, Target
from harness.profile.cases.base import block_rows, random_transitions, targets
from harness.profile.cases.learners import created
from harness.runtime.compose import Fusion, fusions, replay_of, storage_of
from harness.workloads import Workload
from primitives import sum_tree
from primitives.learner import Learner
from primitives.learner.fused import FusedSteps
from primitives.replay import ConcurrentReplay, PrioritizedReplay
from primitives.replay.base import Replay

NATIVE, CPU = Target("native"), Target("cpu")


def managers(workload: Workload) -> list[Target]:
    """Where replay management can run, native first; uniform replay has none, and goes by the first name."""
    if not workload.replay.prioritized:
        return [NATIVE]
    return sorted(targets(sum_tree.backends(), "flat"), key=lambda target: (target != NATIVE, target))


class SharedParts:
    """Makes each part when it is first asked for.

    Args:
        workload: with a replay that fits the memory several times.
        problem: says the batch size.
    """

    def __init__(self, workload: Workload, problem: Problem) -> None:
        self.workload, self._batch_size = workload, problem.batch_size
        self._learners: dict[Target, Learner] = {}
        self._replays: dict[tuple[Target, Fusion], Replay] = {}

    def learner(self, target: Target) -> Learner:
        """The learner on a target."""
        if target not in self._learners:
            self._learners[target] = created(self.workload, self._batch_size, target)
        return self._learners[target]

    def replay(self, target: Target, fusion: Fusion | None = None) -> Replay:
        """The replay that the runtime would compose with a target, full.

        Args:
            target: of the replay management.
            fusion: `NONE` keeps tree and storage apart; by default they are fused where they can be.
        """
        mapping = Mapping(NATIVE, target, CPU)
        possible = Fusion.REPLAY in fusions(self.workload, mapping, 0)
        form = Fusion.REPLAY if possible and fusion is not Fusion.NONE else Fusion.NONE
        if (target, form) not in self._replays:
            made = replay_of(self.workload, mapping, storage_of(self.workload, mapping), form)
            fill(made, np.random.default_rng(0))
            self._replays[target, form] = made
        return self._replays[target, form]

    def steps(self, learner: Target, manager: Target) -> FusedSteps:
        """Fused gradient steps of a learner on a replay."""
        return FusedSteps(cast(ConcurrentReplay, self.replay(manager)), self.learner(learner))


def fill(replay: Replay, rng: np.random.Generator) -> None:
    """Insert random transitions until a replay is full, with priorities that differ."""
    block = random_transitions(replay.storage.fields, block_rows(replay.storage), rng)
    while (free := replay.storage.capacity - len(replay)) > 0:
        first = len(replay)
        count = min(free, len(block["reward"]))
        columns = {name: column[:count] for name, column in block.items()}
        td_errors: npt.NDArray[np.float64] = rng.standard_normal(count)
        if isinstance(replay, PrioritizedReplay):
            replay.insert(columns, td_errors)  # once through a tree that may be a simulated one
            continue
        replay.insert(columns)
        replay.update_priorities(np.arange(first, first + count), td_errors)
