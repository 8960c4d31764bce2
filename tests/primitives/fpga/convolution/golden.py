"""The golden models of the layout transformation: which elements it moves, and the matrix that it makes of a tensor."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga.convolution.layout_transform import Convolution


def toeplitz(images: NDArray[Any], kernel: tuple[int, int], stride: int) -> NDArray[Any]:
    """Return the windows of images, (N, H, W, C), as rows: (windows, kernel rows x columns x C)."""
    windows = np.lib.stride_tricks.sliding_window_view(images, kernel, axis=(1, 2))[:, ::stride, ::stride]
    return np.ascontiguousarray(windows.transpose(0, 1, 2, 4, 5, 3)).reshape(
        -1, kernel[0] * kernel[1] * images.shape[3]
    )


def dilated(images: NDArray[Any], stride: int) -> NDArray[Any]:
    """Return images, (N, H, W, C), with stride - 1 zeros between neighbouring pixels.

    A transposed convolution is a convolution over such images in steps of 1.
    """
    n, height, width, channels = images.shape
    wide = np.zeros((n, (height - 1) * stride + 1, (width - 1) * stride + 1, channels), images.dtype)
    wide[:, ::stride, ::stride] = images
    return wide


def moves_golden(convolution: Convolution, *, lanes: int) -> Iterator[tuple[int, int, list[int | None]]]:
    """Yield the moves that a `LayoutTransform` makes for a whole convolution: its golden model.

    Args:
        lanes: P, most words of a move.

    Yields:
        (row, column, addresses): the words at these addresses of the tensor go to `row` of the Toeplitz matrix, from
        `column` on. At most `lanes` addresses; None for a zero in the padding.
    """
    c, window = convolution, -1
    for image, out_row, out_column in (
        (n, r, q) for n in range(c.images) for r in range(c.out_size[0]) for q in range(c.out_size[1])
    ):
        window += 1
        for i in range(c.kernel[0]):
            row = out_row * c.stride + i - c.padding
            addresses: list[int | None] = []
            for place in range(c.run):
                column = out_column * c.stride - c.padding + place // c.channels
                inside = 0 <= row < c.height and 0 <= column < c.width
                pixel = (image * c.height + row) * c.width + column
                addresses.append(pixel * c.channels + place % c.channels if inside else None)
            for place in range(0, c.run, lanes):
                yield window, i * c.run + place, addresses[place : place + lanes]
