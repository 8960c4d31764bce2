"""Batches whose every column follows from an item's number, so that a torn or misplaced item shows."""

import numpy as np
import numpy.typing as npt

from placerl.primitives.replay import Storage


def numbered_batch(storage: Storage, numbers: npt.ArrayLike) -> dict[str, npt.NDArray]:
    """Item k holds k (cast to the column's dtype) in every element of every column."""
    numbers = np.asarray(numbers)
    return {
        name: np.broadcast_to(
            numbers.reshape(-1, *[1] * len(field.shape)), (len(numbers), *field.shape)
        ).astype(field.dtype)
        for name, field in storage.fields.items()
    }
