"""The schedule of a training: in which order its parts are called, what runs in parallel, and who has which cores."""

from dataclasses import asdict, fields
from enum import StrEnum
from typing import Annotated, Any, overload

from pydantic import Field

from placerl.harness.core.checked import checked
from placerl.harness.core.errors import UserError
from placerl.harness.workloads import Workload, override
from placerl.harness.workloads.custom_task import CustomTask
from placerl.harness.workloads.task import Task
from placerl.primitives.algorithms.ppo import PPO

DELAY = 1000
"""Gradient steps after which a learner of precision "dynamic" narrows its activations. FIX does not state its
number.
"""


class Loop(StrEnum):
    """The order in which the parts of a training are called: strict, fused, overlapped or relaxed.

    Strict: separate calls, one after another. Fused: the same order, but neighbouring parts on one device are one call.
    Overlapped: fused, and the actors run at the same time as the rest (PRL 3.2). Relaxed: overlapped, and the replay
    manager works at the same time as the learner (MAP V-A). A performance model describes one of these orders.
    """

    STRICT = "strict"  # every part is a separate call, one after another (D = 0, MAP II-A2)
    FUSED = "fused"  # as strict, but neighbouring parts on one device are one call: the loop of `placerl run`
    OVERLAPPED = "overlapped"  # fused, and the actors run at the same time as the rest (PRL 3.2)
    RELAXED = "relaxed"  # overlapped, and the replay manager works at the same time as the learner (MAP V-A)


IN_PARALLEL = (Loop.OVERLAPPED, Loop.RELAXED)
"""The loops in which the actors run at the same time as the rest."""


class Fusion(StrEnum):
    """The neighbouring calls of a training that are joined into one native call.

    NONE: none. REPLAY: replay management and storage. STEP: these and the learner, so that whole gradient steps are one
    call. ITERATION: environments, policy and learner of PPO.
    """

    NONE = "none"  # replay management, data storage and learner are called one after the other
    REPLAY = "replay"  # replay management and data storage in one native call: `ConcurrentReplay`
    STEP = "step"  # the learner too: whole gradient steps in one native call, `FusedSteps`
    ITERATION = (
        "iteration"  # of PPO: environments, policy and learner in one native call, `OnPolicyIterations`
    )


class InitialPriorities(StrEnum):
    """What gives the priority of a new transition.

    MAX: the largest priority so far (Schaul et al. 2015, Algorithm 1). ACTOR: the TD error that the actor computes with
    the weights that it acts with (MAP II-A1).
    """

    MAX = "max"
    ACTOR = "actor"


@checked
class Schedule:
    """How a mapping is run. With the defaults, everything runs in one process, one part after another.

    A value of another type raises UserError; ranges are checked with the task and the mapping
    (`harness.runtime.resolve`).

    Attributes:
        actors: number of environments stepped in turns; None: the workload's number.
        streams: streams of a learner, which each work on a part of every batch (PRL 4.2.1): command queues on OpenCL,
            pipelines on the simulated FPGA; None: one queue, or the pipelines that MAP's exploration chooses.
        threads: threads of the learner: PyTorch's in this process, or the native learner's.
        processes: number of parallel processes that step the environments; 0: this process; None: chosen for the
            algorithm (on-policy, where nothing else runs meanwhile, one per thread).
        envpool: whether EnvPool steps all environments of a process in one call; it must be installed and have them.
        native_environments: whether C++ code steps all environments of a process in one call; it must have them. The
            trajectories are the same as Gymnasium's.
        presampled_batches: D, batches sampled ahead of their gradient steps (MAP V-A); None: the workload's.
        overlap: least number of gradient steps that run in parallel with the actors; 0: actors and learner
            take turns.
        learners: number of processes that each differentiate a part of every batch (PAL V-B).
        reallocate: whether actors are moved to training and back while training runs (PRL Algorithm 1).
        replay_beside: whether replay management and storage run in a thread parallel to the learner.
        fusion: which calls are joined into one native call; None: as many as the mapping allows.
        threads_native: whether actors and learners are C++ threads (`harness.runtime.native_threads`); `processes`
            and `learners` are then numbers of threads.
        delay: gradient steps after which a learner of precision "dynamic" narrows its activations;
            None: `DELAY`.
        deferred_insertion: with `overlap`, whether transitions are inserted during a gradient step of the next
            iteration (PRL 3.2.1) instead of between two iterations.
        single_buffered: with `overlap`, whether new weights reach the actors only when these have stopped, instead of
            while they act on the old ones in a second buffer (PRL 3.3.2).
        streamed: whether a simulated learner begins its step when a batch's first transition arrives (PRL 3.3.2)
            instead of when all have. It is assumed that its design works on them one after another.
        initial_priorities: what gives the priorities of new transitions. In MAP's loop the actors do (MAP II-A1), with
            DQN and DDPG. Here it is the largest priority so far unless requested, so that loops can be compared, and
            DDPG's actors do not need the critic.
    """

    actors: int | None = None
    threads: int = 1
    streams: int | None = None
    processes: int | None = None
    envpool: bool = False
    native_environments: bool = False
    presampled_batches: int | None = None
    overlap: int = 0
    learners: int = 1
    reallocate: bool = False
    replay_beside: bool = False
    fusion: Annotated[Fusion | None, Field(strict=False)] = None
    delay: int | None = None
    threads_native: bool = False
    deferred_insertion: bool = False
    single_buffered: bool = False
    streamed: bool = False
    initial_priorities: Annotated[InitialPriorities, Field(strict=False)] = InitialPriorities.MAX

    def given(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, by name, as result rows hold them in their details."""
        return {f.name: value for f in fields(self) if (value := asdict(self)[f.name]) != f.default}

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.given().items())

    @overload
    def applied(self, task: Workload) -> Workload: ...

    @overload
    def applied(self, task: Task) -> Task: ...

    def applied(self, task: Task) -> Task:
        """Return the task with the requested number of actors.

        Raises:
            UserError: the number is out of range, or differs from that of a user's own task, which `Settings` states.
        """
        if self.actors is None:
            return task
        if isinstance(task, CustomTask):
            if self.actors != (found := task.training.actors):
                raise UserError(task.name, "actors", self.actors, f"{found}, as its Settings state")
            return task
        return override(task, "training.actors", self.actors, "--actors")

    def ahead(self, task: Task) -> int:
        """Return D, the number of batches sampled ahead, for a task: the requested number or else the task's own."""
        return (
            task.training.presampled_batches if self.presampled_batches is None else self.presampled_batches
        )

    def actor_processes(self, task: Task, simulated: bool = False) -> int:
        """Return the number of processes that step a task's environments; 0: the learner's own process.

        It is the requested number. By default an on-policy algorithm has one per thread, up to the number of
        environments, if there are several threads and time is real; others have none.

        Args:
            task: gives the algorithm and the number of environments.
            simulated: whether a part is simulated, so that time is virtual.
        """
        if self.processes is not None:
            return self.processes
        if simulated or self.threads == 1 or not is_on_policy(task):
            return 0
        return min(self.threads, task.training.actors)


STRICT = Schedule()
"""The default options: one part after another, in one process."""


def is_on_policy(task: Task) -> bool:
    """Return whether a task's algorithm learns only from its own latest samples (PPO 2.1)."""
    return not isinstance(task, CustomTask) and task.algorithm.name == PPO.name
