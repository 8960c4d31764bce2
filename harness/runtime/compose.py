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
from placerl.harness.environments import native_pool
from placerl.harness.environments.env_pool import EnvironmentPool
from placerl.harness.environments.native_pool import NativePool, Pool
from placerl.harness.loop.schedule import STRICT, Environments, Fusion, InitialPriorities, Schedule
from placerl.harness.loop.training_loop import TD_ERROR, Shape
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.target import STORING_DEVICES
from placerl.harness.runtime import simulated_parts
from placerl.harness.runtime.actors.in_process import Actors, Collecting, InlineActors, ThreadActors
from placerl.harness.runtime.actors.pool import ActorPlan, ActorPool
from placerl.harness.runtime.mapped_parts import created, learner_of
from placerl.harness.runtime.native_rounds import RoundActors
from placerl.harness.runtime.resolve import Resolved
from placerl.harness.runtime.timed_storage import FetchedStorage, TimedDeviceStorage, TimedStorage
from placerl.harness.workloads import custom_task
from placerl.harness.workloads.custom_task import CustomTask
from placerl.harness.workloads.task import Task, columns_of
from placerl.primitives import sum_tree
from placerl.primitives.device import Device
from placerl.primitives.learner import Learner
from placerl.primitives.learner.fused import FusedSteps
from placerl.primitives.learner.relaxed import RelaxedSteps
from placerl.primitives.replay import (
    ConcurrentReplay,
    FieldSpec,
    LinearSchedule,
    NStepReturns,
    PrioritizedReplay,
    Storage,
    UniformReplay,
    device,
)
from placerl.primitives.replay.base import Replay
from placerl.primitives.training.rounds import Acting, FusedRounds


@dataclass(frozen=True)
class Parts:
    """The parts of one training.

    Attributes:
        actors: plan of the actors that step the environments.
        storage: holds the transitions that `replay` manages.
        replay: keeps the priorities, and samples batches.
        learner: takes the gradient steps.
        rng: source of the random numbers of sampling.
        steps: runs whole gradient steps in one call, if they are one (`Fusion.STEP`); whole rounds, if these are one.
        acting: actors to use instead of starting those of the plan; None: start them.
        returns: turns the actors' single steps into n-step transitions; None: they are stored as they are.
    """

    actors: ActorPlan
    storage: TimedStorage
    replay: Replay
    learner: Learner
    rng: np.random.Generator
    steps: FusedSteps | None = None
    acting: Collecting | None = None
    returns: NStepReturns | None = None


def compose(resolved: Resolved, *, seed: int, local_storage: int, environment_steps: int = 0) -> Parts:
    """Create the parts of a training: the plan of its actors, and its storage, replay and learner.

    Args:
        resolved: what is trained, and how.
        seed: seed of all random numbers; each part has its own stream.
        local_storage: vector steps that fit the actor's local storage.
        environment_steps: environment steps that count as taken before.

    Raises:
        UserError: a part cannot be created, such as a storage that a device's memory does not hold.
    """
    task, mapping, schedule, fusion = resolved.task, resolved.mapping, resolved.schedule, resolved.fusion
    environment_seed, exploration_seed, sampling_seed, learner_seed = np.random.SeedSequence(seed).spawn(4)
    storage = storage_of(task, mapping)
    replay = replay_of(task, mapping, storage, fusion)
    trainee = learner_of(task, mapping, learner_seed, schedule)
    by_actor = schedule.initial_priorities is InitialPriorities.ACTOR
    fields = {**storage.fields, **({TD_ERROR: FieldSpec((), np.float32)} if by_actor else {})}
    returns = task.returns() if isinstance(task, CustomTask) else None
    if returns:
        del fields["discount"]
        fields["truncated"] = FieldSpec((), np.bool_)
    plan = actors_of(
        task,
        environment_seed,
        exploration_seed,
        fields,
        local_storage,
        schedule,
        environment_steps=environment_steps,
    )
    steps = None
    if fusion is Fusion.STEP:
        steps = steps_of(replay, trainee, resolved.shape.ahead, schedule.replay_beside)
    elif fusion is Fusion.ROUND:
        steps = rounds_of(replay, trainee, plan, resolved.shape)
    return Parts(
        actors=plan,
        storage=storage,
        replay=replay,
        learner=trainee,
        rng=np.random.default_rng(sampling_seed),
        steps=steps,
        acting=RoundActors(steps) if isinstance(steps, FusedRounds) else None,
        returns=returns,
    )


def rounds_of(replay: Replay, trainee: Learner, plan: ActorPlan, shape: Shape) -> FusedRounds:
    """Return an object that runs whole rounds of a native learner, a native replay and native environments in one call.

    Args:
        replay, trainee: the replay and the learner.
        plan: the environments with their seeds, and the seed of the random numbers of actions.
        shape: the steps of a round.
    """
    makers = cast(tuple[environments.Seeded, ...], plan.environments)
    acting = Acting(
        native_pool.make(makers[0].environment, len(makers), "same_step"),
        [make.seed for make in makers],
        np.random.default_rng(plan.seed),
        shape.vector_steps,
        shape.gradient_steps,
        plan.local_storage,
        plan.environment_steps,
    )
    return FusedRounds(cast(ConcurrentReplay, replay), trainee, acting)


def steps_of(replay: Replay, trainee: Learner, ahead: int, beside: bool) -> FusedSteps:
    """Return an object that runs whole gradient steps of a native learner and a native replay in one call.

    Args:
        replay, trainee: the replay and the learner.
        ahead: D, batches sampled ahead; 0 unless `beside`.
        beside: whether a replay manager samples and updates in parallel with the learner.
    """
    source = cast(ConcurrentReplay, replay)
    return RelaxedSteps(source, trainee, ahead) if beside else FusedSteps(source, trainee)


def actors_of(
    workload: Task,
    environment_seed: np.random.SeedSequence,
    exploration_seed: np.random.SeedSequence,
    fields: MappingABC[str, FieldSpec],
    local_storage: int,
    schedule: Schedule = STRICT,
    *,
    clip: bool = False,
    environment_steps: int = 0,
) -> ActorPlan:
    """Return the plan of the actors, whose environments are stepped together in C++, or one after another in Python.

    Args:
        workload: gives the environment and the number of actors.
        environment_seed, exploration_seed: seeds of the environments and of the random numbers of actions.
        fields: columns of a transition, with shape and dtype.
        local_storage: vector steps (steps of all environments) whose transitions an actor can hold.
        schedule: says what steps the environments (`Schedule.stepping`).
        clip: whether the policy's continuous actions may be outside [-1, 1] and are clipped for the environments.
        environment_steps: environment steps that count as taken before.
    """
    if isinstance(workload, CustomTask):
        make: Callable[[int], Any] = partial(partial, custom_task.seeded, workload.make_environment)
    else:
        make = partial(environments.Seeded, workload.environment)
    return ActorPlan(
        tuple(make(seed) for seed in environment_seeds(environment_seed, workload.training.actors)),
        exploration_seed,
        fields,
        local_storage,
        clip,
        _POOLS.get(schedule.stepping(workload)),
        environment_steps,
    )


_POOLS: dict[Environments, Callable[[tuple[Any, ...]], Pool]] = {
    Environments.ENVPOOL: EnvironmentPool.of,
    Environments.NATIVE: NativePool.of,
}


def environment_seeds(seed: np.random.SeedSequence, count: int) -> list[int]:
    """Return a seed for each of `count` environments, below 2^31, because some environments take no larger ones."""
    return [int(one >> 1) for one in seed.generate_state(count)]


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


def _memory(mapping: Mapping) -> Device:
    memory: Device = created(mapping, "storage", mapping.storage, device.memory)
    return memory


def storage_of(workload: Task, mapping: Mapping) -> TimedStorage:
    """Create the empty storage for transitions on the device that a mapping names, which `mapped_parts` has checked.

    Raises:
        UserError: the device cannot hold the storage.
    """
    settings = workload.replay.capacity, columns_of(workload)
    if mapping.storage.backend not in STORING_DEVICES:
        return TimedStorage(*settings)
    simulated = simulated_parts.of_learner(mapping.learner) is not Provenance.MEASURED
    try:
        return (FetchedStorage if simulated else TimedDeviceStorage)(*settings, _memory(mapping))
    except MemoryError as error:
        raise UserError(mapping, "storage", mapping.storage, f"a smaller replay.capacity: {error}") from error


def replay_of(workload: Task, mapping: Mapping, storage: Storage, fusion: Fusion) -> Replay:
    """Create the replay that a mapping names on an empty storage.

    Args:
        workload: the task, which says how samples are drawn. By its batch size the sub-trees of a simulated FPGA are
            chosen.
        mapping: gives the backend and device of the replay management.
        storage: holds the transitions; must be empty.
        fusion: which calls are joined into one native call.

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
        size = workload.training.batch_size
        own = simulated_parts.tree_options(mapping.rmm, settings.capacity, settings.fanout, size)
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
