"""Times what a script's network and replay would cost in another shape, on this machine."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

_ROUNDS = 15
_BLOCK_S = 0.004


def interleaved(*calls: Callable[[], object]) -> list[float]:
    """Return the least seconds of each of some calls, which take turns: those without interruptions by other programs.

    Each call is repeated for some milliseconds a turn, so that a clock tick weighs little.
    """
    repeats = []
    for call in calls:
        call()
        begin = time.perf_counter()
        call()
        repeats.append(max(1, int(_BLOCK_S / max(1e-7, time.perf_counter() - begin))))
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(_ROUNDS):
        for call, count, own in zip(calls, repeats, seconds, strict=True):
            begin = time.perf_counter()
            for _ in range(count):
                call()
            own.append((time.perf_counter() - begin) / count)
    return [min(own) for own in seconds]


@cache
def gather_s(rows: int, width: int, columns: int) -> float:
    """Return the seconds in which a batch is taken out of arrays by its rows.

    Args:
        rows: batch size.
        width: numbers of a row, in the widest column.
        columns: arrays that are indexed.
    """
    array, index = np.zeros((20_000, width), np.float32), np.random.default_rng(0).integers(0, 20_000, rows)
    return columns * interleaved(lambda: array[index])[0]


class Network:
    """Networks of dense and convolutional layers of given shapes, for timing.

    Args:
        shapes: shapes of the parameters of an optimizer, in order; a matrix whose columns do not fit the one before
            begins another network.
        dtype: name of the data type, such as "float32".
        threads: threads that PyTorch uses, from now on and for all networks.
        convolutions: for each shape of four numbers, in order, its `input`, the shape of an item, and its `stride` and
            `padding`.
    """

    def __init__(
        self,
        shapes: Sequence[Sequence[int]],
        dtype: str,
        threads: int,
        convolutions: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        import torch

        torch.set_num_threads(threads)
        self.torch, self.dtype = torch, getattr(torch, dtype)
        self.chains: list[list[torch.nn.Module]] = []
        self.items: list[Sequence[int]] = []
        left = iter(convolutions)
        channels = units = 0  # of the layer before
        for out, width, *kernel in (shape for shape in shapes if len(shape) in (2, 4)):
            one = next(left) if kernel else None
            if width != units and (not channels or width % channels):  # flattened or not
                self.chains.append([])
                self.items.append(one["input"] if one else [width])
            if one:
                options = {"stride": one["stride"], "padding": one["padding"], "dtype": self.dtype}
                self.chains[-1].append(torch.nn.Conv2d(width, out, (kernel[0], kernel[1]), **options))
                channels, units = out, 0
            else:
                self.chains[-1].append(torch.nn.Linear(width, out, dtype=self.dtype))
                channels, units = 0, out
        parameters = [one for chain in self.chains for layer in chain for one in layer.parameters()]
        self.optimizer = torch.optim.Adam(parameters)

    def forward(self, rows: int) -> Callable[[], object]:
        """Return a call that computes the outputs for a batch, without gradients."""
        inputs = self._inputs(rows)

        def call() -> None:
            with self.torch.no_grad():
                self._outputs(inputs)

        return call

    def step(self, rows: int) -> Callable[[], object]:
        """Return a call that takes a gradient step for a batch."""
        inputs = self._inputs(rows)

        def call() -> None:
            with self.torch.no_grad():
                goals = self._outputs(inputs)
            loss = sum(
                ((out - goal - 1) ** 2).mean() for out, goal in zip(self._outputs(inputs), goals, strict=True)
            )
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

        return call

    def _inputs(self, rows: int) -> list:
        return [self.torch.randn(rows, *item, dtype=self.dtype) for item in self.items]

    def _outputs(self, inputs: list) -> list:
        outputs = []
        for chain, value in zip(self.chains, inputs, strict=True):
            for layer in chain[:-1]:
                value = self.torch.relu(self._output(layer, value))
            outputs.append(self._output(chain[-1], value))
        return outputs

    def _output(self, layer: Any, value: Any) -> Any:
        return layer(value.flatten(1) if isinstance(layer, self.torch.nn.Linear) else value)
