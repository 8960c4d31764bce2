"""The golden model of the accelerator: float32 operations in the order of the hardware, equal to it bit by bit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placerl.primitives.fpga.floating_point import golden as floating
from placerl.primitives.fpga.gemm.plan import padded
from placerl.primitives.fpga.learner_pipeline.update_unit import adam_program
from placerl.primitives.fpga.ppo_accelerator.gradient_norm import PARTS
from placerl.primitives.fpga.ppo_accelerator.program import NetworkProgram
from placerl.primitives.fpga.ppo_accelerator.row_programs import activation_program, derivative_program
from tests.primitives.fpga.gemm.float_golden import Floats, product

ONE_SAMPLE = adam_program(1)


def _total(gradients: Sequence[Sequence[Floats]], index: int) -> Floats:
    """Return a layer's gradients of one unit, or of both together."""
    own = gradients[0][index]
    return floating.add(own, gradients[1][index] if len(gradients) > 1 else np.zeros_like(own))


class ForwardPass(NamedTuple):
    """The results of a forward pass on one unit; samples are columns.

    Attributes:
        activations: a_0 to a_{L-1}, each (n_l + 1, M), the last row ones.
        output: z_L, (n_L, M).
    """

    activations: list[Floats]
    output: Floats


def with_ones(matrix: Floats) -> Floats:
    """Return (n, M) numbers with a last row of ones."""
    return np.concatenate([matrix, np.ones((1, matrix.shape[1]), np.float32)])


@dataclass
class GoldenNetwork:
    """A network in the accelerator, with Adam's moments.

    Attributes:
        program: the network's sizes and dataflows.
        weights: W_1 to W_L, (n_l, n_{l-1} + 1) float32, the biases in the last column.
        means, squares: Adam's moments, in the same shapes.
        activation: "tanh" or "relu".
    """

    program: NetworkProgram
    weights: list[Floats]
    means: list[Floats]
    squares: list[Floats]
    activation: str = "tanh"

    @classmethod
    def of(
        cls, program: NetworkProgram, weights: Sequence[Floats], activation: str = "tanh"
    ) -> "GoldenNetwork":
        """Return a network before its first update: Adam's moments are 0.

        Args:
            program: the network's sizes and dataflows.
            weights: W_1 to W_L with biases.
            activation: "tanh" or "relu".
        """
        means, squares = ([np.zeros_like(w) for w in weights] for _ in range(2))
        return cls(program, list(weights), means, squares, activation)

    def forward(self, inputs: Floats) -> ForwardPass:
        """Return the forward pass of samples, (n_0, M)."""
        activations = [with_ones(inputs)]
        function = activation_program(self.activation)
        for weights in self.weights[:-1]:
            z = self._product(weights, activations[-1], "FW")
            activations.append(with_ones(function.golden([z])[0].astype(np.float32)))
        return ForwardPass(activations, self._product(self.weights[-1], activations[-1], "FW"))

    def gradients(self, passed: ForwardPass, deltas: Floats) -> list[Floats]:
        """Return dW_1 to dW_L of one unit.

        Args:
            passed: its forward pass.
            deltas: d_L, (n_L, M).
        """
        derivative, found = derivative_program(self.activation), []
        for layer in range(len(self.weights), 0, -1):
            a = passed.activations[layer - 1]
            found.append(self._product(deltas, np.ascontiguousarray(a.T), "WU"))
            if layer > 1:
                weights = np.ascontiguousarray(self.weights[layer - 1][:, :-1].T)
                back = self._product(weights, deltas, "BW")
                deltas = derivative.golden([back, a[:-1]])[0].astype(np.float32)
        return found[::-1]

    def norm_parts(self, gradients: Sequence[Sequence[Floats]]) -> Floats:
        """Return the partial sums of the squares of the gradients of one unit, or of both: (`PARTS`,).

        Rows of blocks come from the last layer on, block by block, as they are stored.
        """
        parts, turn, side = np.zeros(PARTS, np.float32), 0, self.program.side
        for layer in range(len(self.weights), 0, -1):
            whole = padded(_total(gradients, layer - 1), side)
            tiles = whole.reshape(len(whole) // side, side, -1, side).transpose(0, 2, 1, 3)
            columns = list(floating.multiply(tiles, tiles).reshape(-1, side).T)
            while len(columns) > 1:
                sums = [floating.add(*pair) for pair in zip(columns[::2], columns[1::2], strict=False)]
                columns = sums + columns[len(columns) // 2 * 2 :]
            for square in columns[0]:
                parts[turn % PARTS] = floating.add(parts[turn % PARTS], square)
                turn += 1
        return parts

    def update(
        self, gradients: Sequence[Sequence[Floats]], rate: float, root: float, scale: float | None = None
    ) -> None:
        """Take Adam's step with the gradients of one unit, or of both.

        Args:
            gradients: for each unit, dW_1 to dW_L.
            rate, root: Adam's `update_unit.corrections` of this step.
            scale: what the gradients are multiplied by; None: they are not.
        """
        for index, weights in enumerate(self.weights):
            total = _total(gradients, index)
            if scale is not None:
                total = floating.multiply(total, np.float32(scale))
            numbers = [total, weights, self.means[index], self.squares[index]]
            results = ONE_SAMPLE.golden(
                [*numbers, np.asarray(rate, np.float32), np.asarray(root, np.float32)]
            )
            new = [np.asarray(each, np.float32) for each in results]
            self.weights[index], self.means[index], self.squares[index] = new

    def _product(self, a: Floats, b: Floats, process: str) -> Floats:
        dataflow = self.program.dataflow(process)
        return product(a, b, side=self.program.side, dataflow=dataflow)
