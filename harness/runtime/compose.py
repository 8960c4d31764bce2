"""Builds the parts of a training from a workload and the mapping that says what runs where."""

from collections.abc import Callable
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from time import perf_counter
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from harness import environments
from harness.core.errors import UserError
from harness.core.provenance import Provenance
from harness.environments import env_pool
from harness.environments.env_pool import EnvironmentPool
from harness.mapping import Mapping, Target
from harness.runtime import time_provenance
from harness.runtime.actors.in_process import Actors, InlineActors, ThreadActors
from harness.runtime.actors.pool import ActorPlan, ActorPool
from harness.workloads import custom_task
from harness.workloads.custom_task import CustomTask
from harness.workloads.task import Task, algorithm_of, columns_of
from primitives import learner, sum_tree
from primitives.backend import BackendUnavailableError
from primitives.learner import Learner, UnsupportedOperationError
from primitives.learner.fused import FusedSteps
from primitives.quantization.precision import DYNAMIC, FLOAT_32
from primitives.replay import (
    ConcurrentReplay,
    FieldSpec,
    LinearSchedule,
    PrioritizedReplay,
    Storage,
    UniformReplay,
)
from primitives.replay.base import Replay

DELAY = 1000
"""Gradient steps after which a learner of precision "dynamic" narrows its activations. FIX does not give its own."""


class TimedStorage(Storage):
    """A storage that counts the seconds of its gathers and writes, apart from the sampling and inserting around them.

    Attributes:
        gather_s, write_s: seconds spent so far.
    """

    gather_s = 0.0
    write_s = 0.0

    def gather(
        self, indices: npt.ArrayLike, out: MappingABC[str, npt.NDArray] | None = None
    ) -> dict[str, npt.NDArray]:
        start_s = perf_counter()
        batch = super().gather(indices, out)
        self.gather_s += perf_counter() - start_s
        return batch

    def write(
        self, arrays: MappingABC[str, npt.NDArray], rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        start_s = perf_counter()
        written = super().write(arrays, rows)
        self.write_s += perf_counter() - start_s
        return written


class Fusion(StrEnum):
    """Which neighbours of a mapping run as one call."""

    NONE = "none"  # replay management, data storage and learner are called one after the other
    REPLAY = "replay"  # replay management and data storage in one native call: `ConcurrentReplay`
    STEP = "step"  # the learner too: whole gradient steps in one native call, `FusedSteps`


@dataclass(frozen=True)
class Parts:
    """The parts of one training.

    Attributes:
        actors: how to make what steps the environments.
        storage: the data, which `replay` manages.
        replay: priorities and sampling.
        learner: takes the gradient steps.
        rng: source of the random numbers of sampling.
        fusion: what is fused.
        steps: the fused gradient steps, where the whole step is fused.
    """

    actors: ActorPlan
    storage: TimedStorage
    replay: Replay
    learner: Learner
    rng: np.random.Generator
    fusion: Fusion
    steps: FusedSteps | None = None


def fusions(workload: Task, mapping: Mapping, presampled_batches: int) -> tuple[Fusion, ...]:
    """What can be fused in a mapping, the most last.

    Batches that are sampled ahead have left the replay before their gradient step: such steps cannot fuse.
    """
    possible = [Fusion.NONE]
    if str(mapping.rmm) == "native" and str(mapping.storage) == "cpu" and workload.replay.prioritized:
        possible.append(Fusion.REPLAY)
        if str(mapping.learner) == "native" and presampled_batches == 0:
            possible.append(Fusion.STEP)
    return tuple(possible)


def compose(
    workload: Task,
    mapping: Mapping,
    *,
    batch_size: int,
    seed: int,
    local_storage: int,
    presampled_batches: int = 0,
    fusion: Fusion | None = None,
    envpool: bool = False,
    threads: int = 1,
    delay: int | None = None,
) -> Parts:
    """Build the parts of a training.

    Args:
        workload: what to train.
        mapping: which backend and device runs learner, replay management and storage.
        batch_size: transitions in a gradient step.
        seed: every random number comes from it, each part having a stream of its own.
        local_storage: vector steps that fit the actor's local storage.
        presampled_batches: that will wait for their gradient step.
        fusion: what to fuse; by default the most that the mapping allows.
        envpool: step the environments with EnvPool.
        threads, delay: of the learner; see `learner_of`.

    Raises:
        UserError: the mapping names a backend or device that is not there or cannot be fused so, or the
            workload and the batch size do not fit together.
    """
    check_batches(workload, batch_size, presampled_batches)
    fusion = chosen_fusion(workload, mapping, presampled_batches, fusion)
    algorithm = algorithm_of(workload)
    if "weight" not in algorithm.columns(1):
        allowed = "an algorithm that learns from a replay"
        raise UserError(workload.name, "algorithm.name", f"{algorithm.name!r}, which is on-policy", allowed)
    environment_seed, exploration_seed, sampling_seed, learner_seed = np.random.SeedSequence(seed).spawn(4)
    storage = storage_of(workload, mapping)
    replay = replay_of(workload, mapping, storage, fusion)
    trainee = learner_of(workload, mapping, batch_size, learner_seed, threads, delay)
    return Parts(
        actors=actors_of(
            workload, environment_seed, exploration_seed, storage.fields, local_storage, envpool=envpool
        ),
        storage=storage,
        replay=replay,
        learner=trainee,
        rng=np.random.default_rng(sampling_seed),
        fusion=fusion,
        steps=FusedSteps(cast(ConcurrentReplay, replay), trainee) if fusion is Fusion.STEP else None,
    )


def check_batches(workload: Task, batch_size: int, presampled_batches: int) -> None:
    """UserError where the storage is too small for a batch, and for those that wait for their gradient step."""
    capacity = workload.replay.capacity
    needed = batch_size * (presampled_batches + 1)
    if presampled_batches < 0 or (presampled_batches and needed > capacity):
        allowed = f"0 to replay.capacity / batch_size - 1, {capacity // batch_size - 1}"
        raise UserError(workload.name, "presampled_batches", presampled_batches, allowed)
    if not 1 <= batch_size <= capacity:
        raise UserError(workload.name, "batch_size", batch_size, f"1 to replay.capacity, {capacity}")


def chosen_fusion(workload: Task, mapping: Mapping, presampled_batches: int, fusion: Fusion | None) -> Fusion:
    """What is asked for, or by default the most that the mapping allows; UserError where it cannot be."""
    possible = fusions(workload, mapping, presampled_batches)
    chosen = possible[-1] if fusion is None else fusion
    if chosen not in possible:
        raise UserError(mapping, "fusion", chosen, ", ".join(possible))
    return chosen


def check(
    workload: Task, mapping: Mapping, threads: int = 1, delay: int | None = None, batch_size: int = 2
) -> None:
    """See that a mapping's parts can be made here, by making small ones: before anything starts or is stored.

    Raises:
        UserError: the mapping names a backend, a device or a precision that is not there, or its precision does not
            go with the threads or the delay.
    """
    _check_storage(mapping)
    _create(mapping, "rmm", mapping.rmm, sum_tree.create, 2, fanout=workload.replay.fanout)
    _create(
        mapping,
        "learner",
        mapping.learner,
        learner.create,
        algorithm_of(workload),
        batch_size=min(batch_size, 2),  # a batch of one loses dimensions that fixed point goes by
        **_precision_of(mapping, threads, delay),
    )


def is_simulated(mapping: Mapping) -> bool:
    """Whether a part of a mapping runs on a simulated device, so that the run is in virtual time."""
    return time_provenance.of_mapping(mapping) is not Provenance.MEASURED


def check_envpool(workload: Task) -> None:
    """UserError where EnvPool is not installed or does not have the task's environment."""
    if isinstance(workload, CustomTask):
        raise UserError(workload.name, "envpool", "an environment of your own", "an environment by its id")
    env_pool.check(workload.environment, workload.name)


def actors_of(
    workload: Task,
    environment_seed: np.random.SeedSequence,
    exploration_seed: np.random.SeedSequence,
    fields: MappingABC[str, FieldSpec],
    local_storage: int,
    *,
    clip: bool = False,
    envpool: bool = False,
) -> ActorPlan:
    """The task's environments and what steps them: EnvPool, or one after the other.

    See `Actor` for `fields` to `clip`.

    Raises:
        UserError: EnvPool is asked for, and is not installed or has no such environment.
    """
    if isinstance(workload, CustomTask):
        make: Callable[[int], Any] = partial(partial, custom_task.seeded, workload.make_environment)
    else:
        make = partial(environments.Seeded, workload.environment)
    if envpool:
        check_envpool(workload)
    seeds = environment_seed.generate_state(workload.training.actors)
    return ActorPlan(
        tuple(make(int(seed >> 1)) for seed in seeds),  # some take 31 bits at most
        exploration_seed,
        fields,
        local_storage,
        clip,
        EnvironmentPool.of if envpool else None,
    )


def check_processes(workload: Task, processes: int) -> None:
    """UserError where there are more processes than environments."""
    if not 0 <= processes <= workload.training.actors:
        allowed = f"0 to training.actors, {workload.training.actors}"
        raise UserError(workload.name, "actor processes", processes, allowed)


def check_replay_beside(mapping: Mapping, beside: bool, presampled_batches: int) -> None:
    """UserError where replay management is to work beside the learner and cannot."""
    if not beside:
        return
    if is_simulated(mapping):
        raise UserError(
            mapping, "replay_beside", beside, "False in virtual time, where every device works so"
        )
    if presampled_batches < 1:
        allowed = "at least 1 with replay_beside: the strict loop samples when the last update is done"
        raise UserError(mapping, "presampled_batches", presampled_batches, allowed)


def check_acting(learner_target: Target, processes: int, overlap: int) -> None:
    """UserError where actors elsewhere would infer in float32 for a learner in fixed point.

    Args:
        learner_target: of the learner.
        processes: of the actors.
        overlap: gradient steps that the actors work alongside.
    """
    if learner_target.precision != FLOAT_32 and (processes or overlap):
        name, found = ("actor processes", processes) if processes else ("overlap", overlap)
        allowed = "0 with a learner in fixed point, whose actors infer in its formats"
        raise UserError(learner_target, name, found, allowed)


def start_actors(plan: ActorPlan, learner: Learner, processes: int, *, beside: bool = False) -> Actors:
    """The actors of a plan, at work.

    Args:
        plan: what they step.
        learner: whose policy they follow.
        processes: to step the environments in, side by side; 0: in this process.
        beside: without processes: in a thread beside the learner, not in turns with it.
    """
    if not processes:
        return (ThreadActors if beside else InlineActors)(plan.build(), learner)
    return ActorPool(plan, learner, processes)


def learner_of(
    workload: Task,
    mapping: Mapping,
    batch_size: int,
    seed: np.random.SeedSequence,
    threads: int = 1,
    delay: int | None = None,
) -> Learner:
    """The learner of a mapping.

    Args:
        workload, mapping, batch_size: what is learnt, and where.
        seed: of its first state and its draws.
        threads: that a native learner computes with; PyTorch's are set for the process, the others have their own.
        delay: of precision "dynamic", gradient steps; `DELAY` where None.

    Raises:
        UserError: its backend, device or precision is not there.
    """
    own: dict[str, Any] = {"threads": threads} if mapping.learner.backend == "native" else {}
    made: Learner = _create(
        mapping,
        "learner",
        mapping.learner,
        learner.create,
        algorithm_of(workload),
        batch_size=batch_size,
        seed=int(seed.generate_state(1)[0]),
        **own,
        **_precision_of(mapping, threads, delay),
    )
    return made


def _precision_of(mapping: Mapping, threads: int, delay: int | None) -> dict[str, Any]:
    """The options of a mapping's learner that state its precision; none for float32.

    Raises:
        UserError: the backend does not have it, or it does not go with the threads or the delay.
    """
    target = mapping.learner
    if delay is not None and (target.precision != DYNAMIC or delay < 1):
        allowed = f"gradient steps, at least 1, with a learner of precision {DYNAMIC}"
        raise UserError(mapping, "delay", delay, allowed)
    if target.precision == FLOAT_32:
        return {}
    if target.backend in {status.name for status in learner.backends()}:
        able = [replace(target, precision=one) for one in learner.precisions(target.backend)]
        if target not in able:
            raise UserError(mapping, "learner", target, ", ".join(map(str, able)))
    if target.backend == "native" and threads > 1:
        raise UserError(mapping, "threads", threads, "1 for a learner in fixed point")
    own = {"precision": target.precision}
    return own | {"delay": DELAY if delay is None else delay} if target.precision == DYNAMIC else own


def _check_storage(mapping: Mapping) -> None:
    allowed = ["cpu"]
    if mapping.rmm.backend == "fpga":  # simulated: the data lies here, its time is that of the board's memory
        allowed.append(str(mapping.rmm))
    if str(mapping.storage) not in allowed:
        raise UserError(mapping, "storage", mapping.storage, " or ".join(allowed))


def storage_of(workload: Task, mapping: Mapping) -> TimedStorage:
    """The data storage of a mapping, empty; UserError where it cannot be."""
    _check_storage(mapping)
    return TimedStorage(workload.replay.capacity, columns_of(workload))


def replay_of(workload: Task, mapping: Mapping, storage: Storage, fusion: Fusion) -> Replay:
    """The replay of a mapping on an empty storage; UserError where its backend or device is not there."""
    settings = workload.replay
    if not settings.prioritized:
        return UniformReplay(storage)
    options: dict[str, Any] = {
        "alpha": settings.alpha,
        "beta": beta_of(workload),
        "epsilon": settings.epsilon,
    }
    if fusion is Fusion.NONE:
        tree = _create(
            mapping, "rmm", mapping.rmm, sum_tree.create, settings.capacity, fanout=settings.fanout
        )
        return PrioritizedReplay(storage, tree, **options)
    try:
        return ConcurrentReplay(storage, fanout=settings.fanout, **options)
    except (ImportError, ValueError) as error:
        raise UserError(mapping, "rmm", mapping.rmm, error) from error


def beta_of(workload: Task) -> LinearSchedule:
    """The exponent of the importance weights, over gradient steps."""
    settings = workload.replay
    return LinearSchedule(settings.beta_initial, settings.beta_final, settings.beta_steps)


def _create(mapping: Mapping, part: str, target: Target, create: Any, *arguments: Any, **options: Any) -> Any:
    """`create` on a target, what it refuses being said as an error of the mapping."""
    if target.location:
        options["device"] = target.location
    try:
        return create(*arguments, backend=target.backend, **options)
    except (ValueError, BackendUnavailableError, UnsupportedOperationError) as error:
        _, listed, allowed = str(error).partition("; allowed: ")
        raise UserError(mapping, part, target, allowed if listed else error, name=target.backend) from error
    except TypeError as error:
        if not target.location:
            raise
        raise UserError(mapping, part, target, f"{target.backend}: it has one device") from error
