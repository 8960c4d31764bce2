"""Clock cycles of the learner's hardware units, which simulations counted.

Cycles depend only on sizes. They come from the table of cycles, or from a simulation of each distinct size
(`cycles.timed_block`). Only a sequencer's are a sum so simple that none of its sizes is kept: the tests simulate any.
"""

from collections.abc import Iterable, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np

from placerl.primitives.fpga.cycles.blocks import layout_transform, learner_pipeline
from placerl.primitives.fpga.cycles.gemm import best_dataflow
from placerl.primitives.fpga.cycles.learner import Pass, map_cycles
from placerl.primitives.fpga.cycles.simulated_products import SimulatedProducts
from placerl.primitives.fpga.gemm.plan import GemmShape, blocks

SEQUENCER_CYCLES = 2
"""Cycles of a stream or reduction unit in addition to its words and latency: the address is registered, and the memory
answers one cycle later."""


class GemmUnit:
    """The compute unit of the learner: a systolic core with its memories, simulated by Verilator.

    A product that does not fit the memories is divided along its first and its inner dimension, and the parts
    run one after another.

    Args:
        memory_blocks: P x P blocks in the memory of each operand and of the product.
        accumulator_depth: most vectors that may stream past a stationary block.
    """

    def __init__(self, *, side: int = 16, memory_blocks: int = 4096, accumulator_depth: int = 2048):
        self.side, self.memory_blocks, self.accumulator_depth = side, memory_blocks, accumulator_depth
        self._products = SimulatedProducts(side=side)
        self._simulated: Any = None

    @property
    def simulated(self) -> Any:
        """The simulated unit, which computes products. It is built at first use, which takes minutes at P = 16."""
        if self._simulated is None:
            from placerl.primitives.fpga.compute_unit.simulation import SimulatedUnit

            self._simulated = SimulatedUnit(
                side=self.side,
                operand_blocks=self.memory_blocks,
                result_blocks=self.memory_blocks,
                accumulator_depth=self.accumulator_depth,
            )
        return self._simulated

    def parts(self, shape: GemmShape) -> Iterable[tuple[slice, slice, GemmShape]]:
        """Yield the parts into which a product is divided so that each fits the memories.

        Yields:
            The part's rows of A, its range of the inner dimension, and its sizes.
        """
        side, capacity = self.side, self.memory_blocks
        inner_blocks = max(1, capacity // blocks(shape.c, side))
        inner = min(shape.b, inner_blocks * side, capacity * side)
        row_blocks = max(1, capacity // max(blocks(inner, side), blocks(shape.c, side)))
        rows = min(shape.a, row_blocks * side)
        for row in range(0, shape.a, rows):
            for start in range(0, shape.b, inner):
                part = slice(row, min(row + rows, shape.a)), slice(start, min(start + inner, shape.b))
                sizes = (part[0].stop - part[0].start, part[1].stop - part[1].start)
                yield *part, GemmShape(sizes[0], sizes[1], shape.c)

    def dataflow(self, part: GemmShape) -> str:
        """Return the fastest dataflow for part of a product: "NS" (only sums stay in the array), "WS" or "IS".

        It is "NS" if the accumulators have no room for the sums of the fastest one.

        Args:
            part: sizes of the part, as `parts` gives them.
        """
        best = best_dataflow(part, side=self.side)
        vectors = {"NS": 0, "WS": part.c, "IS": part.a}[best]
        return best if vectors <= self.accumulator_depth else "NS"

    def cycles(self, shape: GemmShape) -> int:
        """Return the cycles of a product of this shape.

        They are the simulated ones of its parts, and for each part that continues the inner dimension those in which
        its sums are added to the ones before, P per cycle.
        """
        cycles = 0
        for _, inner, part in self.parts(shape):
            cycles += self._products.product_cycles(part, side=self.side, dataflow=self.dataflow(part))
            if inner.start:
                cycles += part.a * blocks(part.c, self.side)
        return cycles

    def first_band_cycles(self, windows: Sequence[int]) -> int:
        """Return the simulated cycles until the first band of a convolution is in A's memory.

        A band is a number of rows of the convolution's Toeplitz matrix that fits half of the memory. Later
        bands are transformed during the products of the bands before, which take as long for P or more
        outputs (`cycles.convolution`).

        Args:
            windows: (N, out rows, out columns, C, kernel rows, kernel columns). Stride and padding do not matter: a
                move takes one cycle, wherever its words come from.
        """
        from placerl.primitives.fpga.convolution.layout_transform import Convolution
        from placerl.primitives.fpga.cycles.convolution import MOVE_CYCLES, bands, transform_cycles

        count, rows, columns, channels, *kernel = windows
        height, width = rows + kernel[0] - 1, columns + kernel[1] - 1
        convolution = Convolution(channels, height, width, (kernel[0], kernel[1]), images=count)
        fitting = self.memory_blocks // 2 // blocks(convolution.matrix_size[1], self.side) * self.side
        band = next(bands(convolution, windows=max(fitting, convolution.out_size[1])))
        command = convolution.command(images=band.images, rows=band.rows)
        moves = transform_cycles(convolution, band, side=self.side)
        return int(layout_transform.BLOCK([self.side], [moves, command])) + MOVE_CYCLES

    def multiply(self, a: Any, b: Any) -> Any:
        """Return the exact product (M, N) int64 of integers (M, K) and (K, N), computed by the simulated unit."""
        shape = GemmShape(a.shape[0], a.shape[1], b.shape[1])
        product = np.zeros((shape.a, shape.c), np.int64)
        for rows, inner, part in self.parts(shape):
            outcome = self.simulated.multiply(a[rows, inner], b[inner], dataflow=self.dataflow(part))
            product[rows] += outcome.product
        return product


def sequence_cycles(words: int, latency: int) -> int:
    """Return the cycles that a stream or reduction unit takes for a tensor, of which it reads a word per cycle.

    It is the golden model of `vector.stream_sequencer`.

    Args:
        latency: cycles from the unit's last input to its last result.
    """
    return words + latency + SEQUENCER_CYCLES


def pass_cycles(work: Pass, *, samples: int, update: int) -> int:
    """Return the simulated cycles of a pass, in which a learner pipeline processes a batch and updates the weights."""
    from placerl.primitives.fpga.learner_pipeline.timer import command_fields, topology_of

    expected = map_cycles(work, samples=samples, pipelines=1) + update
    fields = command_fields(work, samples=samples, update=update)
    return int(learner_pipeline.BLOCK(astuple(topology_of(work)), [expected, fields]))
