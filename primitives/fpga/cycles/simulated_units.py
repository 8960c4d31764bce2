"""Clock cycles of the learner's hardware units, from simulations.

Cycles depend only on sizes. Each distinct size is simulated once, and its cycles are kept on disk under a hash of the
hardware's sources, so that a gradient step with known sizes needs no simulation.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache as remember
from typing import Any

import numpy as np

from placerl.primitives.fpga.cycles.fixar import ArrayModel, LayerProduct
from placerl.primitives.fpga.cycles.gemm import best_dataflow
from placerl.primitives.fpga.cycles.learner import Pass
from placerl.primitives.fpga.cycles.simulated_once import SimulatedOnce
from placerl.primitives.fpga.gemm.plan import GemmShape, blocks
from placerl.primitives.fpga.simulation.base import LIMIT_CYCLES


def _kept(module: str, sizes: Any, simulate: Callable[[], int]) -> int:
    """Return the cycles that a block's simulation gives for `sizes`, simulated once; see `SimulatedOnce`."""
    return int(SimulatedOnce(f"placerl.primitives.fpga.{module}", lambda _: [simulate()])(sizes))


class GemmUnit:
    """The compute unit of the learner: a systolic core with its memories, simulated by Verilator.

    A product that does not fit the memories is divided along its first and its inner dimension, and the parts
    run one after another.

    Args:
        side: P, rows and columns of the array.
        memory_blocks: P x P blocks in the memory of each operand and of the product.
        accumulator_depth: most vectors that may stream past a stationary block.
    """

    def __init__(self, *, side: int = 16, memory_blocks: int = 4096, accumulator_depth: int = 2048):
        self.side, self.memory_blocks, self.accumulator_depth = side, memory_blocks, accumulator_depth
        self._timer: Any = None
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
        """Return the simulated cycles of a product of this shape."""
        return sum(self._part_cycles(part) for _, _, part in self.parts(shape))

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

        def simulate() -> int:
            fields = {name: [value] for name, value in command.items()}
            run = _transform(self.side).run({"commands": fields}, {"moves": moves})
            return int(run.output_cycles["moves"][-1] - run.input_cycles["commands"][0]) + MOVE_CYCLES

        return _kept("cycles.convolution", (self.side, *command.values()), simulate)

    def _part_cycles(self, part: GemmShape) -> int:
        dataflow = self.dataflow(part)
        sizes = (self.side, part.a, part.b, part.c, dataflow)
        return _kept("gemm.timer", sizes, lambda: self._timed(part, dataflow))

    def _timed(self, part: GemmShape, dataflow: str) -> int:
        from placerl.primitives.fpga import simulation
        from placerl.primitives.fpga.gemm.plan import command_fields
        from placerl.primitives.fpga.gemm.timer import GemmTimer

        if self._timer is None:
            self._timer = simulation.compiled(GemmTimer(side=self.side))
        fields = command_fields(part, side=self.side, dataflow=dataflow)
        command = {name: np.array([value]) for name, value in fields.items()}
        run = self._timer.run({"commands": {"gemm": command, "transposed_a": [0]}}, {"finished": 1})
        return int(run.outputs["finished"]["cycles"][0])

    def multiply(self, a: Any, b: Any) -> Any:
        """Return the exact product (M, N) int64 of integers (M, K) and (K, N), computed by the simulated unit."""
        shape = GemmShape(a.shape[0], a.shape[1], b.shape[1])
        product = np.zeros((shape.a, shape.c), np.int64)
        for rows, inner, part in self.parts(shape):
            outcome = self.simulated.multiply(a[rows, inner], b[inner], dataflow=self.dataflow(part))
            product[rows] += outcome.product
        return product


@remember
def _transform(lanes: int) -> Any:
    from placerl.primitives.fpga import simulation
    from placerl.primitives.fpga.convolution.layout_transform import LayoutTransform

    return simulation.compiled(LayoutTransform(lanes=lanes))


@remember
def _sequencer() -> Any:
    from placerl.primitives.fpga import simulation
    from placerl.primitives.fpga.vector.stream_sequencer import StreamSequencer

    return simulation.compiled(StreamSequencer())


def sequence_cycles(words: int, latency: int) -> int:
    """Return the simulated cycles that a stream or reduction unit takes for a tensor.

    Args:
        words: memory words of the tensor.
        latency: cycles from the unit's last input to its last result.
    """

    def simulate() -> int:
        run = _sequencer().run({"commands": {"words": [words], "latency": [latency]}}, {"done": 1})
        return int(run.output_cycles["done"][0] - run.input_cycles["commands"][0])

    return _kept("vector.stream_sequencer", (words, latency), simulate)


def stalled_after(expected_cycles: int) -> int:
    """Return after how many cycles a simulation counts as stalled that a closed form expects to take so many."""
    return max(LIMIT_CYCLES, 2 * expected_cycles)


@remember
def _pipeline_timer(topology: Any) -> Any:
    from placerl.primitives.fpga import simulation
    from placerl.primitives.fpga.learner_pipeline.timer import PipelineTimer

    return simulation.compiled(PipelineTimer(topology))


def pass_cycles(work: Pass, *, samples: int, update: int) -> int:
    """Return the simulated cycles of a pass, in which a learner pipeline processes a batch and updates the weights.

    Args:
        work: the layers of the pass.
        samples: samples per pipeline.
        update: cycles of the update.
    """
    from placerl.primitives.fpga.cycles.learner import map_cycles
    from placerl.primitives.fpga.learner_pipeline.timer import command_fields, topology_of

    expected = map_cycles(work, samples=samples, pipelines=1) + update
    fields = command_fields(work, samples=samples, update=update)

    def simulate() -> int:
        commands = {name: np.array([value]) for name, value in fields.items()}
        timer = _pipeline_timer(topology_of(work))
        run = timer.run({"commands": commands}, {"cycles": 1}, limit_cycles=stalled_after(expected))
        return int(run.outputs["cycles"][0])

    others = {"loss": work.loss_cycles, "policy": work.policy}
    return _kept("learner_pipeline.timer", {**fields, **others}, simulate)


@remember
def _array_timer(side: int) -> Any:
    from placerl.primitives.fpga import simulation
    from placerl.primitives.fpga.adaptive_array.timer import AdaptiveTimer

    return simulation.compiled(AdaptiveTimer(side=side))


def array_cycles(products: Sequence[LayerProduct], array: ArrayModel) -> int:
    """Return the simulated cycles of products on FIXAR's adaptive array, which run one after another.

    Args:
        products: the products' sizes, in order.
        array: the accelerator, of which the size and the width of activations are used.
    """
    from placerl.primitives.fpga.adaptive_array.timer import command_fields

    layers = [
        command_fields(
            product.outputs,
            product.inputs,
            product.vectors,
            cores=array.cores,
            side=array.side,
            inference=product.inference,
            halves=array.halves,
        )
        for product in products
    ]

    def simulate() -> int:
        commands = {name: np.array([layer[name] for layer in layers]) for name in layers[0]}
        run = _array_timer(array.side).run({"commands": commands}, {"cycles": len(layers)})
        return int(run.outputs["cycles"].sum())

    return _kept("adaptive_array.timer", (array.side, layers), simulate)
