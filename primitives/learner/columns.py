"""Check the batch of a gradient step: its columns, and the importance weights, which are an argument of their own.

A learner never reads a batch that it would have to change: an unknown column, another dtype or shape, or a number that
is not finite raises an error that names it.
"""

from collections.abc import Collection, Container, Iterable, Mapping
from difflib import get_close_matches
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import torch

from placerl.primitives.algorithms import Algorithm

NUMPY_DTYPES: dict[torch.dtype, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.int64: np.dtype(np.int64),
    torch.uint8: np.dtype(np.uint8),
}
BOOL = np.dtype(np.bool_)
WEIGHT, TERMINATED = "weight", "terminated"


class NumpyColumn(NamedTuple):
    """One column of a batch in NumPy: its shape, whose first dimension is the batch size, and its dtype."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def numpy_columns(algorithm: Algorithm, batch_size: int) -> dict[str, NumpyColumn]:
    """Return the columns that an algorithm's gradient step reads, with NumPy's dtypes, by name."""
    return {
        name: NumpyColumn(tuple(shape), NUMPY_DTYPES[dtype])
        for name, (shape, dtype) in algorithm.columns(batch_size).items()
    }


def all_finite(array: np.ndarray) -> bool:
    """Return whether no element is NaN or infinite. One pass over the array usually shows that all are finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.add.reduce(array, axis=None))
    return isfinite(total) or bool(np.isfinite(array).all())


def did_you_mean(name: object, names: Collection[str]) -> str:
    """Return "; did you mean X?" for the one of `names` that a misspelt `name` resembles, "" if none does."""
    meant = get_close_matches(str(name), names, n=1)
    return f"; did you mean {meant[0]}?" if meant else ""


def refuse_columns(found: Iterable[str], known: Collection[str]) -> None:
    """Check that there are no columns that a learner would not read.

    Args:
        known: names of the columns that the gradient step reads (`Algorithm.columns`).

    Raises:
        ValueError: there is a column `weight`, since a learner takes importance weights as its argument `weights`; a
            column `discount`, but the algorithm was created without `n_step`; or a column that the algorithm does not
            know. The message names the column.
    """
    for name in found:
        if name == WEIGHT and name in known:
            raise ValueError("batch: found column 'weight'; allowed: the argument weights=")
        if name in known:
            continue
        if name == "discount" and "next_observation" in known:
            raise ValueError(
                "batch: found column 'discount', of n-step returns; allowed: transitions of one step, "
                "or an algorithm made with n_step=True"
            )
        allowed = [column for column in known if column != WEIGHT]
        raise ValueError(
            f"batch: found column {name!r}; allowed: {', '.join(allowed)}{did_you_mean(name, allowed)}"
        )


def checked_batch(
    batch: Mapping[str, np.ndarray],
    columns: Mapping[str, NumpyColumn],
    action_size: int,
    elsewhere: Container[str] = (),
) -> dict[str, np.ndarray]:
    """Return the columns of a batch in their exact dtypes, checked.

    Args:
        columns: the columns that are read, by name; all but `weight` must be in the batch.
        action_size: number of discrete actions, of which integers are indices.
        elsewhere: names of columns that are not in `batch`, because a batch in device memory holds them.

    Raises:
        ValueError: there is a column too many or too few, or one has another shape or dtype, or a value out of range.
    """
    if not isinstance(batch, Mapping):
        raise ValueError(
            f"batch: found {type(batch).__name__}; allowed: a mapping from column names to arrays"
        )
    refuse_columns(batch, columns)
    checked = {}
    for name, column in columns.items():
        if name == WEIGHT or name in elsewhere:
            continue
        if name not in batch:
            allowed = ", ".join(one for one in columns if one != WEIGHT)
            raise ValueError(f"batch: column {name!r} is missing; allowed: {allowed}")
        array = checked_array(name, batch[name], column, may_be_bool=name == TERMINATED)
        if column.dtype.kind == "i":
            _check_within(name, array, action_size - 1, f"integers in [0, {action_size})")
        elif name == TERMINATED:
            _check_within(name, array, 1, "numbers in [0, 1]")
        checked[name] = array
    return checked


def checked_weights(weights: np.ndarray, column: NumpyColumn) -> np.ndarray:
    """Return importance weights, checked.

    Raises:
        ValueError: they are no array of the column's shape and dtype, or a weight is negative, NaN or infinite.
    """
    checked = checked_array(WEIGHT, weights, column)
    if checked.min() < 0:
        raise ValueError(f"weight: found {checked.min()}; allowed: numbers of at least 0")
    return checked


def checked_array(name: str, array: Any, column: NumpyColumn, *, may_be_bool: bool = False) -> np.ndarray:
    """Return an array of exactly a column's shape and dtype, whose floats are finite.

    Args:
        may_be_bool: whether the array may also be bool; it is then converted.

    Raises:
        ValueError: it is no NumPy array, or a masked one; its shape or dtype differs; or a number is not finite.
    """
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise ValueError(f"{name}: found {type(array).__name__}; allowed: a NumPy array without a mask")
    if array.shape != column.shape or not len(array):
        raise ValueError(f"{name}: found shape {array.shape}; allowed: {column.shape}")
    if may_be_bool and array.dtype == BOOL:
        return array.astype(column.dtype)
    if array.dtype != column.dtype:
        raise ValueError(
            f"{name}: found dtype {array.dtype}; allowed: {column.dtype}{' or bool' if may_be_bool else ''}"
        )
    if column.dtype.kind == "f" and not all_finite(array):
        raise ValueError(f"{name}: found NaN or infinity; allowed: finite numbers")
    return array


def _check_within(name: str, array: np.ndarray, high: int, allowed: str) -> None:
    least, most = array.min(), array.max()
    if least < 0 or most > high:
        raise ValueError(f"{name}: found values in [{least}, {most}]; allowed: {allowed}")
