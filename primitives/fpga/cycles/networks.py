"""The sizes of the matrix products of networks' layers (PPO 3.2, Equation 6), and the papers' networks."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from placerl.primitives.fpga.gemm.plan import GemmShape


@dataclass(frozen=True)
class GemmLayer:
    """The sizes of a layer: a convolution, or a fully connected layer, which is a convolution of 1 x 1 maps.

    Attributes:
        inputs, outputs: channels in and out, or neurons.
        kernel: (F1, F2), rows and columns.
        in_size: (H1, H2) of an input map.
        out_size: (O1, O2) of an output map.
    """

    inputs: int
    outputs: int
    kernel: tuple[int, int] = (1, 1)
    in_size: tuple[int, int] = (1, 1)
    out_size: tuple[int, int] = (1, 1)

    @property
    def weights(self) -> int:
        return self.inputs * self.outputs * self.kernel[0] * self.kernel[1]

    def forward(self, batch: int) -> GemmShape:
        window = self.kernel[0] * self.kernel[1]
        return GemmShape(batch * self.out_size[0] * self.out_size[1], window * self.inputs, self.outputs)

    def backward(self, batch: int) -> GemmShape:
        """Return the sizes of the product that gives the gradients with respect to the layer's inputs."""
        window = self.kernel[0] * self.kernel[1]
        return GemmShape(batch * self.in_size[0] * self.in_size[1], window * self.outputs, self.inputs)

    def weight_gradient(self, batch: int) -> GemmShape:
        window = self.kernel[0] * self.kernel[1]
        return GemmShape(window * self.inputs, batch * self.out_size[0] * self.out_size[1], self.outputs)


def neurons(layers: Sequence[GemmLayer]) -> list[int]:
    """Return the numbers of neurons of fully connected layers, inputs first: the inverse of `mlp`."""
    return [layers[0].inputs, *(layer.outputs for layer in layers)]


def mlp(*sizes: int) -> tuple[GemmLayer, ...]:
    """Return the fully connected layers of a network with these numbers of neurons, inputs first."""
    return tuple(GemmLayer(inputs, outputs) for inputs, outputs in itertools.pairwise(sizes))


def cnn(
    in_size: tuple[int, int],
    channels: int,
    convolutions: Sequence[tuple[int, int, int]],
    hidden: Sequence[int],
) -> tuple[GemmLayer, ...]:
    """Return the layers of a network of convolutions without padding, followed by fully connected layers.

    Args:
        in_size: rows and columns of the input.
        channels: channels of the input.
        convolutions: (output channels, side of the kernel, stride) each.
        hidden: numbers of neurons of the fully connected layers, outputs last.
    """
    layers = []
    for outputs, side, stride in convolutions:
        out_size = ((in_size[0] - side) // stride + 1, (in_size[1] - side) // stride + 1)
        layers.append(GemmLayer(channels, outputs, (side, side), in_size, out_size))
        channels, in_size = outputs, out_size
    return (*layers, *mlp(channels * in_size[0] * in_size[1], *hidden))


# PPO 5.1. Pong: "3 CONV layers and 2 FC layers", as those widely used; taken for the Nature network, whose 1.68 million
# weights of 32 bits are the 54 Mbit of PPO 3.1; six actions.
PPO_NETWORKS = {
    "Hopper": mlp(11, 64, 64, 3),
    "Humanoid": mlp(376, 128, 64, 17),
    "Pong": cnn((84, 84), 4, ((32, 8, 4), (64, 4, 2), (64, 3, 1)), (512, 6)),
}

# FIX VI-B: state and action sizes of its benchmarks, as printed.
FIX_BENCHMARKS = {"HalfCheetah": (17, 6), "Hopper": (11, 6), "Swimmer": (8, 2)}
FIX_HIDDEN = (400, 300)
