"""The parts that all gradient steps share: gradients, Adam, Polyak averaging and clipping, as functions of tensors.

They are methods of one object so that a learner can replace them by fused versions that give the same numbers
(`primitives.learner.torch.torch_backend`), without a change to the algorithm.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from placerl.primitives.algorithms.networks import Parameters

Auxiliary = TypeVar("Auxiliary")
Batch = Mapping[str, Tensor]
Loss = Callable[[Parameters, Batch], tuple[Tensor, Auxiliary]]


class AdamState(NamedTuple):
    """Adam's moments for one set of parameters.

    Attributes:
        step: () float, the number of updates so far; exact in float32 up to 2^24.
        mean: running mean of the gradients, m of Kingma and Ba 2015, Algorithm 1.
        square: running mean of their squares, v.
    """

    step: Tensor
    mean: Parameters
    square: Parameters


def copy(parameters: Parameters) -> Parameters:
    """Return copies of parameters, by name."""
    return {name: value.clone() for name, value in parameters.items()}


def initial_adam(parameters: Parameters) -> AdamState:
    """Return Adam's state before the first update: zeros in the shapes of the parameters."""
    example = next(iter(parameters.values()))
    zeros = [{name: torch.zeros_like(value) for name, value in parameters.items()} for _ in range(2)]
    return AdamState(example.new_zeros(()), *zeros)


def is_second_moment(name: str) -> bool:
    """Return whether a leaf of a state is one of Adam's second moments (`AdamState.square`).

    A gradient that is not finite, or whose square is not, makes them infinite or NaN, while losses and parameters may
    stay finite: an infinite second moment ends all updates of its parameter. In float32 a gradient of 1e21 is enough.

    Args:
        name: name of the leaf, such as `critic_adam/square/0.weight`.
    """
    return "square" in name.split("/")


class Updates:
    """Gradients, Adam, Polyak averaging and gradient clipping as pure functions, which can be traced.

    All inputs are arguments, and all results are returned; subclasses may overwrite their arguments.
    """

    beta1 = 0.9
    beta2 = 0.999
    epsilon = 1e-8

    def gradients(
        self, loss: Loss[Auxiliary], parameters: Parameters, batch: Batch
    ) -> tuple[Parameters, Tensor, Auxiliary]:
        """Differentiate a loss that is a mean over a batch.

        Args:
            loss: maps parameters and batch to (scalar loss, auxiliary results of the forward pass: a tensor or
                tuple of tensors, each with one number per sample or a mean over the batch). Everything that it
                computes about a sample must come from `batch`, so that it can be evaluated on parts of the batch.
            batch: tensors whose first dimension is the batch.

        Returns:
            The gradients (named as the parameters), the loss (), and the auxiliary results, all detached.
        """
        gradients, (value, rest) = torch.func.grad_and_value(loss, has_aux=True)(parameters, batch)
        return gradients, value, rest

    def together(self, batch: Batch) -> Batch:
        """Return the batch when all of it may be read.

        An algorithm calls this before it computes something from a batch outside a loss, because a learner may still
        be copying parts of the batch to its device.
        """
        return batch

    def adam(
        self, parameters: Parameters, gradients: Parameters, state: AdamState, learning_rate: float | Tensor
    ) -> tuple[Parameters, AdamState]:
        """Run one Adam update (Kingma and Ba 2015, Algorithm 1; epsilon outside the root, as in PyTorch).

        The bias corrections 1 - beta^t are computed as -expm1(t ln beta): the direct difference would lose four of
        float32's seven digits at t = 1.

        Args:
            gradients: their gradients, by the same names.
            learning_rate: Adam's step size, a number or ().

        Returns:
            The new parameters and the new moments.
        """
        step = state.step + 1
        rate = learning_rate / -torch.expm1(step * math.log(self.beta1))
        root_correction = torch.sqrt(-torch.expm1(step * math.log(self.beta2)))
        mean, square, new = {}, {}, {}
        for name, gradient in gradients.items():
            mean[name] = self.beta1 * state.mean[name] + (1 - self.beta1) * gradient
            square[name] = self.beta2 * state.square[name] + (1 - self.beta2) * gradient * gradient
            denominator = torch.sqrt(square[name]) / root_correction + self.epsilon
            new[name] = parameters[name] - rate * (mean[name] / denominator)
        return new, AdamState(step, mean, square)

    def polyak(self, target: Parameters, online: Parameters, tau: float) -> Parameters:
        """Return (1 - tau) target + tau online (Lillicrap et al. 2015, Algorithm 1); tau = 1 copies.

        Args:
            target, online: parameters of the target network and of the trained network, by the same names.
            tau: fraction by which the target moves, (0, 1].
        """
        if tau == 1:
            return copy(online)
        return {name: value + tau * (online[name] - value) for name, value in target.items()}

    def clip(self, gradients: Parameters, maximum_norm: float | None) -> Parameters:
        """Scale all gradients together so that their joint Euclidean norm is at most `maximum_norm`.

        Where the sum of squares overflows float32 (one gradient of 2e19 is enough), the norm is infinite and all become
        0, as PyTorch's `clip_grad_norm_` has it.
        """
        if maximum_norm is None:
            return gradients
        squares = torch.stack([(gradient * gradient).sum() for gradient in gradients.values()])
        scale = torch.clamp(maximum_norm / (torch.sqrt(squares.sum()) + 1e-6), max=1.0)
        return {name: gradient * scale for name, gradient in gradients.items()}


PURE = Updates()
