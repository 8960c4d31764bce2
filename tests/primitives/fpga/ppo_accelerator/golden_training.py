"""What the golden models of PPO's two accelerators have in common: Adam's step and the gradients' norm, bit by bit."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

import numpy as np

from placerl.primitives.fpga.floating_point import golden as floating
from placerl.primitives.fpga.learner_pipeline.update_unit import adam_program
from placerl.primitives.fpga.ppo_accelerator.gradient_norm import PARTS
from tests.primitives.fpga.gemm.float_golden import Floats

ONE_SAMPLE = adam_program(1)
Program = TypeVar("Program")


@dataclass
class GoldenTraining(ABC, Generic[Program]):
    """A network in an accelerator, with Adam's moments.

    Attributes:
        program: the network's sizes and dataflows.
        weights: W_1 to W_L with biases, float32, as the accelerator stores them.
        means, squares: Adam's moments, in the same shapes.
        activation: "tanh" or "relu".
    """

    program: Program
    weights: list[Floats]
    means: list[Floats]
    squares: list[Floats]
    activation: str = "tanh"

    @classmethod
    def of(cls, program: Program, weights: Sequence[Floats], activation: str = "tanh") -> Self:
        """Return a network before its first update: Adam's moments are 0."""
        means, squares = ([np.zeros_like(w) for w in weights] for _ in range(2))
        return cls(program, list(weights), means, squares, activation)

    @abstractmethod
    def rows(self, gradient: Floats) -> Floats:
        """Return a layer's gradient in rows of P numbers, (rows, P), in the order in which the accelerator moves it."""

    def norm_parts(self, gradients: Sequence[Sequence[Floats]]) -> Floats:
        """Return the partial sums of the squares of the gradients, (`PARTS`,): rows come from the last layer on.

        Args:
            gradients: for each unit that works for the network, dW_1 to dW_L.
        """
        rows = np.concatenate([self.rows(total) for total in reversed(_totals(gradients))])
        columns = list(floating.multiply(rows, rows).T)
        while len(columns) > 1:
            sums = [floating.add(*pair) for pair in zip(columns[::2], columns[1::2], strict=False)]
            columns = sums + columns[len(columns) // 2 * 2 :]
        parts = np.zeros(PARTS, np.float32)
        for turn, square in enumerate(columns[0]):
            parts[turn % PARTS] = floating.add(parts[turn % PARTS], square)
        return parts

    def update(
        self, gradients: Sequence[Sequence[Floats]], rate: float, root: float, scale: float | None = None
    ) -> None:
        """Take Adam's step.

        Args:
            gradients: for each unit that works for the network, dW_1 to dW_L.
            rate, root: Adam's `update_unit.corrections` of this step.
            scale: what the gradients are multiplied by; None: they are not.
        """
        corrections = [np.asarray(rate, np.float32), np.asarray(root, np.float32)]
        for index, total in enumerate(_totals(gradients)):
            scaled = total if scale is None else floating.multiply(total, np.float32(scale))
            numbers = [scaled, self.weights[index], self.means[index], self.squares[index]]
            new = (np.asarray(each, np.float32) for each in ONE_SAMPLE.golden([*numbers, *corrections]))
            self.weights[index], self.means[index], self.squares[index] = new


def _totals(gradients: Sequence[Sequence[Floats]]) -> list[Floats]:
    """Return each layer's gradients of one unit, to which the adder adds 0, or of both together."""
    first, *second = gradients
    others = second[0] if second else [np.zeros_like(own) for own in first]
    return [floating.add(own, other) for own, other in zip(first, others, strict=True)]
