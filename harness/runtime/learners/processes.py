"""Parallel learners in separate processes, with gradients aggregated by torch.distributed's gloo (PAL V-B).

Every process holds the whole state and differentiates its part of each batch, which is stored in shared memory.
The sum of the gradients, each weighted by the size of its part, is the gradient of the whole batch up to
rounding, because the order of summation differs. All processes then make the same update, so no weights are sent.

Compared with `harness.runtime.learners.parallel_updates`, whose parts are threads: the processes share no GIL, so
the operations of a part may be small; but an all-reduce takes longer than averaging gradients in one memory.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as distributed
from torch import Tensor

from placerl.harness.runtime.units.process import ProcessUnit, close_all
from placerl.harness.runtime.units.shared_arrays import SharedArrays
from placerl.harness.runtime.units.unit import STALL_LIMIT_S, UnitError
from placerl.primitives.algorithms import Algorithm, StepResult
from placerl.primitives.algorithms.networks import Parameters
from placerl.primitives.algorithms.updates import Auxiliary, Batch, Loss
from placerl.primitives.learner.base import StepOutcome
from placerl.primitives.learner.torch.in_place import InPlaceUpdates
from placerl.primitives.learner.torch.torch_backend import TorchLearner
from placerl.primitives.replay.storage import FieldSpec

_LOOPBACK = "127.0.0.1"
_TD_ERROR = "td_error"


class BrokenGroupError(RuntimeError):
    """The gradients cannot be aggregated, usually because another process of the group has ended."""


class Part(NamedTuple):
    """The part of a batch that one process differentiates.

    Attributes:
        rank: number of the process; 0 is the caller's.
        processes: number of all processes.
        first, end: the part's rows of the batch, from `first` up to, but not including, `end`.
    """

    rank: int
    processes: int
    first: int
    end: int


def parts_of(batch_size: int, processes: int) -> list[Part]:
    """Return each process's part of a batch: `batch_size` rows are divided among `processes` as evenly as possible."""
    bounds = np.linspace(0, batch_size, processes + 1).round().astype(int).tolist()
    return [Part(rank, processes, bounds[rank], bounds[rank + 1]) for rank in range(processes)]


class AggregatedUpdates(InPlaceUpdates):
    """Updates of parameters in place (`InPlaceUpdates`) in a process that sees only its part of a batch.

    The process differentiates its part. The gradients that it returns are those of the whole batch, summed over
    all processes.

    Args:
        group: the group of processes of torch.distributed.
        share: the part's fraction of the batch.
    """

    def __init__(self, group: Any, share: float) -> None:
        self._group, self._share = group, share

    def gradients(
        self, loss: Loss[Auxiliary], parameters: Parameters, batch: Batch
    ) -> tuple[Parameters, Tensor, Auxiliary]:
        """Return the gradients of a loss over a whole batch, of which each process differentiates a part, and the loss.

        Args:
            loss: function of parameters and batch; returns the mean loss of the samples, and further results.
            parameters: tensors by name.
            batch: columns of this process's part of the batch.

        Returns:
            The gradient of each parameter by name, the loss, and the further results. Gradients and means are those of
            the whole batch. Numbers per sample, such as TD errors, are those of this process's part.
        """
        leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}
        gradients, value, rest = self._differentiate(loss, leaves, batch)
        means = [value, *_means(rest)]
        together = torch.cat([tensor.reshape(-1) for tensor in (*gradients.values(), *means)]).mul_(
            self._share
        )
        try:
            self._group.allreduce([together]).wait()
        except RuntimeError as error:  # raised by gloo
            raise BrokenGroupError(str(error)) from error
        sizes = [*(gradient.numel() for gradient in gradients.values()), *(1 for _ in means)]
        summed = list(together.split(sizes))
        whole = {
            name: part.view_as(gradient)
            for (name, gradient), part in zip(gradients.items(), summed, strict=False)
        }
        value, *others = (mean.reshape(()) for mean in summed[len(gradients) :])
        return whole, value, _with_means(rest, iter(others))


def _means(rest: Any) -> list[Tensor]:
    if isinstance(rest, Tensor):
        return [] if rest.dim() else [rest]
    return [mean for leaf in rest for mean in _means(leaf)]


def _with_means(rest: Any, means: Any) -> Any:
    if isinstance(rest, Tensor):
        return rest if rest.dim() else next(means)
    return tuple(_with_means(leaf, means) for leaf in rest)


class _PartLearner(TorchLearner):
    """Takes steps of a whole batch, but differentiates only a part of it.

    Args:
        part: the part of this process.
        store: where the processes of the group connect.
        algorithm, batch_size, seed: see `TorchLearner`; the batch size is that of the whole batch.
    """

    def __init__(self, algorithm: Algorithm, part: Part, store: Any, *, batch_size: int, seed: int) -> None:
        gloo: Any = distributed.ProcessGroupGloo
        options = gloo._Options()
        options._devices = [
            gloo.create_device(hostname=_LOOPBACK)
        ]  # whatever address this machine's name resolves to
        options._timeout = timedelta(seconds=STALL_LIMIT_S)
        self._part = part
        group = gloo(store, part.rank, part.processes, options)
        self._updates = AggregatedUpdates(group, (part.end - part.first) / batch_size)
        super().__init__(algorithm, batch_size=batch_size, seed=seed, mode="tuned")

    def _make_step(self) -> Callable[..., StepResult]:
        return replace(self.algorithm, updates=self._updates).gradient_step

    def part_step(self, batch: Mapping[str, np.ndarray], variant: str) -> StepResult:
        """Take one step; `td_error` is that of the part."""
        rows = slice(self._part.first, self._part.end)
        tensors = {name: torch.from_numpy(array[rows]) for name, array in batch.items()}
        draws = self.algorithm.draw(
            self.batch_size, self._generator
        )  # every process draws for the whole batch
        with torch.no_grad():
            result = self._gradient_step(
                self._state, tensors, {name: draw[rows] for name, draw in draws.items()}, variant
            )
        self._state = result.state
        return result


class _Request(NamedTuple):
    variant: str
    state: dict[str, np.ndarray] | None = None  # state to continue from, instead of a step


def _work(
    algorithm: Algorithm, part: Part, port: int, batch_size: int, seed: int, shared: SharedArrays
) -> Callable[[_Request], None]:
    store = distributed.TCPStore(_LOOPBACK, port, is_master=False)
    learner = _PartLearner(algorithm, part, store, batch_size=batch_size, seed=seed)
    columns = {name: column for name, column in shared.items() if name != _TD_ERROR}

    def work(request: _Request) -> None:
        if request.state is not None:
            learner.load_state_dict(request.state)
            return
        result = learner.part_step(columns, request.variant)
        shared[_TD_ERROR][part.first : part.end] = result.td_error.numpy()

    return work


class LearnerProcesses(_PartLearner):
    """A learner on PyTorch whose batches are differentiated by several processes, including the caller's.

    Args:
        algorithm: an off-policy algorithm that, outside its losses, computes each sample independently of
            the others.
        processes: number of processes, 2 to the batch size.

    Attributes:
        pids: IDs of the other processes.

    Raises:
        UnitError: a process could not be created.
    """

    def __init__(self, algorithm: Algorithm, *, processes: int, batch_size: int, seed: int = 0) -> None:
        if not 2 <= processes <= batch_size:
            raise ValueError(f"processes: found {processes}; allowed: 2 to the batch size, {batch_size}")
        own, *others = parts_of(batch_size, processes)
        store = distributed.TCPStore(_LOOPBACK, 0, is_master=True, wait_for_workers=False)
        dtypes = {
            name: torch.zeros((), dtype=c.dtype).numpy().dtype for name, c in algorithm.columns(1).items()
        }
        fields = {
            name: FieldSpec(shape, dtypes[name]) for name, (shape, _) in algorithm.columns(batch_size).items()
        }
        self._shared = SharedArrays(fields | {_TD_ERROR: FieldSpec((batch_size,), dtypes["reward"])})
        self._units: list[ProcessUnit[_Request, None]] = []
        try:
            for part in others:
                build = partial(_work, algorithm, part, store.port, batch_size, seed)
                self._units.append(ProcessUnit(f"learner {part.rank}", build, self._shared))
            super().__init__(algorithm, own, store, batch_size=batch_size, seed=seed)
            for unit in self._units:
                unit.wait_until_ready()
        except BaseException:
            self.close()
            raise
        self.pids = [unit.pid for unit in self._units]

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Make every process continue from the given state.

        Args:
            state: the parameters and other arrays by name, as `Learner.state_dict` returns them.
        """
        super().load_state_dict(state)
        self._ask(_Request("", self.state_dict()))
        for unit in self._units:
            unit.result()

    def close(self) -> None:
        """End the other processes, and release the shared memory. Idempotent."""
        close_all(self._units)
        self._shared.close()

    def _step(self, batch: dict[str, np.ndarray], variant: str) -> StepOutcome:
        for name, column in batch.items():
            np.copyto(self._shared[name], column)
        self._ask(_Request(variant))
        try:
            result = self.part_step(batch, variant)
        except RuntimeError as error:
            raise self._cause(error) from error
        for unit in self._units:
            unit.result()
        td_errors = self._shared[_TD_ERROR].copy()
        td_errors[self._part.first : self._part.end] = result.td_error.numpy()
        losses = {name: value.item() for name, value in result.losses.items()}
        return StepOutcome(td_errors, losses)

    def _cause(self, error: RuntimeError) -> UnitError:
        """Return the error of the process that failed first, given that of this one.

        The others wait for it, or report that the group is broken.
        """
        told = []
        for unit in self._units:
            try:
                unit.result(limit_s=1.0)
            except UnitError as failure:
                told.append(failure)
        innocent = f": {BrokenGroupError.__name__}: ", ": stalled: "
        if guilty := [one for one in told if not any(words in str(one) for words in innocent)]:
            return guilty[0]
        if told and isinstance(error, BrokenGroupError):
            return told[0]
        return UnitError(f"learner 0: {error}")

    def _ask(self, request: _Request) -> None:
        for unit in self._units:
            unit.submit(request)
