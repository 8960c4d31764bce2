"""The sizes of a layer in the convolutional accelerator, in lines of P numbers, and its convolutions (PPO 3.2)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from placerl.primitives.fpga.convolution.layout_transform import Convolution
from placerl.primitives.fpga.cycles.networks import GemmLayer
from placerl.primitives.fpga.gemm.plan import blocks


def stride_of(layer: GemmLayer) -> int:
    """Return the pixels from window to window of a layer without padding, whose windows reach its last pixel.

    Raises:
        ValueError: there is no such stride, the same in both directions.
    """
    pairs = list(zip(layer.in_size, layer.kernel, layer.out_size, strict=True))
    strides = {(size - side) / (count - 1) for size, side, count in pairs if count > 1} or {1.0}
    stride = int(min(strides))
    if strides != {stride} or any(size != side + (count - 1) * stride for size, side, count in pairs):
        raise ValueError(f"layer: found {layer}; allowed: windows that reach the last row and column")
    return stride


def folded(layer: GemmLayer) -> GemmLayer:
    """Return the layer as one with a stride of 1, whose pixels are blocks of stride x stride pixels.

    The channels of such a pixel are those of its pixels, row by row: the layer's numbers in another order. An image of
    few channels then fills lines of P numbers: Pong's 84 x 84 x 4 are 21 x 21 x 64.

    Raises:
        ValueError: the stride does not divide the image and the kernel.
    """
    stride = stride_of(layer)
    if any(size % stride for size in (*layer.in_size, *layer.kernel)):
        raise ValueError(f"layer: found {layer}; allowed: sides that are multiples of the stride, {stride}")
    rows, columns = (size // stride for size in layer.kernel)
    height, width = (size // stride for size in layer.in_size)
    return replace(layer, inputs=layer.inputs * stride**2, kernel=(rows, columns), in_size=(height, width))


@dataclass(frozen=True)
class LayerShape:
    """A layer on the accelerator. A pixel's channels are stored in lines of P numbers, the last one filled up with 0.

    Attributes:
        layer: its sizes in numbers.
        side: P.
    """

    layer: GemmLayer
    side: int

    @property
    def stride(self) -> int:
        return stride_of(self.layer)

    @property
    def in_lines(self) -> int:
        """Lines of an input pixel."""
        return blocks(self.layer.inputs, self.side)

    @property
    def out_lines(self) -> int:
        """Lines of an output pixel."""
        return blocks(self.layer.outputs, self.side)

    @property
    def taps(self) -> int:
        """Positions in the kernel."""
        return self.layer.kernel[0] * self.layer.kernel[1]

    @property
    def weight_rows(self) -> int:
        """Blocks of P rows of the weights: the channels of each tap in turn, then a block for the biases."""
        return self.taps * self.in_lines + 1

    @property
    def dilated_size(self) -> tuple[int, int]:
        """Rows and columns of the outputs' gradients with zeros between them, stride - 1 (PPO 3.2)."""
        rows, columns = ((count - 1) * self.stride + 1 for count in self.layer.out_size)
        return rows, columns

    def forward(self, images: int) -> Convolution:
        """Return the convolution of the inputs, in lines."""
        return Convolution(self.in_lines, *self.layer.in_size, self.layer.kernel, self.stride, 0, images)

    def backward(self, images: int) -> Convolution:
        """Return the transposed convolution of the dilated gradients, in lines, which gives those of the inputs.

        Raises:
            ValueError: the kernel is not square.
        """
        rows, columns = self.layer.kernel
        if rows != columns:
            raise ValueError(f"kernel: found {rows} x {columns}; allowed: a square")
        return Convolution(self.out_lines, *self.dilated_size, (rows, rows), 1, rows - 1, images)


def connected(layers: Sequence[GemmLayer], side: int) -> tuple[LayerShape, ...]:
    """Return the layers on the accelerator, after a check that each reads the lines that the one before it writes.

    Raises:
        ValueError: a layer does not, or has no power of two as its output lines, which its taps' addresses need.
    """
    shapes = tuple(LayerShape(layer, side) for layer in layers)
    for before, shape in pairwise(shapes):
        lines = (
            before.out_lines * before.layer.out_size[0] * before.layer.out_size[1],
            shape.in_lines * shape.layer.in_size[0] * shape.layer.in_size[1],
        )
        if lines[0] != lines[1]:
            raise ValueError(f"layer: found {lines[1]} lines of inputs; allowed: {lines[0]}, as before it")
        if shape.taps > 1 and shape.out_lines & (shape.out_lines - 1):
            raise ValueError(f"outputs: found {shape.out_lines} lines; allowed: powers of two")
    return shapes
