"""The golden model of the accelerator: float32 operations in the order of the hardware, equal to it bit by bit."""

from typing import NamedTuple

import numpy as np

from placerl.primitives.fpga.gemm.plan import padded
from placerl.primitives.fpga.ppo_accelerator.program import NetworkProgram
from placerl.primitives.fpga.ppo_accelerator.row_programs import activation_program, derivative_program
from tests.primitives.fpga.gemm.float_golden import Floats, product
from tests.primitives.fpga.ppo_accelerator.golden_training import GoldenTraining


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


class GoldenNetwork(GoldenTraining[NetworkProgram]):
    """A network in the accelerator, of which each W_l is (n_l, n_{l-1} + 1), with the biases in the last column."""

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

    def rows(self, gradient: Floats) -> Floats:
        """Return a layer's gradient in rows of P numbers, block by block, as they are stored."""
        side = self.program.side
        whole = padded(gradient, side)
        return whole.reshape(len(whole) // side, side, -1, side).transpose(0, 2, 1, 3).reshape(-1, side)

    def _product(self, a: Floats, b: Floats, process: str) -> Floats:
        dataflow = self.program.dataflow(process)
        return product(a, b, side=self.program.side, dataflow=dataflow)
