"""Rules that lower matrix products and convolutions to the step graph."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from placerl.primitives.graph.graph import UnsupportedOperationError, View
from placerl.primitives.graph.lowering.builder import Builder, Number, Value
from placerl.primitives.graph.lowering.rules import rule


@rule("mm", "bmm")
def _mm(b: Builder, dtype: str, x: Value, y: Value) -> Value:
    return b.matmul(x, y)


@rule("addmm", "baddbmm")
def _addmm(
    b: Builder, dtype: str, z: Value, x: Value, y: Value, beta: Number = 1, alpha: Number = 1
) -> Value:
    product = b.apply("mul", [b.matmul(x, y), alpha], dtype)
    return b.apply("add", [product, b.apply("mul", [z, beta], dtype)], dtype)


@dataclass(frozen=True)
class _Convolution:
    """The shapes of a plain two-dimensional convolution."""

    kernel: tuple[int, int]
    stride: tuple[int, ...]
    padding: tuple[int, ...]

    @staticmethod
    def of(
        weight: Value, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
        transposed: bool, _output_padding: Any, groups: int,
    ) -> "_Convolution":  # fmt: skip
        """The shapes of a convolution by these weights; the rest as PyTorch's `convolution` takes it, in its order."""
        if len(weight.shape) != 4 or transposed or groups != 1 or set(dilation) != {1}:
            raise UnsupportedOperationError("only two-dimensional convolutions without groups and dilation")
        return _Convolution((weight.shape[2], weight.shape[3]), tuple(stride), tuple(padding))

    def columns(self, b: Builder, x: Value) -> View:
        """The patches of x (B, C, H, W) as a matrix (B OH OW, C KH KW)."""
        batch, channels, *size = x.shape
        out = [(size[i] + 2 * self.padding[i] - self.kernel[i]) // self.stride[i] + 1 for i in range(2)]
        patches = b.emit(
            "im2col", [x], (batch, *out, channels, *self.kernel), b.dtype_of(x), kernel=self.kernel,
            stride=self.stride, padding=self.padding,
        )  # fmt: skip
        return cast(View, patches.reshaped((batch * out[0] * out[1], channels * math.prod(self.kernel))))


def _flat_weight(b: Builder, weight: Value) -> Value:
    return b.reshape(weight, (weight.shape[0], weight.size // weight.shape[0]))


@rule("convolution")
def _convolution(
    b: Builder, dtype: str, x: Value, weight: Value, bias: Value | None, *settings: Any
) -> Value:
    shapes = _Convolution.of(weight, *settings)
    columns = shapes.columns(b, x)
    product: Value = b.matmul(columns, b.permute(_flat_weight(b, weight), (1, 0)))
    if bias is not None:
        product = b.apply("add", [product, bias], dtype)
    height = (x.shape[2] + 2 * shapes.padding[0] - shapes.kernel[0]) // shapes.stride[0] + 1
    image = b.reshape(product, (x.shape[0], height, -1, weight.shape[0]))
    return b.permute(image, (0, 3, 1, 2))


@rule("convolution_backward")
def _convolution_backward(
    b: Builder,
    dtype: str,
    gradient: Value,
    x: Value,
    weight: Value,
    _bias_sizes: Any,
    *settings_and_wanted: Any,
) -> list[Value | None]:
    *settings, wanted = settings_and_wanted
    shapes = _Convolution.of(weight, *settings)
    channels_last = b.permute(gradient, (0, 2, 3, 1))
    rows = b.reshape(channels_last, (-1, weight.shape[0]))
    results: list[Value | None] = [None, None, None]
    if wanted[0]:
        patches = b.matmul(rows, _flat_weight(b, weight))
        shape = (*channels_last.shape[:3], *weight.shape[1:])
        results[0] = b.emit(
            "col2im", [b.reshape(patches, shape)], x.shape, dtype, kernel=shapes.kernel,
            stride=shapes.stride, padding=shapes.padding,
        )  # fmt: skip
    if wanted[1]:
        product = b.matmul(b.permute(rows, (1, 0)), shapes.columns(b, x))
        results[1] = b.reshape(product, weight.shape)
    if wanted[2]:
        results[2] = b.reduce("sum", rows, (0,), False, dtype)
    return results
