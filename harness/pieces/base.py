"""The benchmark case of a primitive, which defines how to time it, and functions that several cases use."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from placerl.harness.mapping import Target
from placerl.harness.mapping.candidates import REFERENCE
from placerl.harness.measure.protocol import Case, Timing
from placerl.harness.pieces.work import Work
from placerl.primitives.backend import BackendStatus
from placerl.primitives.replay.storage import FieldSpec, Storage

LARGEST_BLOCK_BYTES = 2**23
"""Most bytes of transitions that are inserted at a time when a storage is filled."""


@dataclass(frozen=True)
class PrimitiveCase:
    """A benchmark case, which defines how to time something, with the primitive whose time it gives.

    Attributes:
        primitive: the primitive's name in the primitive table, such as "sum_tree.sample".
        target: the backend and device that it times.
        batch_size: items per call.
        case: the function to time, with its set-up and its check.
        part: the part of the case that is this primitive, if one case times several; empty for the whole case.
        work: counts the operations and bytes of a call; None if they do not follow from shapes.
        columns: further columns of the primitive's row (`PieceTime`).
    """

    primitive: str
    target: Target
    batch_size: int
    case: Case
    part: str = ""
    work: Callable[[], Work] | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)

    def timing(self, timings: Mapping[str, Timing]) -> Timing:
        """Return the timing of this primitive.

        Args:
            timings: results of `harness.measure.protocol.measure`, by the name of the case. If the whole case failed,
                its failure is returned.
        """
        whole = timings[self.case.name]
        return timings[f"{self.case.name}: {self.part}"] if self.part and whole.status != "failed" else whole


def distinct(items: Iterable[PrimitiveCase]) -> list[Case]:
    """Return the timed cases of some primitives, each case once, because several primitives may share a case."""
    return list({item.case.name: item.case for item in items}.values())


def targets(statuses: Iterable[BackendStatus], on_cuda: str) -> list[Target]:
    """Return the backends, with their devices, on which a primitive runs on this machine.

    The reference backend is left out, and so are simulated devices, whose time is a number of cycles.

    Args:
        statuses: the backends of a primitive, each with whether it can run here.
        on_cuda: name of the PyTorch backend. If there is a CUDA device, this backend is also returned with it.
    """
    usable = [one for one in statuses if one.available and not one.simulated and one.name != REFERENCE]
    usable_targets = [Target(one.name) for one in usable]
    if torch.cuda.is_available() and Target(on_cuda) in usable_targets:
        usable_targets.append(Target(on_cuda, "cuda"))
    return usable_targets


def options_of(target: Target) -> dict[str, Any]:
    """Return the arguments `backend` and `device` of a primitive's `create` for a target, as a dict."""
    return {"backend": target.backend} | ({"device": target.location} if target.location else {})


def random_transitions(
    fields: Mapping[str, FieldSpec], count: int, rng: np.random.Generator
) -> dict[str, npt.NDArray]:
    """Return `count` random transitions by column, with the fields' shapes and dtypes."""
    columns: dict[str, npt.NDArray] = {}
    for name, spec in fields.items():
        shape, dtype = (count, *spec.shape), np.dtype(spec.dtype)
        if dtype.kind == "f":
            columns[name] = rng.standard_normal(shape).astype(dtype)
        else:
            columns[name] = rng.integers(0, 2, shape, dtype)
    return columns


def block_rows(storage: Storage) -> int:
    """Return how many transitions to insert at a time when a storage is filled.

    The number is limited so that these transitions take little memory in addition to the storage.
    """
    row_bytes = max(1, storage.nbytes // storage.capacity)
    return max(1, min(storage.capacity, LARGEST_BLOCK_BYTES // row_bytes))


def expect_equal(actual: npt.ArrayLike, expected: npt.ArrayLike, what: str) -> None:
    """Raise AssertionError, with `what` in its message, unless two arrays are equal.

    Args:
        what: what is compared, in words.
    """
    np.testing.assert_array_equal(actual, expected, err_msg=what)
