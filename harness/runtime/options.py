"""How a mapping is run: what is chosen beside it, and what of that a machine and a workload cannot give."""

import os
from dataclasses import asdict, dataclass, fields
from typing import Any

from harness.core.errors import UserError
from harness.mapping import Mapping
from harness.runtime import compose, memory
from harness.runtime.balance import check_learners
from harness.runtime.compose import Fusion, check_processes
from harness.runtime.iteration import check_overlap, collected_rows
from harness.workloads import Workload, override
from harness.workloads.custom_task import CustomTask
from harness.workloads.task import Task
from primitives.algorithms.ppo import PPO


@dataclass(frozen=True)
class Options:
    """What the runtime can do with a mapping; the defaults are its strict loop in one process.

    Attributes:
        actors: environments stepped in turns; the workload's own number where None.
        threads: that the learner may compute with: PyTorch's in this process, or the native learner's.
        processes: to step the environments in, side by side; 0: in this one; None: what suits the algorithm
            (on-policy, where nothing else has work meanwhile, one a thread).
        envpool: step the environments with EnvPool, all of a process in one call, where it is installed and has them.
        presampled_batches: D of MAP V-A; the workload's where None.
        overlap: gradient steps, at least, that the actors work beside; 0: they take turns with the learner.
        learners: processes that each differentiate a part of every batch (PAL V-B).
        reallocate: move actors to training and back (PRL Algorithm 1).
        replay_beside: have replay management and storage work beside the learner, in a thread; needs D > 0.
        fusion: which neighbours run as one call; the most that the mapping allows where None.
        delay: gradient steps after which a learner of precision "dynamic" narrows; `compose.DELAY` where None.
    """

    actors: int | None = None
    threads: int = 1
    processes: int | None = None
    envpool: bool = False
    presampled_batches: int | None = None
    overlap: int = 0
    learners: int = 1
    reallocate: bool = False
    replay_beside: bool = False
    fusion: Fusion | None = None
    delay: int | None = None

    def given(self) -> dict[str, Any]:
        """Those that are not the default, by name: what a row says of how it was run."""
        return {f.name: value for f in fields(self) if (value := asdict(self)[f.name]) != f.default}

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.given().items())

    def applied(self, item: Workload) -> Workload:
        """The workload with the number of actors asked for; UserError where it is out of range."""
        return item if self.actors is None else override(item, "training.actors", self.actors, "--actors")

    def ahead(self, task: Task) -> int:
        """D of a task under these options."""
        return (
            task.training.presampled_batches if self.presampled_batches is None else self.presampled_batches
        )

    def check(self, task: Task, mapping: Mapping, batch_size: int) -> None:
        """See that the machine and the workload can give all this, before anything starts or is stored.

        Raises:
            UserError: the first that they cannot.
        """
        cores = os.cpu_count() or 1
        if not 1 <= self.threads <= cores:
            raise UserError(task.name, "threads", self.threads, f"1 to this machine's cores, {cores}")
        processes = self.processes or 0
        check_processes(task, processes)
        if self.envpool:
            compose.check_envpool(task)
        if is_on_policy(task):
            self._check_on_policy(task)
        else:
            compose.check_batches(task, batch_size, self.ahead(task))
            compose.chosen_fusion(task, mapping, self.ahead(task), self.fusion)
            compose.check_replay_beside(mapping, self.replay_beside, self.ahead(task))
        check_learners(mapping, self.learners, processes, self.overlap, self.reallocate)
        if self.learners > batch_size:
            raise UserError(task.name, "learners", self.learners, f"at most the batch size, {batch_size}")
        collected = 0
        if not is_on_policy(task):
            check_overlap(task, self.overlap)
            collected = collected_rows(task, self.overlap, self.reallocate)
        memory.check(task, batch_size, self.ahead(task), processes, self.learners, collected)
        compose.check(task, mapping, self.threads, self.delay, batch_size)
        compose.check_acting(mapping.learner, processes, self.overlap)
        _check_managed(task, mapping)
        if processes and compose.is_simulated(mapping):
            raise UserError(task.name, "actor processes", processes, "0 in virtual time")

    def _check_on_policy(self, task: Task) -> None:
        """What belongs to a replay, or runs beside it, has no meaning for an algorithm without one."""
        why = "for PPO, which learns from its own latest samples"
        nothing = Options()
        for name in ("presampled_batches", "overlap", "learners", "reallocate", "replay_beside", "fusion"):
            if (found := getattr(self, name)) != getattr(nothing, name):
                raise UserError(task.name, name, found, f"{getattr(nothing, name)} {why}")


def _check_managed(task: Task, mapping: Mapping) -> None:
    """UserError where a mapping names replay management for what has none: a row would say that it ran."""
    managed = not is_on_policy(task) and task.replay.prioritized
    if not managed and str(mapping.rmm) != "native":
        raise UserError(
            mapping, "rmm", mapping.rmm, f"native: {task.name} has no prioritised replay to manage"
        )


STRICT = Options()
"""The strict loop in one process."""


def is_on_policy(task: Task) -> bool:
    """Whether a task's algorithm learns from its own latest samples alone (PPO 2.1)."""
    return not isinstance(task, CustomTask) and task.algorithm.name == PPO.name
