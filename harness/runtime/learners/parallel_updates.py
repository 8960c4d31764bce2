"""Parallel learners in threads: the mean of the gradients of a batch's parts is the batch's (PAL V-B, PRL 3.3.1).

Each thread differentiates a part of the batch. PyTorch releases the GIL while it computes, so the threads run in
parallel. The mean of the parts' gradients, weighted by their sizes, is the gradient of the whole batch up to
rounding, because the order of summation differs. The update after it is therefore that of one learner.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from placerl.primitives.algorithms import Algorithm, StepResult
from placerl.primitives.algorithms.networks import Parameters
from placerl.primitives.algorithms.updates import Auxiliary, Batch, Loss
from placerl.primitives.learner.torch.in_place import InPlaceUpdates
from placerl.primitives.learner.torch.torch_backend import TorchLearner

Result = tuple[Parameters, Tensor, Any]


class ParallelUpdates(InPlaceUpdates):
    """Updates of parameters in place (`InPlaceUpdates`), whose gradients are computed by several threads.

    Args:
        trainers: number of threads in addition to the caller's.

    Attributes:
        parts: number of samples in each part of a batch, the caller's part first; used for the next gradients.
            Empty: the caller differentiates the whole batch.
        learner_s, trainers_s, synchronisation_s: seconds spent so far: by the caller on its part, by the slowest
            trainer of each call, and by the caller on waiting for them and averaging the gradients.
    """

    def __init__(self, trainers: int) -> None:
        self._threads = ThreadPoolExecutor(max(trainers, 1), "trainer")
        self.trainers = trainers
        self.parts: tuple[int, ...] = ()
        self.learner_s = self.trainers_s = self.synchronisation_s = 0.0

    def begin(self, variant: str, state: Any, batch: Batch, draws: Batch) -> None:
        """Begin a gradient step of a kind `variant` on a state, a batch and the step's random numbers.

        Updates that compute gradients by themselves, from graphs that were made before, keep what they need.
        """

    def gradients(
        self, loss: Loss[Auxiliary], parameters: Parameters, batch: Batch
    ) -> tuple[Parameters, Tensor, Auxiliary]:
        """Return the gradients of a loss over a batch whose parts are differentiated in parallel, and the loss.

        Args:
            loss: function of parameters and batch; returns the mean loss of the samples, and further results.
            parameters: tensors by name.
            batch: columns of the batch.

        Returns:
            The gradient of each parameter by name, the loss, and the further results, each of the whole batch.

        Raises:
            ValueError: the sizes in `parts` do not sum up to the batch size, or there are more parts than threads.
        """
        parts = self.checked_parts(batch)
        first, *rest = self._split(batch, parts)
        works = [partial(self._differentiated, loss, parameters, piece) for piece in rest]
        return self._together([partial(self._differentiated_first, loss, parameters, first), *works], parts)

    def _together(self, works: Sequence[Callable[[], Result]], parts: Sequence[int]) -> Result:
        """Differentiate the parts of a batch, the first in the caller's thread, and put their gradients together.

        Args:
            works: differentiates each part.
            parts: number of samples in each part.
        """
        begin_s = perf_counter()
        first, *rest = works
        futures: list[Future[tuple[Result, float]]] = [
            self._threads.submit(self._timed, work) for work in rest
        ]
        own, learner_s = self._timed(first)
        self.learner_s += learner_s
        if not futures:
            return own
        done = [future.result() for future in futures]
        self.trainers_s += max(seconds for _, seconds in done)
        result = aggregated([own, *(result for result, _ in done)], parts)
        self.synchronisation_s += perf_counter() - begin_s - learner_s
        return result

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    def checked_parts(self, batch: Batch) -> tuple[int, ...]:
        """Return the number of samples in each part of a batch, the caller's first.

        Raises:
            ValueError: the sizes in `parts` do not sum up to the batch size, or there are more parts than threads.
        """
        size = len(next(iter(batch.values())))
        parts = self.parts or (size,)
        if sum(parts) != size or len(parts) > self.trainers + 1:
            raise ValueError(
                f"parts: found {parts}; allowed: at most {self.trainers + 1} that sum up to {size}"
            )
        return parts

    @staticmethod
    def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
        begin_s = perf_counter()
        return work(), perf_counter() - begin_s

    def _differentiated(self, loss: Loss[Any], parameters: Parameters, batch: Batch) -> Result:
        leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}
        return self._differentiate(loss, leaves, batch)

    def _differentiated_first(self, loss: Loss[Any], parameters: Parameters, batch: Batch) -> Result:
        """Differentiate the caller's part of a batch."""
        return self._differentiated(loss, parameters, batch)

    @staticmethod
    def _split(batch: Batch, parts: Sequence[int]) -> list[dict[str, Tensor]]:
        pieces = {name: column.split(list(parts)) for name, column in batch.items()}
        return [{name: piece[index] for name, piece in pieces.items()} for index in range(len(parts))]


class ParallelLearner(TorchLearner):
    """A learner on PyTorch on the CPU (`TorchLearner`) whose gradients are computed by several threads.

    Args:
        trainers: number of threads in addition to the learner's own.
        updates: computes the gradients; by default a `ParallelUpdates`.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        *,
        batch_size: int,
        trainers: int,
        seed: int = 0,
        updates: ParallelUpdates | None = None,
    ) -> None:
        self.updates = ParallelUpdates(trainers) if updates is None else updates
        super().__init__(algorithm, batch_size=batch_size, seed=seed, mode="tuned")

    def _make_step(self) -> Any:
        def step(state: Any, batch: Batch, draws: Batch, variant: str) -> StepResult:
            self.updates.begin(variant, state, batch, draws)
            return replace(self.algorithm, updates=self.updates).gradient_step(state, batch, draws, variant)

        return step

    def close(self) -> None:
        """End the trainers' threads."""
        self.updates.close()


def aggregated(results: Sequence[Result], parts: Sequence[int]) -> Result:
    """Return the gradients, the loss and its further results of a whole batch from those of its parts.

    Args:
        results: gradients, loss and further results of each part.
        parts: number of samples in each part.
    """
    shares = [size / sum(parts) for size in parts]
    names = list(results[0][0])
    gradients = [[gradients[name] for name in names] for gradients, _, _ in results]
    total = torch._foreach_mul(gradients[0], shares[0])
    for share, part in zip(shares[1:], gradients[1:], strict=True):
        total = torch._foreach_add(total, part, alpha=share)
    value = _merged([value for _, value, _ in results], shares)
    return (
        dict(zip(names, total, strict=True)),
        value,
        _merged([rest for *_, rest in results], shares),
    )


def _merged(rests: list[Any], shares: Sequence[float]) -> Any:
    """Combine what the parts' losses returned besides their values: samples are concatenated, means weighted."""
    if not isinstance(rests[0], Tensor):
        return tuple(_merged(list(leaves), shares) for leaves in zip(*rests, strict=True))
    if rests[0].dim():
        return torch.cat(rests)
    return torch.stack([share * rest for share, rest in zip(shares, rests, strict=True)]).sum()
