"""Versions of `Updates` that overwrite the caller's tensors: they give the same numbers with fewer PyTorch calls."""

from typing import Any

import torch
from torch import Tensor

from placerl.primitives.algorithms.networks import Parameters
from placerl.primitives.algorithms.updates import AdamState, Auxiliary, Batch, Loss, Updates


class InPlaceUpdates(Updates):
    """A version of `Updates` (gradients, Adam, Polyak averaging) that overwrites the given parameters and states."""

    def gradients(
        self, loss: Loss[Auxiliary], parameters: Parameters, batch: Batch
    ) -> tuple[Parameters, Tensor, Auxiliary]:
        """Differentiate a loss that is a mean over a batch, without functorch's wrappers around every tensor."""
        leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}
        return self._differentiate(loss, leaves, batch)

    def _differentiate(
        self, loss: Loss[Auxiliary], leaves: Parameters, batch: Batch
    ) -> tuple[Parameters, Tensor, Auxiliary]:
        with torch.enable_grad():
            value, rest = loss(leaves, batch)
        gradients = torch.autograd.grad(value, list(leaves.values()))
        return dict(zip(leaves, gradients, strict=True)), value.detach(), _detached(rest)

    def adam(
        self, parameters: Parameters, gradients: Parameters, state: AdamState, learning_rate: float | Tensor
    ) -> tuple[Parameters, AdamState]:
        """Run one Adam update in place, in one PyTorch call.

        Args:
            parameters: the parameters, which are overwritten.
            state: the optimiser's state, which is overwritten.

        Returns:
            The given parameters and state.
        """
        values = list(parameters.values())
        step = state.step.add_(1).float()  # the CUDA kernel reads it as float32 in every case
        torch._fused_adam_(
            values,
            list(gradients.values()),
            list(state.mean.values()),
            list(state.square.values()),
            [],
            [step] * len(values),
            lr=learning_rate,
            beta1=self.beta1,
            beta2=self.beta2,
            weight_decay=0.0,
            eps=self.epsilon,
            amsgrad=False,
            maximize=False,
        )
        return parameters, state

    def polyak(self, target: Parameters, online: Parameters, tau: float) -> Parameters:
        """Set `target` to (1 - tau) target + tau online in place, in one PyTorch call, and return it."""
        if tau == 1:
            torch._foreach_copy_(list(target.values()), list(online.values()))
        else:
            torch._foreach_lerp_(list(target.values()), list(online.values()), tau)
        return target


class SplitUpdates(InPlaceUpdates):
    """A version of `InPlaceUpdates` whose gradients are means over equal parts of the batch (PRL 4.2.1).

    On CUDA each part has its own stream, so that forward and backward passes of different parts overlap.
    Parameters are updated once all parts have been averaged. The numbers are those of the whole batch up to
    rounding, because the order of summation differs.
    """

    def __init__(self, parts: int, streams: "list[torch.cuda.Stream] | None" = None) -> None:
        """Divide batches into `parts`, each with a CUDA stream; without `streams` the parts follow each other."""
        self.parts = parts
        self.streams = streams

    def split(self, batch: Batch) -> list[dict[str, Tensor]]:
        """Return the equal parts of a batch, as dicts whose columns are views of the batch's columns."""
        pieces = {name: column.chunk(self.parts) for name, column in batch.items()}
        return [{name: piece[index] for name, piece in pieces.items()} for index in range(self.parts)]

    def together(self, batch: Batch) -> Batch:
        """Return the batch after waiting for all streams, each of which copies one part of the batch to the device."""
        for stream in self.streams or []:
            torch.cuda.current_stream().wait_stream(stream)
        return batch

    def gradients(
        self, loss: Loss[Auxiliary], parameters: Parameters, batch: Batch
    ) -> tuple[Parameters, Tensor, Auxiliary]:
        """Differentiate a loss for each part of the batch, and return the means over the parts.

        Returns:
            The gradients (named as the parameters), the loss (), and the auxiliary results, all detached. Auxiliary
            results with one number per sample are those of the whole batch.
        """
        leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}
        results = []
        for index, piece in enumerate(self.split(batch)):
            if self.streams is None:
                results.append(self._differentiate(loss, leaves, piece))
                continue
            stream = self.streams[index]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                results.append(self._differentiate(loss, leaves, piece))
        self.together(batch)
        gradients = [list(part.values()) for part, _, _ in results]
        total = gradients[0]
        for part in gradients[1:]:
            total = list(torch._foreach_add(total, part))
        total = list(torch._foreach_mul(total, 1 / self.parts))
        value = torch.stack([value for _, value, _ in results]).mean()
        return dict(zip(leaves, total, strict=True)), value, _merged([rest for _, _, rest in results])


def _detached(rest: Any) -> Any:
    return rest.detach() if isinstance(rest, Tensor) else tuple(leaf.detach() for leaf in rest)


def _merged(parts: list[Any]) -> Any:
    """Combine what the parts' losses returned besides their values: samples are concatenated, means averaged."""
    if not isinstance(parts[0], Tensor):
        return tuple(_merged(list(leaves)) for leaves in zip(*parts, strict=True))
    return torch.cat(parts) if parts[0].dim() else torch.stack(parts).mean()
