"""What a primitive's case is, and what several of them need."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.mapping import Target
from harness.measure import Case
from primitives.replay.storage import FieldSpec

CPU = Target("cpu")


@dataclass(frozen=True)
class PrimitiveCase:
    """A case with what it stands for.

    Attributes:
        primitive: its name in the primitive table.
        target: the backend and device that it times.
        batch_size: items in a call.
        case: how to run it.
    """

    primitive: str
    target: Target
    batch_size: int
    case: Case


def random_transitions(
    fields: Mapping[str, FieldSpec], count: int, rng: np.random.Generator
) -> dict[str, npt.NDArray]:
    """`count` transitions of the right shapes and dtypes."""
    columns: dict[str, npt.NDArray] = {}
    for name, field in fields.items():
        shape, dtype = (count, *field.shape), np.dtype(field.dtype)
        if dtype.kind == "f":
            columns[name] = rng.standard_normal(shape).astype(dtype)
        else:
            columns[name] = rng.integers(0, 2, shape).astype(dtype)
    return columns


def expect_equal(found: npt.ArrayLike, expected: npt.ArrayLike, what: str) -> None:
    """Raise unless two arrays hold the same numbers."""
    np.testing.assert_array_equal(found, expected, err_msg=what)
