"""Clock cycles of a convolution on the convolution unit (`tests.primitives.fpga.convolution.unit`), in closed form.

The unit computes a convolution in bands, which are some rows of its Toeplitz matrix each. While a band is multiplied,
the next one is transformed. PPO uses Equation 5 for the whole product and assumes that the transformation is hidden.
The hardware here (the RTL) differs as follows (`difference_terms`, exact):

- first band: its transformation cannot be hidden: one cycle per P words of a window's row.
- waits: a later band's transformation may take longer than the product before it.
- bands: each band is a product of its own, with its own fill, and with partly filled blocks of P windows.
- handover: cycles from a product's last sum to the next one's first operand, and those by which its last sum is later
  than by Equation 5 (`gemm.difference_terms`: fill and drain).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from placerl.primitives.fpga.convolution.layout_transform import Convolution
from placerl.primitives.fpga.cycles import gemm
from placerl.primitives.fpga.cycles.convolution import MOVE_CYCLES, Band, bands, transform_cycles
from placerl.primitives.fpga.gemm.plan import GemmShape

FINISH_CYCLES = (
    4  # of a product beyond the core's: the first request, its answer, the empty array, the answer given
)


def whole_band(convolution: Convolution) -> Band:
    """Return the band that is a whole convolution."""
    return Band(0, convolution.images, 0, convolution.out_size[0], convolution.matrix_size[0])


def band_shape(convolution: Convolution, band: Band, outputs: int, *, transposed: bool) -> GemmShape:
    """Return the sizes of a band's matrix product.

    Args:
        convolution, band: the convolution and the band.
        outputs: number of output channels.
        transposed: False: the band's windows times the kernels. True: the band's part of the weights' gradient.
    """
    words = convolution.matrix_size[1]
    return GemmShape(words, band.windows, outputs) if transposed else GemmShape(band.windows, words, outputs)


@dataclass(frozen=True)
class BandTimes:
    """The start and end of the matrix product of each band of a convolution, in cycles from the first band's command.

    Attributes:
        starts: cycle in which each product starts.
        finished: cycle in which each product ends.
        waits: cycles that each product waited for its band after the previous product.
    """

    starts: tuple[int, ...]
    finished: tuple[int, ...]
    waits: tuple[int, ...]


def band_times(transforms: Sequence[int], products: Sequence[int]) -> BandTimes:
    """Return when the matrix products of a convolution's bands start and end, on the convolution unit.

    Args:
        transforms: cycles of each band's transformation.
        products: cycles of each band's product on the core.
    """
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
    """Return the cycles of a convolution, or of the gradient of its weights, from the first command to the end.

    Args:
        outputs: number of output channels.
        side: P, rows and columns of the array.
        dataflow: what stays in the array: "NS" (only sums), "WS" (weights) or "IS" (inputs).
        windows: most windows of a band, which is a part of the convolution that is computed at once.
        transposed: whether the gradient of the weights is computed.
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
    """Return the cycles beyond PPO's Equation 5 for the whole product, by reason; they add up to the difference.

    Args:
        outputs: number of output channels.
        side: P, rows and columns of the array.
        dataflow: what stays in the array: "NS" (only sums), "WS" (weights) or "IS" (inputs).
        windows: most windows of a band, which is a part of the convolution that is computed at once.
        transposed: whether the gradient of the weights is computed.

    Returns:
        The cycles for "first band" (transforming it), "waits" (for later bands), "bands" (each is a product of its
        own) and "handover" (between products). The top of this module explains them.
    """
    options = {"side": side, "dataflow": dataflow, "windows": windows, "transposed": transposed}
    times, shapes = _times(convolution, outputs, **options)  # type: ignore[arg-type]
    stated = gemm.ppo_cycles(
        band_shape(convolution, whole_band(convolution), outputs, transposed=transposed),
        side=side,
        dataflow=dataflow,
    )
    count = len(shapes)
    core = gemm.difference_terms(shapes[0], side=side, dataflow=dataflow, block_load=True)
    return {
        "first band": times.waits[0],
        "waits": sum(times.waits[1:]),
        "bands": sum(gemm.ppo_cycles(s, side=side, dataflow=dataflow) for s in shapes) - stated,
        "handover": count * (FINISH_CYCLES + core["fill and drain"]) + count - 1,
    }
