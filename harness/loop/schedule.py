"""The schedule of a training: in which order its parts are called, what runs in parallel, and who has which cores."""

from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, overload

from pydantic import Field

from placerl.harness.core.checked import checked
from placerl.harness.core.errors import OptionName, UserError
from placerl.harness.workloads import Workload, override

if TYPE_CHECKING:
    from placerl.harness.workloads.task import Task

DELAY = 1000
"""Gradient steps after which a learner of precision "dynamic" narrows its activations. FIX does not state its
number.
"""


class Loop(StrEnum):
    """The order in which the parts of a training are called.

    Strict: separate calls, one after another. Fused: the same order, but neighbouring parts on one device are one
    call. Overlapped: fused, and the actors run at the same time as the rest (PRL 3.2). Relaxed: overlapped, and the
    replay manager works at the same time as the learner (MAP V-A). Concurrent: actors, replay manager and learner
    are C++ threads that run free on one replay (PAL IV-D) with batches sampled ahead, at the workload's ratio of
    steps; the order of their calls differs from run to run. Resident: the order of strict, in graphs of the
    learner's device that the host only starts. A performance model describes one of these orders.
    """

    STRICT = "strict"  # every part is a separate call, one after another (D = 0, MAP II-A2)
    FUSED = "fused"  # as strict, but neighbouring parts on one device are one call: the loop of `placerl run`
    OVERLAPPED = "overlapped"  # fused, and the actors run at the same time as the rest (PRL 3.2)
    RELAXED = "relaxed"  # overlapped, and the replay manager works at the same time as the learner (MAP V-A)
    CONCURRENT = (
        "concurrent"  # threads of C++ run free on one replay: PAL's, with MAP's batches sampled ahead
    )
    RESIDENT = "resident"  # as strict, but rounds or iterations are graphs of the learner's device


IN_PARALLEL = (Loop.OVERLAPPED, Loop.RELAXED)
"""The loops in which the actors run at the same time as the rest."""


class Fusion(StrEnum):
    """The neighbouring calls of a training that are joined into one native call.

    NONE: none. REPLAY: replay management and storage. STEP: these and the learner, so that whole gradient steps are one
    call. ROUND: these, the environments and the policy. ITERATION: environments, policy and learner of PPO. RESIDENT:
    as ROUND or ITERATION, but graphs of a device.
    """

    NONE = "none"  # replay management, data storage and learner are called one after the other
    REPLAY = "replay"  # replay management and data storage in one native call: `ConcurrentReplay`
    STEP = "step"  # the learner too: whole gradient steps in one native call, `FusedSteps`
    ROUND = "round"  # environments and policy too: whole rounds in one native call, `FusedRounds`
    ITERATION = (
        "iteration"  # of PPO: environments, policy and learner in one native call, `OnPolicyIterations`
    )
    # whole rounds or iterations as graphs of the learner's device, `ResidentRounds`, `ResidentIterations`
    RESIDENT = "resident"


class Environments(StrEnum):
    """The code that steps the environments of a training. The native ones have Gymnasium's trajectories, bit for bit.

    GYMNASIUM: Gymnasium's, or a user's own, one after another. NATIVE: this project's, in C++. ENVPOOL: EnvPool's.
    DEVICE: the sources of the native ones, compiled for the learner's device, in the resident loop alone.
    """

    GYMNASIUM = "gymnasium"
    NATIVE = "native"
    ENVPOOL = "envpool"
    DEVICE = "device"


class InitialPriorities(StrEnum):
    """What gives the priority of a new transition.

    MAX: the largest priority so far (Schaul et al. 2015, Algorithm 1). ACTOR: the TD error that the actor computes with
    the weights that it acts with (MAP II-A1).
    """

    MAX = "max"
    ACTOR = "actor"


@dataclass(frozen=True)
class Offered:
    """How front ends offer a field of `Schedule` as an option.

    Attributes:
        text: what the option means, in a line.
        least: the least value that a front end takes; None: any. `harness.runtime.resolve` checks every range.
    """

    text: str
    least: int | None = None


@checked
class Schedule:
    """How a mapping is run. With the defaults, everything runs in one process, one part after another.

    A value of another type raises UserError; ranges are checked with the task and the mapping
    (`harness.runtime.resolve`). What a field means, and its least value, stands next to it (`Offered`); further facts:

    Attributes:
        processes: None: chosen for the algorithm (on-policy, where nothing else runs meanwhile, one per thread). With
            `threads_native` the number of actor threads, as `learners` is that of learner threads.
        streams: None: one queue, or the pipelines that MAP's exploration chooses.
        presampled_batches: None: the workload's (MAP V-A).
        overlap: least number, in whole iterations.
        learners: PAL V-B.
        reallocate: PRL Algorithm 1.
        streamed: assumes that the learner's design works on transitions one after another.
        initial_priorities: in MAP's loop the actors give them (MAP II-A1), with DQN and DDPG. Here it is the largest
            priority so far unless requested, so that loops can be compared, and DDPG's actors do not need the critic.
    """

    actors: Annotated[int | None, Offered("Environments; the workload's own number when left out.")] = None
    threads: Annotated[int, Offered("Threads of the learner.", least=1)] = 1
    streams: Annotated[
        int | None,
        Offered(
            "Streams of a learner, each with a part of every batch (PRL 4.2.1): command queues on OpenCL, "
            "pipelines on the simulated FPGA.",
            least=1,
        ),
    ] = None
    processes: Annotated[
        int | None, Offered("Processes that step the environments; 0: this one.", least=0)
    ] = None
    environments: Annotated[
        Environments | None,
        Field(strict=False),
        Offered(
            "What steps the environments; `native` where C++ has them, with Gymnasium's trajectories, when left out. "
            "`envpool` needs the extra of that name; `device` is the resident loop's."
        ),
    ] = None
    presampled_batches: Annotated[
        int | None,
        Offered(
            "D, batches sampled ahead; 0: none. When left out, the workload's own number; with --loop, none but in the "
            "loops relaxed and concurrent.",
            least=0,
        ),
    ] = None
    overlap: Annotated[int, Offered("Gradient steps in parallel with the actors; 0: in turns.", least=0)] = 0
    learners: Annotated[int, Offered("Processes that each differentiate a part of a batch.", least=1)] = 1
    reallocate: Annotated[bool, Offered("Move actors to training and back as they are needed.")] = False
    replay_beside: Annotated[
        bool,
        Offered("Run replay management and storage in a thread of their own: of C++, where both are native."),
    ] = False
    fusion: Annotated[
        Fusion | None, Field(strict=False), Offered("What runs as one call; as much as can when left out.")
    ] = None
    delay: Annotated[
        int | None,
        Offered(
            f"Gradient steps after which a learner of precision `dynamic` narrows; {DELAY} when left out.",
            least=1,
        ),
    ] = None
    threads_native: Annotated[
        bool,
        Offered(
            "Actors and learners are C++ threads on one replay, which run free at the workload's ratio of steps; "
            "--processes is then the number of actor threads, 0 for one thread that does both in turns."
        ),
    ] = False
    own_batches: Annotated[
        bool,
        Offered(
            "With --threads-native: each learner samples a whole batch of its own instead of a part of one, so that a "
            "gradient step trains on a batch for each learner (PAL V-B)."
        ),
    ] = False
    pinned: Annotated[
        bool,
        Offered("Bind each thread and actor process to a core, those of learners to cores of their own."),
    ] = False
    deferred_insertion: Annotated[
        bool,
        Offered(
            "With --overlap: insert transitions during a gradient step of the next iteration (PRL 3.2.1)."
        ),
    ] = False
    single_buffered: Annotated[
        bool,
        Offered(
            "With --overlap: hand new weights over only when the actors have stopped, instead of into a second "
            "buffer while they act (PRL 3.3.2)."
        ),
    ] = False
    streamed: Annotated[
        bool,
        Offered("A simulated learner begins its step when a batch's first transition arrives (PRL 3.3.2)."),
    ] = False
    initial_priorities: Annotated[
        InitialPriorities,
        Field(strict=False),
        Offered(
            "Priority of a new transition: the largest so far, or the actor's own TD error (MAP II-A; DQN, DDPG)."
        ),
    ] = InitialPriorities.MAX

    def given(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, by name, as result rows hold them."""
        return {f.name: value for f in fields(self) if (value := asdict(self)[f.name]) != f.default}

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.given().items())

    @overload
    def applied(self, task: Workload) -> Workload: ...

    @overload
    def applied(self, task: "Task") -> "Task": ...

    def applied(self, task: "Task") -> "Task":
        """Return the task with the requested number of actors.

        Raises:
            UserError: the number is out of range, or differs from that of a user's own task, which `Settings` states.
        """
        if self.actors is None:
            return task
        if not isinstance(task, Workload):
            if self.actors != (stated := task.training.actors):
                raise UserError(task.name, "actors", self.actors, f"{stated}, as its Settings state")
            return task
        return override(task, "training.actors", self.actors, OptionName("actors"))

    def ahead(self, task: "Task") -> int:
        """Return D, the number of batches sampled ahead, for a task: the requested number or else the task's own."""
        return (
            task.training.presampled_batches if self.presampled_batches is None else self.presampled_batches
        )

    def stepping(self, task: "Task") -> Environments:
        """Return what steps a task's environments.

        It is what was requested; by default native code if it has the environment with these arguments, else Gymnasium.
        C++ threads step native environments only, and in the resident loop the device steps them.
        """
        if self.environments is not None:
            return self.environments
        if self.fusion is Fusion.RESIDENT:
            return Environments.DEVICE
        if not isinstance(task, Workload):
            return Environments.GYMNASIUM
        # It loads MuJoCo for an environment of it, and mappings are named without that.
        from placerl.harness.environments import native_pool

        able = self.threads_native or not native_pool.refusal(task.environment)
        return Environments.NATIVE if able else Environments.GYMNASIUM

    def actor_processes(self, task: "Task", simulated: bool = False) -> int:
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


def is_on_policy(task: "Task") -> bool:
    """Return whether a task's algorithm learns only from its own latest samples (PPO 2.1)."""
    return isinstance(task, Workload) and task.algorithm.name == "ppo"
