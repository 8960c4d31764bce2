"""Clock cycles of the layout transformation of a convolution, in closed form.

A convolution is computed in bands, which are some rows of its Toeplitz matrix each. While a band is multiplied, the
next one is transformed, so that only the first band's transformation adds to the products' cycles. The tests have the
hardware that does both, and its cycles (`tests/primitives/fpga/convolution`, `tests/primitives/fpga/cycles`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from placerl.primitives.fpga.convolution.layout_transform import Convolution
from placerl.primitives.fpga.gemm.plan import blocks

MOVE_CYCLES = 2  # from the last move to the product that may begin: the tensor's memory, and A's


@dataclass(frozen=True)
class Band:
    """A part of a convolution that is computed at once: some rows of windows of one image, or several whole images.

    Attributes:
        first_image, images: the band's first image, and its number of images.
        first_row, rows: the first row of windows in each of these images, and the number of rows.
        windows: number of windows of the band.
    """

    first_image: int
    images: int
    first_row: int
    rows: int
    windows: int


def bands(convolution: Convolution, *, windows: int) -> Iterator[Band]:
    """Yield the bands into which a convolution is divided, in order, of at most `windows` windows each.

    A band is a part that is computed at once: some rows of windows of one image, or several whole images.

    Raises:
        ValueError: a single row of windows does not fit.
    """
    rows, columns = convolution.out_size
    if windows < columns:
        raise ValueError(f"windows: found {windows}; allowed: {columns} or more, a row of them")
    images = windows // (rows * columns)
    if images:
        for first in range(0, convolution.images, images):
            count = min(images, convolution.images - first)
            yield Band(first, count, 0, rows, count * rows * columns)
        return
    step = windows // columns
    for image in range(convolution.images):
        for first in range(0, rows, step):
            count = min(step, rows - first)
            yield Band(image, 1, first, count, count * columns)


def transform_cycles(convolution: Convolution, band: Band, *, side: int) -> int:
    """Return the cycles that the layout transformation takes for a band: one per move of at most P words.

    Every row of a window takes moves of its own.

    Args:
        band: the part of the convolution that is transformed.
    """
    return band.windows * convolution.kernel[0] * blocks(convolution.run, side)
