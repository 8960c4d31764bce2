"""A learner on an accelerator and on threads of the CPU, which share every batch (PRL 3.3.1, Algorithm 1).

The accelerator differentiates the learner's part of a batch, threads of the CPU the others. The host puts the gradients
together, updates the parameters and sends them to the accelerator with the next part, so it keeps the learner's state.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from placerl.harness.measure.full_speed import own_time
from placerl.harness.runtime.learners.gradient_graphs import PartGradients
from placerl.harness.runtime.learners.parallel_updates import (
    ParallelLearner,
    ParallelUpdates,
    Result,
    aggregated,
)
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.algorithms.networks import Parameters
from placerl.primitives.algorithms.updates import Auxiliary, Batch, Loss
from placerl.primitives.learner.base import StepOutcome


class AcceleratedUpdates(ParallelUpdates):
    """Updates whose gradients are computed by an accelerator, for the caller's part of a batch, and by threads.

    Args:
        trainers: number of threads in addition to the caller's.
        accelerator: differentiates the caller's part.
    """

    def __init__(self, trainers: int, accelerator: PartGradients) -> None:
        super().__init__(trainers)
        self._accelerator = accelerator
        self._step: tuple[str, Any, Batch, Batch]
        self._number = 0

    def begin(self, variant: str, state: Any, batch: Batch, draws: Batch) -> None:
        """Begin a gradient step of a kind `variant` on a state, a batch and the step's random numbers."""
        self._step, self._number = (variant, state, batch, draws), 0
        self._accelerator.prepare(
            self.checked_parts(batch)[0]
        )  # compiling is no part of the learner's seconds

    def _differentiated_first(self, loss: Loss[Any], parameters: Parameters, batch: Batch) -> Result:
        variant, state, columns, draws = self._step
        size = len(next(iter(batch.values())))
        first = [{name: column[:size] for name, column in part.items()} for part in (columns, draws)]
        result = self._accelerator.gradients(variant, self._number, state, *first)
        self._number += 1
        return result


class SimulatedUpdates(AcceleratedUpdates):
    """Updates whose accelerator is simulated: seconds are those of a device and of threads on cores of their own.

    The accelerator and the threads work one after another here, so that each is timed as if it were alone.

    Args:
        trainers: number of threads in addition to the caller's.
        accelerator: differentiates the caller's part.
        links_s: seconds to send bytes to the accelerator and to receive bytes from it.

    Attributes:
        gradients_s: seconds that all gradients have taken so far.
        here_s: seconds that the host has spent so far on compiling, computing and simulating them.
    """

    def __init__(
        self, trainers: int, accelerator: PartGradients, links_s: Callable[[int, int], float]
    ) -> None:
        super().__init__(trainers, accelerator)
        self._links_s = links_s
        self.gradients_s = self.here_s = 0.0

    def begin(self, variant: str, state: Any, batch: Batch, draws: Batch) -> None:
        """Begin a gradient step; see `AcceleratedUpdates.begin`."""
        _, here_s = own_time(partial(super().begin, variant, state, batch, draws))
        self.here_s += here_s

    def gradients(
        self, loss: Loss[Auxiliary], parameters: Parameters, batch: Batch
    ) -> tuple[Parameters, Tensor, Auxiliary]:
        """Return what `ParallelUpdates.gradients` returns, and count the seconds of the simulated accelerator.

        Args:
            loss: function of parameters and batch; returns the mean loss of the samples, and further results.
            parameters: tensors by name.
            batch: columns of the batch.
        """
        result, here_s = own_time(partial(self._gradients, loss, parameters, batch))
        self.here_s += here_s
        return result

    def _gradients(self, loss: Loss[Any], parameters: Parameters, batch: Batch) -> Result:
        parts = self.checked_parts(batch)
        first, *rest = self._split(batch, parts)
        timed = [own_time(partial(self._differentiated, loss, parameters, piece)) for piece in rest]
        sent = self._accelerator.sent_bytes(self._step[0], self._number, parts[0])
        before_s = self._accelerator.simulated_s
        own = self._differentiated_first(loss, parameters, first)
        learner_s = self._accelerator.simulated_s - before_s + self._links_s(*sent)
        trainers_s = max((seconds for _, seconds in timed), default=0.0)
        together_s = 0.0
        if rest:
            results = [own, *(result for result, _ in timed)]
            own, together_s = own_time(partial(aggregated, results, parts))
            self.synchronisation_s += max(0.0, trainers_s - learner_s) + together_s
        self.learner_s += learner_s
        self.trainers_s += trainers_s
        self.gradients_s += max(learner_s, trainers_s) + together_s
        return own


class AcceleratedLearner(ParallelLearner):
    """A learner whose gradients are computed by an accelerator and by several threads.

    Args:
        backend: backend of the accelerator, "opencl" or "fpga".
        device: a device of the backend; None: its default.
        trainers: number of threads.
    """

    updates: AcceleratedUpdates

    def __init__(
        self,
        algorithm: Algorithm,
        backend: str,
        device: str | None = None,
        *,
        batch_size: int,
        trainers: int,
        seed: int = 0,
    ) -> None:
        accelerator = PartGradients(algorithm, backend, device)
        super().__init__(
            algorithm,
            batch_size=batch_size,
            trainers=trainers,
            seed=seed,
            updates=AcceleratedUpdates(trainers, accelerator),
        )


class SimulatedAcceleratedLearner(AcceleratedLearner):
    """A learner whose gradients are computed by a simulated accelerator and by several threads, in virtual time.

    Args:
        algorithm, backend, device, batch_size, trainers, seed: see `AcceleratedLearner`.
        links_s: seconds to send bytes to the accelerator and to receive bytes from it.

    Attributes:
        simulated_s: seconds that gradient steps have taken so far: those of the gradients, on devices and threads in
            parallel, and those of the host's own work on the update.
    """

    updates: SimulatedUpdates

    def __init__(
        self,
        algorithm: Algorithm,
        backend: str,
        device: str | None = None,
        *,
        batch_size: int,
        trainers: int,
        links_s: Callable[[int, int], float],
        seed: int = 0,
    ) -> None:
        accelerator = PartGradients(algorithm, backend, device)
        self.simulated_s = 0.0
        ParallelLearner.__init__(
            self,
            algorithm,
            batch_size=batch_size,
            trainers=trainers,
            seed=seed,
            updates=SimulatedUpdates(trainers, accelerator, links_s),
        )

    def _step(self, batch: Mapping[str, np.ndarray], variant: str) -> StepOutcome:
        updates = self.updates
        gradients_s, here_s = updates.gradients_s, updates.here_s
        outcome, took_s = own_time(partial(super()._step, dict(batch), variant))
        update_s = max(0.0, took_s - (updates.here_s - here_s))
        self.simulated_s += updates.gradients_s - gradients_s + update_s
        return outcome
