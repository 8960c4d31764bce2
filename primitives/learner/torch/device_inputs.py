"""Keep a step's inputs in one block of a device's memory, into which a replay storage on that device can write."""

from collections.abc import Mapping
from math import prod

import numpy as np
import torch
from torch import Tensor

from placerl.primitives.replay.device import DeviceBatch
from placerl.primitives.replay.device.packed_rows import Place

_ALIGNMENT_BYTES = 256


class DeviceInputs:
    """The inputs of a gradient step, as tensors that are views of one block of memory.

    Args:
        columns: shape and dtype of each column, by name.

    Attributes:
        tensors: the columns, by name.
    """

    def __init__(
        self, columns: Mapping[str, tuple[tuple[int, ...], torch.dtype]], device: torch.device
    ) -> None:
        sizes = {name: prod(shape) * dtype.itemsize for name, (shape, dtype) in columns.items()}
        self._offsets, end = {}, 0
        for name, size_bytes in sizes.items():
            self._offsets[name] = end
            end += -(-size_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        self._bytes = torch.empty(max(1, end), dtype=torch.uint8, device=device)
        self._device = device
        self.tensors: dict[str, Tensor] = {}
        for name, (shape, dtype) in columns.items():
            begin = self._offsets[name]
            self.tensors[name] = self._bytes[begin : begin + sizes[name]].view(dtype).reshape(shape)

    def read(self, batch: DeviceBatch) -> dict[str, Tensor]:
        """Copy a batch into the block, and return the tensors of its columns by name.

        The copy runs on the device's current CUDA stream. The next call overwrites the tensors.
        """
        tensors = {name: tensor for name, tensor in self.tensors.items() if name in batch.fields}
        places = {
            name: Place(self._offsets[name], np.dtype(str(tensor.dtype).removeprefix("torch.")))
            for name, tensor in tensors.items()
        }
        on_cuda = self._device.type == "cuda"
        stream = torch.cuda.current_stream(self._device).cuda_stream if on_cuda else None
        batch.read_into(self._bytes, places, stream)
        return tensors
