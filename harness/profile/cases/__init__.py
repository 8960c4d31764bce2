"""The timed cases: one definition of how to time each primitive, for the profile and all other benchmarks.

A primitive is a basic operation of training, such as sampling from a sum tree. A case builds its state, checks its
output against the primitive's definition, and makes new inputs for every call before the clock starts. The workload
defines the sizes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from placerl.harness.mapping.problem import problem_of
from placerl.harness.pieces.base import PrimitiveCase, distinct
from placerl.harness.pieces.environment import environment_case
from placerl.harness.pieces.storage import fitted, storage_cases
from placerl.harness.pieces.trees import sum_tree_cases
from placerl.harness.profile.cases.concurrent import concurrent_cases
from placerl.harness.profile.cases.learners import learner_cases, streamed_cases
from placerl.harness.profile.cases.on_policy import on_policy_cases
from placerl.harness.profile.cases.resident import resident_cases
from placerl.harness.profile.cases.rounds import round_cases
from placerl.harness.profile.cases.shared_parts import SharedParts
from placerl.harness.workloads import Workload
from placerl.primitives.quantization.precision import FLOAT_32

__all__ = ["PrimitiveCase", "all_cases", "distinct", "piece_cases", "primitive_cases"]


def primitive_cases(
    workload: Workload, batch_size: int, precisions: Sequence[str] = (FLOAT_32,)
) -> list[PrimitiveCase]:
    """Return the benchmark cases of every primitive of a workload, as the papers define them, on every backend here.

    Args:
        precisions: precisions of the learners, as `primitives.learner.create` takes them.
    """
    off_policy = workload.algorithm.name != "ppo"
    return [
        *(sum_tree_cases(workload, batch_size) if off_policy and workload.replay.prioritized else ()),
        *(_storage_cases(workload, batch_size) if off_policy else ()),
        *learner_cases(workload, batch_size, precisions),
        environment_case(workload),
    ]


def piece_cases(
    workload: Workload,
    batch_size: int,
    parts: SharedParts | None = None,
    precisions: Sequence[str] = (FLOAT_32,),
) -> list[PrimitiveCase]:
    """Return the benchmark cases of the training loop's pieces, the calls as the runtime makes them, on every backend.

    A piece is timed at its place in the loop, whereas a primitive is timed alone.

    Args:
        parts: learners and replays shared with other cases; None creates them.
    """
    problem = problem_of(workload, batch_size)
    if problem.on_policy:
        return list(on_policy_cases(workload, problem, precisions, parts))
    small = parts.workload if parts else fitted(workload)
    parts = parts or SharedParts(small, problem)
    pieces = [
        *round_cases(small, problem, parts, precisions),
        *concurrent_cases(small, problem, parts),
        *resident_cases(small, problem),
    ]
    return list(_stating_capacity(workload, small, pieces))


def _storage_cases(workload: Workload, batch_size: int) -> Iterator[PrimitiveCase]:
    small = fitted(workload)
    return _stating_capacity(workload, small, storage_cases(small, batch_size))


def _stating_capacity(
    workload: Workload, small: Workload, cases: Iterable[PrimitiveCase]
) -> Iterator[PrimitiveCase]:
    """Yield the cases of a workload with a smaller replay, with its capacity in their rows."""
    cut = small.replay.capacity < workload.replay.capacity
    columns = {"replay_capacity": small.replay.capacity} if cut else {}
    return (replace(one, columns={**one.columns, **columns}) for one in cases)


def all_cases(
    workload: Workload, batch_size: int, precisions: Sequence[str] = (FLOAT_32,)
) -> list[PrimitiveCase]:
    """Return the benchmark cases of the primitives and of the training loop's pieces, each with its own name."""
    return [
        *primitive_cases(workload, batch_size, precisions),
        *streamed_cases(workload, batch_size),
        *piece_cases(workload, batch_size, precisions=precisions),
    ]
