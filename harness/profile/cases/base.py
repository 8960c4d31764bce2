"""What a primitive's case is, and what several of them need."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from harness.mapping import Target
from harness.mapping.base import REFERENCE
from harness.measure.protocol import Case, Timing
from harness.profile.cases.work import Work
from primitives.backend import BackendStatus
from primitives.replay.storage import FieldSpec, Storage

CPU = Target("cpu")
LARGEST_BLOCK_BYTES = 2**23
"""Of transitions that fill a storage."""


@dataclass(frozen=True)
class PrimitiveCase:
    """A case with what it stands for.

    Attributes:
        primitive: its name in the primitive table.
        target: the backend and device that it times.
        batch_size: items in a call.
        case: how to run it.
        part: which part of the case it is, where several primitives are timed in one; empty for the whole.
        work: counts what a call asks of any device; None where shapes do not tell.
        details: of its row.
    """

    primitive: str
    target: Target
    batch_size: int
    case: Case
    part: str = ""
    work: Callable[[], Work] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def timing(self, timings: Mapping[str, Timing]) -> Timing:
        """Its own among those that `harness.measure.protocol.measure` returned; the whole case's where that failed."""
        whole = timings[self.case.name]
        return timings[f"{self.case.name}: {self.part}"] if self.part and whole.status != "failed" else whole


def distinct(items: Iterable[PrimitiveCase]) -> list[Case]:
    """The cases to run, each once."""
    return list({item.case.name: item.case for item in items}.values())


def targets(statuses: Iterable[BackendStatus], on_cuda: str) -> list[Target]:
    """What can be mapped to here: every backend that runs, and every device where it has several.

    Simulated devices are timed by their cycles instead, and the reference is what the others are checked against.

    Args:
        statuses: the backends of a primitive.
        on_cuda: the backend in PyTorch, which computes on the first CUDA device too where there is one.
    """
    usable = [one for one in statuses if one.available and not one.simulated and one.name != REFERENCE]
    found = [Target(one.name) for one in usable]
    if torch.cuda.is_available() and Target(on_cuda) in found:
        found.append(Target(on_cuda, "cuda"))
    return found


def options_of(target: Target) -> dict[str, Any]:
    """Return the options of `create` that say where a target computes; its precision is the learner's to take."""
    return {"backend": target.backend} | ({"device": target.location} if target.location else {})


def random_transitions(
    fields: Mapping[str, FieldSpec], count: int, rng: np.random.Generator
) -> dict[str, npt.NDArray]:
    """`count` transitions of the right shapes and dtypes."""
    columns: dict[str, npt.NDArray] = {}
    for name, spec in fields.items():
        shape, dtype = (count, *spec.shape), np.dtype(spec.dtype)
        if dtype.kind == "f":
            columns[name] = rng.standard_normal(shape).astype(dtype)
        else:
            columns[name] = rng.integers(0, 2, shape, dtype)
    return columns


def block_rows(storage: Storage) -> int:
    """Return how many transitions to fill a storage with at a time, so that little more than it is in memory."""
    row_bytes = max(1, storage.nbytes // storage.capacity)
    return max(1, min(storage.capacity, LARGEST_BLOCK_BYTES // row_bytes))


def expect_equal(found: npt.ArrayLike, expected: npt.ArrayLike, what: str) -> None:
    """Raise unless two arrays hold the same numbers."""
    np.testing.assert_array_equal(found, expected, err_msg=what)
