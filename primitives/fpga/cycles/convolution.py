"""Cycles of a convolution on `fpga.convolution_unit`: band by band, the next transformed beside the one in use.

PPO charges Equation 5 for the whole product and takes the transformation to be hidden. Where the RTL differs
(`difference_terms`, to the cycle):

- first band: its transformation, with nothing to hide it behind: a cycle for each P words of a window's row.
- waits: a later band whose transformation takes longer than the product before it.
- bands: each is a product of its own, with its own fill, and blocks of P windows that it does not fill.
- handover: from a product's last sum to the next one's first operand, less the cycle that Equation 5 has too much.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from primitives.fpga.convolution.layout_transform import Convolution
from primitives.fpga.cycles import gemm
from primitives.fpga.gemm.plan import GemmShape, blocks

MOVE_CYCLES = 2  # from the last move to the product that may begin: the tensor's memory, and A's
FINISH_CYCLES = (
    4  # of a product beyond the core's: the first request, its answer, the empty array, the answer given
)


@dataclass(frozen=True)
class Band:
    """Some rows of windows of one image, or all of several images.

    Attributes:
        first_image, images, first_row, rows: which.
        windows: how many.
    """

    first_image: int
    images: int
    first_row: int
    rows: int
    windows: int


def bands(convolution: Convolution, *, windows: int) -> Iterator[Band]:
    """The convolution's windows in bands of at most so many.

    Raises:
        ValueError: not even a row of windows fits.
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


def band_shape(convolution: Convolution, band: Band, outputs: int, *, transposed: bool) -> GemmShape:
    """The band's product: its windows times the kernels, or (`transposed`) its part of the weights' gradient."""
    words = convolution.matrix_size[1]
    return GemmShape(words, band.windows, outputs) if transposed else GemmShape(band.windows, words, outputs)


def transform_cycles(convolution: Convolution, band: Band, *, side: int) -> int:
    """Moves of a band: every row of a window takes its own."""
    return band.windows * convolution.kernel[0] * blocks(convolution.run, side)


@dataclass(frozen=True)
class BandTimes:
    """When the unit does what, in cycles from the first band's command.

    Attributes:
        starts: of each band's product. finished: of each.
        waits: how long each product waited for its band, after the one before.
    """

    starts: tuple[int, ...]
    finished: tuple[int, ...]
    waits: tuple[int, ...]


def band_times(transforms: Sequence[int], products: Sequence[int]) -> BandTimes:
    """The times of bands from the cycles of their transformations and of their products on the core."""
    starts: list[int] = []
    finished: list[int] = []
    waits: list[int] = []
    begin = 0
    for number, (transform, product) in enumerate(zip(transforms, products, strict=True)):
        if number > 1:
            begin = max(begin, finished[number - 2] + 1)
        filled = begin + transform + MOVE_CYCLES
        free = finished[-1] + 1 if finished else 0
        starts.append(max(filled, free))
        waits.append(starts[-1] - free)
        finished.append(starts[-1] + product + FINISH_CYCLES)
        begin += transform + 1
    return BandTimes(tuple(starts), tuple(finished), tuple(waits))


def _times(
    convolution: Convolution, outputs: int, *, side: int, dataflow: str, windows: int, transposed: bool
) -> tuple[BandTimes, list[GemmShape]]:
    found = list(bands(convolution, windows=windows))
    shapes = [band_shape(convolution, band, outputs, transposed=transposed) for band in found]
    transforms = [transform_cycles(convolution, band, side=side) for band in found]
    products = [gemm.block_load_cycles(shape, side=side, dataflow=dataflow) for shape in shapes]
    return band_times(transforms, products), shapes


def convolution_cycles(
    convolution: Convolution,
    outputs: int,
    *,
    side: int,
    dataflow: str,
    windows: int,
    transposed: bool = False,
) -> int:
    """Cycles of a convolution to `outputs` channels, or of its weights' gradient, from the first command to the end.

    Args:
        windows: the most of a band.
    """
    options = {"side": side, "dataflow": dataflow, "windows": windows, "transposed": transposed}
    return _times(convolution, outputs, **options)[0].finished[-1]  # type: ignore[arg-type]


def difference_terms(
    convolution: Convolution,
    outputs: int,
    *,
    side: int,
    dataflow: str,
    windows: int,
    transposed: bool = False,
) -> dict[str, int]:
    """Cycles beyond Equation 5 for the whole product by reason; they add up to the difference."""
    options = {"side": side, "dataflow": dataflow, "windows": windows, "transposed": transposed}
    times, shapes = _times(convolution, outputs, **options)  # type: ignore[arg-type]
    whole = Band(0, convolution.images, 0, convolution.out_size[0], convolution.matrix_size[0])
    stated = gemm.ppo_cycles(
        band_shape(convolution, whole, outputs, transposed=transposed), side=side, dataflow=dataflow
    )
    count = len(shapes)
    return {
        "first band": times.waits[0],
        "waits": sum(times.waits[1:]),
        "bands": sum(gemm.ppo_cycles(s, side=side, dataflow=dataflow) for s in shapes) - stated,
        "handover": count * (FINISH_CYCLES - 1) + count - 1,
    }
