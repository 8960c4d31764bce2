"""The golden model of the convolutional accelerator: float32 operations in the order of the hardware, bit by bit."""

from typing import NamedTuple

import numpy as np

from placerl.primitives.fpga.convolution.layer_shape import LayerShape
from placerl.primitives.fpga.convolution.program import ImageProgram
from placerl.primitives.fpga.floating_point import golden as floating
from placerl.primitives.fpga.ppo_accelerator.row_programs import activation_program, derivative_program
from tests.primitives.fpga.convolution.golden import dilated, toeplitz
from tests.primitives.fpga.gemm.float_golden import Floats, product
from tests.primitives.fpga.ppo_accelerator.golden_training import GoldenTraining


def padded_lines(tensor: Floats, side: int) -> Floats:
    """Return a tensor, (..., C), with channels of 0 at its end that fill the last line of `side` numbers."""
    return np.pad(tensor, [(0, 0)] * (tensor.ndim - 1) + [(0, -tensor.shape[-1] % side)])


def stored_weights(kernels: Floats, biases: Floats, side: int) -> Floats:
    """Return a layer's weights as they are stored, with one row of biases.

    Args:
        kernels: (rows, columns, C, outputs).
        biases: (outputs,).

    Returns:
        (rows x columns x C filled up + 1, outputs filled up).
    """
    channels, outputs = kernels.shape[2:]
    whole = np.pad(kernels, ((0, 0), (0, 0), (0, -channels % side), (0, -outputs % side)))
    of_taps = whole.reshape(-1, whole.shape[-1])
    return np.concatenate([of_taps, padded_lines(biases[None], side)]).astype(np.float32)


class ImagePass(NamedTuple):
    """The results of a forward pass.

    Attributes:
        activations: a_0 to a_{L-1}, (M, H, W, C) each, with filled up channels, as the next layer reads them.
        output: Z_L, (M, outputs filled up).
    """

    activations: list[Floats]
    output: Floats


class GoldenImages(GoldenTraining[ImageProgram]):
    """A network in the accelerator, of which each W_l is stored as `stored_weights` returns it."""

    def forward(self, images: Floats) -> ImagePass:
        """Return the forward pass of observations, (M, H, W, C)."""
        side, activations = self.program.side, [padded_lines(images, self.program.side)]
        function = activation_program(self.activation)
        for shape, weights in zip(self.program.shapes, self.weights, strict=True):
            z = product(
                self._windows(shape, activations[-1]), weights, side=side, dataflow=self.program.dataflows[0]
            )
            if len(activations) == len(self.weights):
                return ImagePass(activations, z)
            after = self.program.shapes[len(activations)]
            numbers = function.golden([z])[0].astype(np.float32)
            activations.append(numbers.reshape(len(images), *after.layer.in_size, -1))
        raise AssertionError("a network without layers")

    def gradients(self, passed: ImagePass, deltas: Floats) -> list[Floats]:
        """Return dW_1 to dW_L, as stored.

        Args:
            passed: the forward pass.
            deltas: d_L, (M, outputs filled up).
        """
        side, found = self.program.side, []
        derivative = derivative_program(self.activation)
        bands = [one.shape.b for one in self.program.training().products if one.kind == "ACCUMULATE"]
        for layer in range(len(self.weights), 0, -1):
            shape, a = self.program.shapes[layer - 1], passed.activations[layer - 1]
            windows, total = self._windows(shape, a), np.zeros_like(self.weights[layer - 1])
            first = 0
            while first < len(windows):
                part = slice(first, first + bands.pop(0))
                band = product(np.ascontiguousarray(windows[part].T), deltas[part], side=side, dataflow="NS")
                total, first = floating.add(band, total), part.stop
            found.append(total)
            if layer > 1:
                back = product(
                    toeplitz(self._dilated(shape, deltas, len(a)), shape.layer.kernel, 1),
                    self._turned(shape, self.weights[layer - 1]),
                    side=side,
                    dataflow=self.program.dataflows[1],
                )
                numbers = derivative.golden([back, a.reshape(back.shape)])[0].astype(np.float32)
                deltas = numbers.reshape(-1, self.program.shapes[layer - 2].out_lines * side)
        return found[::-1]

    def rows(self, gradient: Floats) -> Floats:
        """Return a layer's gradient in lines of P numbers, row by row."""
        return gradient.reshape(-1, self.program.side)

    def _windows(self, shape: LayerShape, tensor: Floats) -> Floats:
        rows = toeplitz(tensor, shape.layer.kernel, shape.stride)
        return np.concatenate([rows, np.ones((len(rows), 1), np.float32)], axis=1)

    def _dilated(self, shape: LayerShape, deltas: Floats, images: int) -> Floats:
        """Return gradients with zeros between and around them, (M, rows, columns, C)."""
        around = shape.layer.kernel[0] - 1
        wide = dilated(deltas.reshape(images, *shape.layer.out_size, -1), shape.stride)
        return np.pad(wide, ((0, 0), (around, around), (around, around), (0, 0)))

    def _turned(self, shape: LayerShape, weights: Floats) -> Floats:
        """Return the weights of rotated kernels, with outputs as inputs."""
        taps = weights[:-1].reshape(shape.taps, -1, weights.shape[1])[::-1]
        return np.ascontiguousarray(taps.transpose(0, 2, 1)).reshape(-1, taps.shape[1])


def random_weights(rng: np.random.Generator, program: ImageProgram) -> list[Floats]:
    """Return W_1 to W_L as stored, with biases."""
    found = []
    for shape in program.shapes:
        layer = shape.layer
        size = (*layer.kernel, layer.inputs, layer.outputs)
        kernels = rng.standard_normal(size) / np.sqrt(np.prod(size[:3]))
        found.append(stored_weights(kernels, rng.standard_normal(layer.outputs), program.side))
    return found


def random_step(rng: np.random.Generator, program: ImageProgram) -> tuple[Floats, Floats]:
    """Return observations, (M, H, W, C), and gradients of the outputs, (M, outputs filled up)."""
    first, last = program.layers[0], program.layers[-1]
    images = rng.standard_normal((program.batch, *first.in_size, first.inputs)).astype(np.float32)
    deltas = rng.standard_normal((program.batch, last.outputs)).astype(np.float32)
    return images, padded_lines(deltas, program.side)
