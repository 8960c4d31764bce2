"""Simulates the rows of `cycles.difference_table`: the papers' formulas, simulated cycles, and the reasons between."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from placerl.primitives.fpga.compute_unit.simulation import SimulatedUnit
from placerl.primitives.fpga.convolution.layout_transform import Convolution
from placerl.primitives.fpga.cycles import gemm, layout
from placerl.primitives.fpga.cycles.blocks import gemm as gemm_block
from placerl.primitives.fpga.cycles.difference_table import (
    PASSES,
    CycleDifference,
    learner_differences,
    replay_difference,
    write,
)
from placerl.primitives.fpga.gemm.arithmetic import FLOAT32
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape, blocks
from placerl.primitives.fpga.gemm.timer import GemmTimer
from placerl.primitives.sum_tree import fpga_backend
from tests.primitives.fpga.convolution.simulation import SimulatedConvolution
from tests.primitives.fpga.cycles.convolution import band_shape, whole_band
from tests.primitives.fpga.cycles.convolution import difference_terms as convolution_terms
from tests.primitives.fpga.gemm.simulation import SimulatedGemm
from tests.primitives.fpga.interpreter import interpreted

SIDE = 4
SHAPES = (GemmShape(8, 8, 8), GemmShape(9, 7, 5), GemmShape(3, 10, 2), GemmShape(1, 12, 1))
CONVOLUTIONS = ((Convolution(2, 8, 8, (3, 3), 1, 1, 2), 8), (Convolution(3, 9, 9, (4, 4), 2, 0, 2), 3))

ReplayTree = tuple[int, int, int]
"""A tree of a replay: (fanout, capacity, banks)."""
# Depths 4 to 8, fanouts that are no power of two, capacities that fill no level.
TREES: tuple[ReplayTree, ...] = ((4, 4**8, 1), (16, 10_000, 1), (3, 1000, 1), (4, 4**5, 4), (5, 2000, 3))
BATCH_SIZES = (32, 1000)

PIPELINES = ((1, 32), (2, 128))


def _size(shape: GemmShape) -> str:
    return f"{shape.a} x {shape.b} x {shape.c}"


def layout_terms(shape: GemmShape, *, side: int, dataflow: str) -> dict[str, int]:
    """Return the stalls of the compute unit beyond PPO's, by reason; they add up to the difference.

    The stalls are the cycles in which it waits for A, read transposed from the plain layout.

    Args:
        side: P, rows and columns of the array.
        dataflow: what stays in the array: "NS" (only sums), "WS" (weights) or "IS" (inputs).

    Returns:
        The cycles for "whole blocks", "visits", "read latency" and "first block", which `cycles.layout` explains.
    """
    covering = blocks(shape.a, side) * blocks(shape.b, side)
    reads = layout.block_reads(shape, side=side, dataflow=dataflow)
    return {
        "whole blocks": covering * side - layout.ppo_stalls(shape, side=side),
        "visits": (reads - covering) * side,
        "read latency": reads,
        "first block": -(side + 1) if dataflow != "IS" else 0,
    }


def core_differences(shapes: Iterable[GemmShape], side: int = SIDE) -> Iterator[CycleDifference]:
    """Yield how the simulated cycles of the systolic core differ from PPO's Equation 5, in each dataflow.

    The core is simulated with stationary blocks that are loaded row by row, and with blocks that are loaded at once.

    Args:
        shapes: sizes of products.
        side: P, rows and columns of the array.
    """
    shapes = tuple(shapes)
    for block_load in (False, True):
        core = SimulatedGemm(
            side=side, width=4, accumulator_width=12, accumulator_depth=64, block_load=block_load
        )
        for shape in shapes:
            for dataflow in DATAFLOWS:
                options: dict[str, Any] = {"side": side, "dataflow": dataflow}
                yield CycleDifference(
                    f"core, {dataflow}, blocks {'at once' if block_load else 'row by row'}",
                    _size(shape),
                    gemm.ppo_cycles(shape, **options),
                    core.cycles(shape, dataflow=dataflow),
                    gemm.difference_terms(shape, block_load=block_load, **options),
                )


def layout_differences(shapes: Iterable[GemmShape], side: int = SIDE) -> Iterator[CycleDifference]:
    """Yield how the simulated stalls of the plain layout differ from PPO's, which are one cycle per P elements.

    The stalls are the cycles in which the compute unit waits for A, which is read by columns in every dataflow.

    Args:
        shapes: sizes of products.
        side: P, rows and columns of the array.
    """
    unit = SimulatedUnit(
        side=side,
        width=4,
        accumulator_width=12,
        accumulator_depth=64,
        operand_blocks=64,
        result_blocks=64,
        layout="plain",
        start=interpreted,
    )
    for shape in shapes:
        a, b = np.zeros((shape.a, shape.b), np.int64), np.zeros((shape.b, shape.c), np.int64)
        for dataflow in DATAFLOWS:
            stated = layout.ppo_stalls(shape, side=side)
            yield CycleDifference(
                f"stalls of the plain layout, {dataflow}",
                _size(shape),
                stated,
                unit.multiply(a, b, dataflow=dataflow, transposed_a=dataflow == "IS").stalls,
                layout_terms(shape, side=side, dataflow=dataflow),
            )


def float32_layout_differences(shapes: Iterable[GemmShape], side: int = SIDE) -> Iterator[CycleDifference]:
    """Yield how the stalls of the float32 array differ from PPO's, as those of integers do (`layout_differences`).

    They are those of the timer, which tests compare with the whole unit.

    Args:
        shapes: sizes of products.
        side: P, rows and columns of the array.
    """
    timer = interpreted(GemmTimer(side=side, block_load=True, layout="plain", float32=True))
    for shape in shapes:
        for dataflow in DATAFLOWS:
            ((_, stalls),) = gemm_block.simulate(
                lambda: timer, [side], [[shape.a, shape.b, shape.c, dataflow]]
            )
            stated, covering = (
                layout.ppo_stalls(shape, side=side),
                blocks(shape.a, side) * blocks(shape.b, side),
            )
            reads = layout.block_reads(shape, side=side, dataflow=dataflow)
            if dataflow == "NS":
                reads = layout.interleaved_reads(shape, side=side, interleaved=FLOAT32.interleaved)
            terms = {
                "whole blocks": covering * side - stated,
                "visits": (reads - covering) * side,
                "read latency": reads,
                "first block": -(side + 1),
            }
            yield CycleDifference(
                f"stalls of the plain layout, float32, {dataflow}", _size(shape), stated, stalls, terms
            )


def convolution_differences(
    convolutions: Iterable[tuple[Convolution, int]], side: int = SIDE, windows: int = 64
) -> Iterator[CycleDifference]:
    """Yield how the simulated cycles of convolutions differ from PPO's Equation 5, in each dataflow.

    Args:
        convolutions: each convolution with its number of output channels.
        side: P, rows and columns of the array.
        windows: most output pixels of a band. A convolution is computed in bands, one after another.
    """
    unit = SimulatedConvolution(
        side=side,
        width=4,
        accumulator_width=12,
        accumulator_depth=256,
        operand_blocks=1024,
        result_blocks=1024,
        tensor_words=1024,
        start=interpreted,
    )
    for convolution, outputs in convolutions:
        c = convolution
        images = np.zeros((c.images, c.height, c.width, c.channels), np.int64)
        kernels = np.zeros((*c.kernel, c.channels, outputs), np.int64)
        shape = band_shape(c, whole_band(c), outputs, transposed=False)
        for dataflow in DATAFLOWS:
            options: dict[str, Any] = {"dataflow": dataflow, "windows": windows}
            found = unit.forward(images, kernels, stride=c.stride, padding=c.padding, **options)
            yield CycleDifference(
                f"convolution, {dataflow}",
                f"{c.images} of {c.height} x {c.width} x {c.channels}, {c.kernel[0]} x {c.kernel[1]}: {_size(shape)}",
                gemm.ppo_cycles(shape, side=side, dataflow=dataflow),
                found.cycles,
                convolution_terms(convolution, outputs, side=side, **options),
            )


def replay_differences(trees: Iterable[ReplayTree], batch_sizes: Sequence[int]) -> Iterator[CycleDifference]:
    """Yield how the simulated cycles of the replay pipeline differ from MAP's B / S x cycles per request (VI-A2).

    Every tree and batch size is simulated in both forms, wide and narrow, with samples and with updates.

    Args:
        trees: (fanout, capacity, banks S) each.
        batch_sizes: numbers of requests, B.
    """
    for form in fpga_backend.FORMS:
        for fanout, capacity, banks in trees:
            tree = fpga_backend.create(capacity, fanout, form=form, banks=banks)
            assert isinstance(tree, fpga_backend.FpgaSumTree)
            tree.update(np.arange(capacity), np.ones(capacity))
            for batch_size in batch_sizes:
                rng = np.random.default_rng(batch_size)
                for call in ("sample", "update"):
                    yield replay_difference(tree, form, call, batch_size, rng)


def small_cases() -> Iterator[CycleDifference]:
    """Yield the rows for the hardware blocks of PPO, simulated in Amaranth's own simulator."""
    yield from core_differences(SHAPES)
    yield from layout_differences(SHAPES)
    yield from float32_layout_differences(SHAPES)
    yield from convolution_differences(CONVOLUTIONS)


def large_cases() -> Iterator[CycleDifference]:
    """Yield the rows for the hardware blocks of MAP, simulated with Verilator, whose builds take a minute."""
    yield from replay_differences(TREES, BATCH_SIZES)
    yield from learner_differences(PASSES, PIPELINES)


if __name__ == "__main__":
    write([*small_cases(), *large_cases()])
