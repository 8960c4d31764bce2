"""Named arrays in memory that several processes share.

The memory is an anonymous file (`memfd_create`, Linux). It has no name that could be left behind, and the kernel
releases it with the last process that maps it, however that process ends.
"""

import math
import mmap
import os
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from placerl.primitives.replay.storage import FieldSpec

_ALIGNMENT_BYTES = 64  # a cache line, which no two arrays share


class SharedArrays(Mapping[str, npt.NDArray]):
    """A mapping from names to arrays in shared memory. Every process may read and write their elements.

    Args:
        fields: name, shape and dtype of each array.
        descriptor: file descriptor of memory that another process created for the same fields; by default new memory
            filled with zeros.

    Attributes:
        fields: name, shape and dtype of each array.
        descriptor: the open file descriptor, to pass to a child process.
    """

    def __init__(self, fields: Mapping[str, FieldSpec], descriptor: int | None = None) -> None:
        self.descriptor = -1
        self.fields = dict(fields)
        offsets, size_bytes = {}, 0
        for name, field in self.fields.items():
            offsets[name] = size_bytes
            wanted = math.prod(field.shape) * np.dtype(field.dtype).itemsize
            size_bytes += -(-wanted // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        if descriptor is None:
            descriptor = os.memfd_create("placerl", os.MFD_CLOEXEC)
            os.ftruncate(descriptor, max(size_bytes, 1))
        self.descriptor = descriptor
        memory = mmap.mmap(descriptor, max(size_bytes, 1))
        self._arrays = {
            name: np.ndarray(field.shape, field.dtype, memory, offsets[name])
            for name, field in self.fields.items()
        }

    @classmethod
    def like(cls, arrays: Mapping[str, npt.NDArray]) -> "SharedArrays":
        """Create new shared arrays with the names, shapes, dtypes and elements of the given arrays."""
        shared = cls({name: FieldSpec(array.shape, array.dtype) for name, array in arrays.items()})
        shared.fill(arrays)
        return shared

    def fill(self, arrays: Mapping[str, npt.NDArray]) -> None:
        """Copy the elements of `arrays`, which has an array of the same shape for each name, into the shared arrays."""
        for name, array in self._arrays.items():
            np.copyto(array, arrays[name])

    def close(self) -> None:
        """Close the file; arrays in use stay mapped. Idempotent."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        self.close()

    def __getitem__(self, name: str) -> npt.NDArray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)
