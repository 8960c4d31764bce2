"""A learner on OpenCL that works on parts of a batch in several streams, each a command queue (PRL 4.2.1).

Each stream sends its part of the batch, differentiates it and returns the gradients, on a queue of its own, so that one
part's transfer overlaps with another's computation. The host puts the gradients together and updates the parameters.
"""

from functools import partial
from typing import Any

from placerl.harness.runtime.learners.gradient_graphs import PartGradients
from placerl.harness.runtime.learners.parallel_updates import ParallelLearner, ParallelUpdates, Result
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.algorithms.networks import Parameters
from placerl.primitives.algorithms.updates import Batch, Loss

BACKEND = "opencl"
"""The learner backend whose queues are streams."""


class StreamedUpdates(ParallelUpdates):
    """Updates whose gradients are computed in several streams of a device.

    Each thread of `ParallelUpdates` feeds one stream; it waits for the device without the GIL.

    Args:
        streams: each computes the gradients of its part of a batch.
    """

    def __init__(self, streams: list[PartGradients]) -> None:
        super().__init__(len(streams) - 1)
        self._streams = streams
        self._step: tuple[str, Any, Batch, Batch]
        self._number = 0

    def begin(self, variant: str, state: Any, batch: Batch, draws: Batch) -> None:
        """Begin a gradient step of a kind `variant` on a state, a batch and the step's random numbers."""
        self._step, self._number = (variant, state, batch, draws), 0

    def gradients(self, loss: Loss[Any], parameters: Parameters, batch: Batch) -> Result:
        """Return what `ParallelUpdates.gradients` returns, from the streams.

        Args:
            loss: ignored; the streams have the graphs of the gradients.
            parameters: ignored; the streams read them from the state.
            batch: columns of the batch.
        """
        variant, state, columns, draws = self._step
        parts = self.checked_parts(batch)
        pieces = zip(self._streams, self._split(columns, parts), self._split(draws, parts), strict=True)
        works = [
            partial(stream.gradients, variant, self._number, state, piece, random)
            for stream, piece, random in pieces
        ]
        result = self._together(works, parts)
        self._number += 1
        return result


class StreamedLearner(ParallelLearner):
    """A learner on an OpenCL device whose gradients are computed in several streams.

    Args:
        algorithm: an algorithm of `primitives.algorithms`.
        streams: number of streams, 2 to the batch size; they divide a batch as evenly as possible.
        device: an OpenCL device; None: the backend's default.

    Raises:
        ValueError: a number of streams is out of range, or there is no such device.
    """

    backend = BACKEND
    updates: StreamedUpdates

    def __init__(
        self,
        algorithm: Algorithm,
        streams: int,
        device: str | None = None,
        *,
        batch_size: int,
        seed: int = 0,
    ) -> None:
        if not 2 <= streams <= batch_size:
            raise ValueError(f"streams: found {streams}; allowed: 2 to the batch size, {batch_size}")
        gradients = [PartGradients(algorithm, BACKEND, device) for _ in range(streams)]
        updates = StreamedUpdates(gradients)
        each, more = divmod(batch_size, streams)
        updates.parts = tuple(each + (number < more) for number in range(streams))
        for stream, size in zip(gradients, updates.parts, strict=True):
            stream.prepare(size)
        super().__init__(algorithm, batch_size=batch_size, trainers=streams - 1, seed=seed, updates=updates)
