"""Creates the parts of a training (actors, storage, replay, learner) from a workload and a mapping."""

from collections.abc import Callable
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from placerl.harness import environments
from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.environments import env_pool, native_pool
from placerl.harness.environments.env_pool import EnvironmentPool
from placerl.harness.environments.native_pool import NativePool
from placerl.harness.loop.schedule import STRICT, Fusion, InitialPriorities, Schedule
from placerl.harness.loop.training_loop import TD_ERROR
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.target import NATIVE, STORING_DEVICES
from placerl.harness.runtime import simulated_tree, time_provenance
from placerl.harness.runtime.actors.in_process import Actors, InlineActors, ThreadActors
from placerl.harness.runtime.actors.pool import ActorPlan, ActorPool
from placerl.harness.runtime.learner_memory import check_learner
from placerl.harness.runtime.learners.creation import created, learner_of, precision_of
from placerl.harness.runtime.timed_storage import FetchedStorage, TimedDeviceStorage, TimedStorage
from placerl.harness.workloads import custom_task
from placerl.harness.workloads.custom_task import CustomTask
from placerl.harness.workloads.task import Task, algorithm_of, columns_of
from placerl.primitives import learner, sum_tree
from placerl.primitives.device import Device
from placerl.primitives.learner import Learner
from placerl.primitives.learner.fused import FusedSteps
from placerl.primitives.learner.relaxed import RelaxedSteps
from placerl.primitives.quantization.precision import FLOAT_32
from placerl.primitives.replay import (
    ConcurrentReplay,
    FieldSpec,
    LinearSchedule,
    PrioritizedReplay,
    Storage,
    UniformReplay,
    device,
)
from placerl.primitives.replay.base import Replay


@dataclass(frozen=True)
class Parts:
    """The parts of one training.

    Attributes:
        actors: plan of the actors that step the environments.
        storage: holds the transitions that `replay` manages.
        replay: keeps the priorities, and samples batches.
        learner: takes the gradient steps.
        rng: source of the random numbers of sampling.
        fusion: which calls are joined into one native call.
        steps: runs whole gradient steps in one call, if `fusion` is `Fusion.STEP`.
        acting: actors to use instead of starting those of the plan; None: start them.
    """

    actors: ActorPlan
    storage: TimedStorage
    replay: Replay
    learner: Learner
    rng: np.random.Generator
    fusion: Fusion
    steps: FusedSteps | None = None
    acting: Actors | None = None


def fusions(
    workload: Task, mapping: Mapping, presampled_batches: int, beside: bool = False
) -> tuple[Fusion, ...]:
    """Return the fusions that a mapping allows: which calls can be joined into one native call, from none to all.

    Without `beside`, batches that are sampled ahead leave the replay before their gradient step, so whole steps
    cannot be fused.

    Args:
        workload: the task that is trained.
        mapping: backend and device of learner, replay management and storage.
        presampled_batches: D, batches sampled ahead.
        beside: whether a replay manager samples the batches in parallel with the learner.
    """
    possible = [Fusion.NONE]
    if str(mapping.rmm) == "native" and str(mapping.storage) == "cpu" and workload.replay.prioritized:
        possible.append(Fusion.REPLAY)
        if mapping.learner.in_floats == NATIVE and (presampled_batches == 0 or beside):
            possible.append(Fusion.STEP)
    return tuple(possible)


def compose(
    workload: Task,
    mapping: Mapping,
    *,
    batch_size: int,
    seed: int,
    local_storage: int,
    schedule: Schedule = STRICT,
) -> Parts:
    """Create the parts of a training: the plan of its actors, and its storage, replay and learner.

    Args:
        workload: the workload to train.
        mapping: backend and device of learner, replay management and storage.
        batch_size: transitions per gradient step.
        seed: seed of all random numbers; each part has its own stream.
        local_storage: vector steps that fit the actor's local storage.
        schedule: how the mapping is run. Used here are the batches sampled ahead, fusion, EnvPool, native environments,
            and threads and delay of the learner.

    Raises:
        UserError: the mapping names a backend or device that does not exist here or cannot be fused as requested, or
            the workload and the batch size are not compatible.
    """
    ahead = schedule.ahead(workload)
    check_batches(workload, batch_size, ahead)
    fusion = chosen_fusion(workload, mapping, ahead, schedule)
    algorithm = algorithm_of(workload)
    check_initial_priorities(workload, mapping, schedule)
    if "weight" not in algorithm.columns(1):
        allowed = "an algorithm that learns from a replay"
        raise UserError(workload.name, "algorithm.name", f"{algorithm.name!r}, which is on-policy", allowed)
    environment_seed, exploration_seed, sampling_seed, learner_seed = np.random.SeedSequence(seed).spawn(4)
    storage = storage_of(workload, mapping)
    replay = replay_of(workload, mapping, storage, fusion, batch_size)
    own = schedule.threads, schedule.delay, schedule.streams
    by_actor = schedule.initial_priorities is InitialPriorities.ACTOR
    trainee = learner_of(workload, mapping, batch_size, learner_seed, *own, evaluating=by_actor)
    priorities = {TD_ERROR: FieldSpec((), np.float32)} if by_actor else {}
    return Parts(
        actors=actors_of(
            workload,
            environment_seed,
            exploration_seed,
            {**storage.fields, **priorities},
            local_storage,
            envpool=schedule.envpool,
            native=schedule.native_environments,
        ),
        storage=storage,
        replay=replay,
        learner=trainee,
        rng=np.random.default_rng(sampling_seed),
        fusion=fusion,
        steps=steps_of(replay, trainee, ahead, schedule.replay_beside) if fusion is Fusion.STEP else None,
    )


def steps_of(replay: Replay, trainee: Learner, ahead: int, beside: bool) -> FusedSteps:
    """Return an object that runs whole gradient steps of a native learner and a native replay in one call.

    Args:
        replay, trainee: the replay and the learner.
        ahead: D, batches sampled ahead; 0 unless `beside`.
        beside: whether a replay manager samples and updates in parallel with the learner.
    """
    source = cast(ConcurrentReplay, replay)
    return RelaxedSteps(source, trainee, ahead) if beside else FusedSteps(source, trainee)


def check_batches(workload: Task, batch_size: int, presampled_batches: int) -> None:
    """Raise UserError if the storage is too small for a batch and the batches that wait for their gradient step.

    Args:
        workload: gives the capacity of the storage.
        batch_size: transitions per gradient step.
        presampled_batches: number of batches that wait.
    """
    capacity = workload.replay.capacity
    needed = batch_size * (presampled_batches + 1)
    if presampled_batches < 0 or (presampled_batches and needed > capacity):
        allowed = f"0 to replay.capacity / batch_size - 1, {capacity // batch_size - 1}"
        raise UserError(workload.name, "presampled_batches", presampled_batches, allowed)
    if not 1 <= batch_size <= capacity:
        raise UserError(workload.name, "batch_size", batch_size, f"1 to replay.capacity, {capacity}")


def check_initial_priorities(workload: Task, mapping: Mapping, schedule: Schedule) -> None:
    """Raise UserError if actors are to compute initial priorities, but the replay or the algorithm does not allow it.

    Args:
        workload: gives the replay and the algorithm.
        mapping: gives the learner's precision; actors of a fixed-point learner compute actions only.
        schedule: hold the requested initial priorities.
    """
    if schedule.initial_priorities is InitialPriorities.MAX:
        return
    algorithm, name = algorithm_of(workload), "initial_priorities"
    if not workload.replay.prioritized:
        raise UserError(
            workload.name,
            name,
            InitialPriorities.ACTOR,
            f"{InitialPriorities.MAX} without a prioritised replay",
        )
    if not algorithm.actors_evaluate:
        allowed = f"{InitialPriorities.MAX} with {algorithm.name}, whose actors compute no TD errors"
        raise UserError(workload.name, name, InitialPriorities.ACTOR, allowed)
    if mapping.learner.precision != FLOAT_32:
        raise UserError(
            mapping,
            name,
            InitialPriorities.ACTOR,
            f"{InitialPriorities.MAX} with a learner of precision {mapping.learner.precision}",
        )


def chosen_fusion(workload: Task, mapping: Mapping, presampled_batches: int, schedule: Schedule) -> Fusion:
    """Return which calls are joined into one native call: as requested, or by default as many as the mapping allows.

    Args:
        workload: the task that is trained.
        mapping: backend and device of learner, replay management and storage.
        presampled_batches: D, batches sampled ahead.
        schedule: hold the requested fusion, if any.

    Raises:
        UserError: the mapping does not allow the requested fusion.
    """
    possible = fusions(workload, mapping, presampled_batches, schedule.replay_beside)
    chosen = possible[-1] if schedule.fusion is None else schedule.fusion
    if chosen not in possible:
        raise UserError(mapping, "fusion", chosen, ", ".join(possible))
    return chosen


def check(workload: Task, mapping: Mapping, delay: int | None = None, batch_size: int = 2) -> None:
    """Check that a mapping's parts can be created on this machine, by creating small ones.

    Args:
        workload: the task that is trained.
        mapping: backend and device of learner, replay management and storage.
        delay: requested gradient steps before a learner of precision "dynamic" narrows its activations.
        batch_size: transitions per gradient step.

    Raises:
        UserError: the mapping names a backend, a device or a precision that does not exist here, its precision is not
            compatible with the delay, or there is too little memory for the learner.
    """
    check_learner(workload, batch_size, mapping.learner.backend)
    _check_storage(mapping)
    fanout = workload.replay.fanout
    own = simulated_tree.options(mapping.rmm, 2, fanout, 2)
    created(mapping, "rmm", mapping.rmm, sum_tree.create, 2, fanout=fanout, **own)
    created(
        mapping,
        "learner",
        mapping.learner,
        learner.create,
        algorithm_of(workload),
        batch_size=min(batch_size, 2),  # a batch of one loses dimensions that fixed point needs
        **precision_of(mapping, delay),
    )


def is_simulated(mapping: Mapping) -> bool:
    """Return whether a mapping uses a simulated device, so that trainings under it report virtual time."""
    return time_provenance.of_mapping(mapping) is not Provenance.MEASURED


def check_envpool(workload: Task) -> None:
    """Raise UserError if EnvPool is not installed or lacks the task's environment."""
    if isinstance(workload, CustomTask):
        raise UserError(workload.name, "envpool", "an environment of your own", "an environment by its id")
    env_pool.check(workload.environment, workload.name)


def check_native_environments(workload: Task, envpool: bool) -> None:
    """Raise UserError if the task's environment is not native, or if EnvPool is requested too."""
    if isinstance(workload, CustomTask):
        raise UserError(
            workload.name, "native_environments", "an environment of your own", "an environment by its id"
        )
    if envpool:
        raise UserError(workload.name, "native_environments", "envpool too", "one of them")
    native_pool.check(workload.environment, workload.name)


def actors_of(
    workload: Task,
    environment_seed: np.random.SeedSequence,
    exploration_seed: np.random.SeedSequence,
    fields: MappingABC[str, FieldSpec],
    local_storage: int,
    *,
    clip: bool = False,
    envpool: bool = False,
    native: bool = False,
) -> ActorPlan:
    """Return the plan of the actors, whose environments are stepped by EnvPool, in C++, or one after another in Python.

    Args:
        workload: gives the environment and the number of actors.
        environment_seed, exploration_seed: seeds of the environments and of the random numbers of actions.
        fields: columns of a transition, with shape and dtype.
        local_storage: vector steps (steps of all environments) whose transitions an actor can hold.
        clip: whether the policy's continuous actions may be outside [-1, 1] and are clipped for the environments.
        envpool: whether EnvPool steps the environments.
        native: whether C++ code steps them.

    Raises:
        UserError: EnvPool or native environments are requested, and lack the environment or cannot run.
    """
    if isinstance(workload, CustomTask):
        make: Callable[[int], Any] = partial(partial, custom_task.seeded, workload.make_environment)
    else:
        make = partial(environments.Seeded, workload.environment)
    if envpool:
        check_envpool(workload)
    if native:
        check_native_environments(workload, envpool)
    return ActorPlan(
        tuple(make(seed) for seed in environment_seeds(environment_seed, workload.training.actors)),
        exploration_seed,
        fields,
        local_storage,
        clip,
        EnvironmentPool.of if envpool else NativePool.of if native else None,
    )


def environment_seeds(seed: np.random.SeedSequence, count: int) -> list[int]:
    """Return a seed for each of `count` environments, below 2^31, because some environments take no larger ones."""
    return [int(one >> 1) for one in seed.generate_state(count)]


def check_processes(workload: Task, processes: int) -> None:
    """Raise UserError if there are more processes than environments."""
    if not 0 <= processes <= workload.training.actors:
        allowed = f"0 to training.actors, {workload.training.actors}"
        raise UserError(workload.name, "actor processes", processes, allowed)


def start_actors(plan: ActorPlan, learner: Learner, processes: int, *, beside: bool = False) -> Actors:
    """Start the actors of a plan.

    Args:
        plan: the environments, and how the actors step them.
        learner: the learner whose policy the actors use.
        processes: number of parallel processes that step the environments; 0: this process.
        beside: without processes: whether the actors run in a thread parallel to the learner, instead of in turns
            with the learner.
    """
    if not processes:
        return (ThreadActors if beside else InlineActors)(plan.build(), learner)
    return ActorPool(plan, learner, processes)


def _check_storage(mapping: Mapping) -> None:
    # simulated: the data is on the host, its time is that of the board's memory
    boards = [str(target.in_floats) for target in (mapping.rmm, mapping.learner) if target.backend == "fpga"]
    allowed = list(dict.fromkeys(["cpu", *boards]))
    if str(mapping.storage) in allowed:
        return
    usable = [status.name for status in device.backends() if status.available]
    if mapping.storage.backend in usable:
        _memory(mapping)
        return
    raise UserError(mapping, "storage", mapping.storage, " or ".join([*allowed, *usable]))


def _memory(mapping: Mapping) -> Device:
    memory: Device = created(mapping, "storage", mapping.storage, device.memory)
    return memory


def storage_of(workload: Task, mapping: Mapping) -> TimedStorage:
    """Create the empty storage for transitions on the device that a mapping names.

    Raises:
        UserError: there is no such device here, or it cannot hold the storage.
    """
    _check_storage(mapping)
    settings = workload.replay.capacity, columns_of(workload)
    if mapping.storage.backend not in STORING_DEVICES:
        return TimedStorage(*settings)
    simulated = time_provenance.of_learner(mapping.learner) is not Provenance.MEASURED
    try:
        return (FetchedStorage if simulated else TimedDeviceStorage)(*settings, _memory(mapping))
    except MemoryError as error:
        raise UserError(mapping, "storage", mapping.storage, f"a smaller replay.capacity: {error}") from error


def replay_of(
    workload: Task, mapping: Mapping, storage: Storage, fusion: Fusion, batch_size: int | None = None
) -> Replay:
    """Create the replay that a mapping names on an empty storage.

    Args:
        workload: the task, which says how samples are drawn.
        mapping: gives the backend and device of the replay management.
        storage: holds the transitions; must be empty.
        fusion: which calls are joined into one native call.
        batch_size: transitions per gradient step, by which the sub-trees of a simulated FPGA are chosen; the workload's
            own if None.

    Raises:
        UserError: the backend or the device does not exist here.
    """
    settings = workload.replay
    if not settings.prioritized:
        return UniformReplay(storage)
    options: dict[str, Any] = {
        "alpha": settings.alpha,
        "beta": beta_of(workload),
        "epsilon": settings.epsilon,
    }
    if fusion is Fusion.NONE:
        size = workload.training.batch_size if batch_size is None else batch_size
        own = simulated_tree.options(mapping.rmm, settings.capacity, settings.fanout, size)
        tree = created(
            mapping, "rmm", mapping.rmm, sum_tree.create, settings.capacity, fanout=settings.fanout, **own
        )
        return PrioritizedReplay(storage, tree, **options)
    try:
        return ConcurrentReplay(storage, fanout=settings.fanout, **options)
    except (ImportError, ValueError) as error:
        raise UserError(mapping, "rmm", mapping.rmm, error) from error


def beta_of(workload: Task) -> LinearSchedule:
    """Return the schedule, over gradient steps, of beta, the exponent of the importance weights, for a workload."""
    settings = workload.replay
    return LinearSchedule(settings.beta_initial, settings.beta_final, settings.beta_steps)
