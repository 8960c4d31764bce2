"""PPO's accelerator for images: one float32 compute unit with the layout transformation, for a network of convolutions.

Policy and value share all layers but the last, whose outputs are those of both (PPO 5.1). As in
`fpga.ppo_accelerator` the host computes the losses' gradients with respect to the outputs. Tensors are stored with the
channels of a pixel next to each other, in lines of P numbers. The layout transformation turns bands of them into
matrices, whose rows are windows, while the array works on the band before (PPO 3.2.1):

    forward   Z = T W               T: windows of the inputs, with a column of ones for the biases
    backward  G = T_d W'            T_d: windows of the dilated gradients; W': weights of rotated kernels, transposed
    weights   dW = T^T D            D: gradients of the outputs; the bands' products are added up

A fully connected layer is a convolution of one pixel. Golden model: the tests' `GoldenImages`. Cycles:
`cycles.convolutional_accelerator`.
"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.compute_unit.row_ports import read_row, transpose_request, write_row
from placerl.primitives.fpga.compute_unit.weight_banks import BankedBuffer
from placerl.primitives.fpga.convolution.row_mover import RowMover, moved_line
from placerl.primitives.fpga.convolution.step import LINE_BITS, ProductKind, ProductStep, TransformStep
from placerl.primitives.fpga.convolution.step_queue import StepQueue
from placerl.primitives.fpga.convolution.transform_path import TransformPath
from placerl.primitives.fpga.export.platform import shared
from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.floating_point.arithmetic import Add
from placerl.primitives.fpga.floating_point.words import WORD_BITS, delayed
from placerl.primitives.fpga.gemm.arithmetic import FLOAT32
from placerl.primitives.fpga.gemm.control import INDEX_BITS, Axis, Dataflow
from placerl.primitives.fpga.gemm.core import GemmCore
from placerl.primitives.fpga.gemm.matrix_buffer import BlockedBuffer
from placerl.primitives.fpga.gemm.result_buffer import ResultBuffer
from placerl.primitives.fpga.ppo_accelerator import adam_rows, gradient_norm
from placerl.primitives.fpga.ppo_accelerator.adam_rows import AdamRows
from placerl.primitives.fpga.ppo_accelerator.gradient_norm import PARTS, GradientNorm
from placerl.primitives.fpga.ppo_accelerator.row_programs import (
    ActivationLane,
    DerivativeLane,
    activation_name,
    activation_program,
    derivative_program,
    row_cycles,
)

CYCLE_BITS = 40


class ImageMemory(enum.Enum, shape=2):  # type: ignore[call-arg]
    """A memory that the host writes: the tensors, the weights, or Adam's moments."""

    TENSORS = 0
    WEIGHTS = 1
    MEANS = 2
    SQUARES = 3


class BandAdd(Add):
    """Adds the weights' gradients of bands; a class of its own, so that an export writes its module once."""


@dataclass(frozen=True)
class ImageSizes:
    """The sizes of the accelerator's memories.

    Attributes:
        side: P, rows and columns of the array, a power of two.
        tensor_lines: lines of P numbers for all tensors of a mini-batch.
        window_blocks, delta_blocks: blocks of P x P for two bands of windows, and of the outputs' gradients.
        weight_blocks: blocks of the weights.
        result_blocks: blocks of a product.
        transforms, products: steps of the program.
        relu: whether the activation function is ReLU; otherwise tanh.
        accumulator_depth: most vectors that stream in a pass of WS or IS.
        clips: whether gradients are clipped by their norm.
    """

    side: int
    tensor_lines: int
    window_blocks: int
    delta_blocks: int
    weight_blocks: int
    result_blocks: int
    transforms: int
    products: int
    relu: bool = True
    accumulator_depth: int = 1024
    clips: bool = False


def flush_cycles(sizes: ImageSizes) -> dict[str, int]:
    """Return the cycles that the accelerator waits after a product's last row was read, until it is written, by kind.

    With clipping, a gradient counts as written once its squares are in the sum.
    """
    return {
        **row_cycles(sizes.relu),
        "ACCUMULATE": 1 + Add.latency + sizes.clips * gradient_norm.latency(sizes.side),
        "APPLY": 1 + adam_rows.latency(sizes.clips),
    }


class UnitState(enum.Enum):
    """The state of the compute unit: idle, computing a product, or moving its rows."""

    IDLE = 0
    PRODUCT = 1
    ROWS = 2


class ConvolutionalAccelerator(wiring.Component):
    """Trains a network of convolutions, step by step of a program that the host has loaded.

    Ports (streams, unless stated otherwise):
        transforms, products: In: a `step` of the program, at `index`.
        runs: In: a run of `transforms` steps of the transformation from `first_transform` on, and of `products` from
            `first_product` on. finished: Out(CYCLE_BITS): its cycles.
        writes: In: the P `words` of row `row` of block `block` of the weights or of Adam's moments, or of the line
            `block` of the tensors; while no run is in progress.
        outputs: Out(P x 32): rows of Z_L, of consecutive samples.
        reads: In: row `row` of block `block` of the weights, while no run is in progress; rows: Out(P x 32).
        rate, root: In(32), not streams: Adam's `corrections` in float32, constant in a run.

    With `clips` also, not streams, and Adam's step is a run of its own:
        parts: Out(PARTS x 32): the sums of the squares of the gradients of the last run, until the next one begins.
        scale: In(32): what Adam's step multiplies gradients by, constant in a run.
    """

    def __init__(self, sizes: ImageSizes):
        self.sizes = sizes
        side = sizes.side
        self.core = GemmCore(
            side=side,
            width=WORD_BITS,
            accumulator_width=WORD_BITS,
            accumulator_depth=sizes.accumulator_depth,
            block_load=True,
            float32=True,
        )
        self.queues = (
            StepQueue(TransformStep, steps=sizes.transforms),
            StepQueue(ProductStep, steps=sizes.products),
        )
        words = data.ArrayLayout(WORD_BITS, side)
        place = {"block": LINE_BITS, "row": range(side)}
        run = {
            "first_transform": range(sizes.transforms),
            "transforms": range(sizes.transforms + 1),
            "first_product": range(sizes.products),
            "products": range(sizes.products + 1),
        }
        super().__init__(
            {
                "transforms": In(stream.Signature(self.queues[0].program.payload.shape())),
                "products": In(stream.Signature(self.queues[1].program.payload.shape())),
                "runs": In(stream.Signature(data.StructLayout(run))),
                "finished": Out(stream.Signature(CYCLE_BITS)),
                "writes": In(
                    stream.Signature(data.StructLayout({**place, "memory": ImageMemory, "words": words}))
                ),
                "outputs": Out(stream.Signature(words)),
                "reads": In(stream.Signature(data.StructLayout(place))),
                "rows": Out(stream.Signature(words)),
                "rate": In(WORD_BITS),
                "root": In(WORD_BITS),
                **(
                    {"scale": In(WORD_BITS), "parts": Out(data.ArrayLayout(WORD_BITS, PARTS))}
                    if sizes.clips
                    else {}
                ),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        sizes, side = self.sizes, self.sizes.side
        m.submodules.core = self.core
        m.submodules.result = self.result = ResultBuffer(core=self.core, blocks=sizes.result_blocks)
        m.submodules.transform = self.transform = TransformPath(side=side)
        m.submodules.mover = self.mover = RowMover(side=side)
        m.submodules.adam = self.adam = AdamRows(
            side=side, blocks=sizes.weight_blocks, clips=sizes.clips, networks=1
        )
        banked = {"side": side, "width": WORD_BITS, "row_cycles": FLOAT32.row_cycles}
        m.submodules.windows = self.windows = BankedBuffer(**banked, blocks=sizes.window_blocks)
        m.submodules.weights = self.weights = BankedBuffer(**banked, blocks=sizes.weight_blocks)
        m.submodules.deltas = self.deltas = BlockedBuffer(
            side=side, width=WORD_BITS, blocks=sizes.delta_blocks
        )
        line = side * WORD_BITS
        # The tensors are stored twice: lines are read for the transformation and for derivatives at the same time.
        m.submodules.tensors = self.tensors = Ram(width=line, depth=sizes.tensor_lines)
        m.submodules.activations = self.activations = Ram(width=line, depth=sizes.tensor_lines)
        m.submodules.gradient = self.gradient = Ram(width=line, depth=sizes.weight_blocks * side)
        state = Signal(UnitState)
        busy = self._sequence(m, state)
        self._transform(m)
        self._product(m, state)
        self._rows(m, platform, state)
        self._host(m, busy)
        return m

    def _sequence(self, m: Module, state: Signal) -> Any:
        """Run the steps of both programs; returns whether a run is in progress."""
        transforms, products = self.queues
        m.submodules.transform_queue, m.submodules.product_queue = transforms, products
        for queue, other, stored in (
            (transforms, products, self.transforms),
            (products, transforms, self.products),
        ):
            wiring.connect(m, wiring.flipped(stored), queue.program)
            m.d.comb += queue.others.eq(other.done)
        runs, finished, running, cycles = self.runs, self.finished, Signal(), Signal(CYCLE_BITS)
        begins = runs.valid & runs.ready
        m.d.comb += [
            runs.ready.eq(~running & ~finished.valid & ~self.rows.valid & ~self.reads.valid),
            *(queue.begin.eq(begins) for queue in self.queues),
            transforms.first.eq(runs.payload.first_transform),
            transforms.count.eq(runs.payload.transforms),
            products.first.eq(runs.payload.first_product),
            products.count.eq(runs.payload.products),
            transforms.idle.eq(self.transform.idle),
            products.idle.eq(state == UnitState.IDLE),
            self.transform.step.eq(transforms.step),
            self.transform.start.eq(transforms.start),
            finished.payload.eq(cycles),
        ]
        m.d.sync += cycles.eq(cycles + running)
        with m.If(finished.ready):
            m.d.sync += finished.valid.eq(0)
        with m.If(begins):
            m.d.sync += [running.eq(1), cycles.eq(0)]
        with m.Elif(running & ~transforms.busy & ~products.busy):
            m.d.sync += [running.eq(0), finished.valid.eq(1)]
        return running

    def _transform(self, m: Module) -> None:
        """Connect the transformation to the tensors and to the memories that it fills."""
        path = self.transform
        m.d.comb += [
            self.tensors.read_enable.eq(path.read_enable),
            self.tensors.read_address.eq(path.read_line),
            path.line.as_value().eq(self.tensors.read_data),
            self.windows.write_mask.eq(-1),
        ]
        for memory, chosen in ((self.windows, ~path.to_deltas), (self.deltas, path.to_deltas)):
            m.d.comb += [
                memory.write_enable.eq(path.written & chosen),
                *write_row(memory, path.block, path.row, path.words),
            ]

    def _product(self, m: Module, state: Signal) -> None:
        """Connect the core to its operands: A are the windows; B the weights, or the deltas (ACCUMULATE)."""
        core, result, step, start = self.core, self.result, self.queues[1].step, self.queues[1].start
        windows, weights, deltas = self.windows, self.weights, self.deltas
        gathers, derives = step.kind == ProductKind.ACCUMULATE, step.kind == ProductKind.DERIVE
        computes, entered = state == UnitState.PRODUCT, Signal()
        stationary_a = computes & (step.gemm.dataflow == Dataflow.WS)
        stationary_b = computes & (step.gemm.dataflow == Dataflow.IS)
        m.d.comb += [
            core.command.valid.eq(computes & ~entered),
            core.command.payload.eq(step.gemm),
            core.ready.eq(1),
            result.command.eq(step.gemm),
            result.start.eq(start),
            windows.request.eq(core.a),
            windows.base.eq(step.base_a),
            windows.pitch.eq(step.pitch_a),
            windows.as_blocks.eq(stationary_a),
            windows.flipped.eq(~gathers),
            deltas.request.eq(core.b),
            deltas.base.eq(step.base_b),
            deltas.pitch.eq(step.pitch_b),
            weights.base.eq(step.base_b),
            weights.pitch.eq(step.pitch_b),
            weights.as_blocks.eq(stationary_b),
            weights.flipped.eq(derives),
        ]
        transpose_request(m, gathers, windows.request, core.a)
        with m.If(computes):
            m.d.comb += weights.request.eq(core.b)
            with m.If(derives):
                tap = Signal(INDEX_BITS)
                m.d.comb += [
                    tap.eq(core.b.block_row >> step.tap_shift),
                    weights.request.axis.eq(Mux(core.b.axis == Axis.ROW, Axis.COLUMN, Axis.ROW)),
                    weights.request.block_row.eq(core.b.block_column - tap * step.tap_rows),
                    weights.request.block_column.eq(core.b.block_row - (tap << step.tap_shift)),
                ]
            with m.If(core.command.ready & core.command.valid):
                m.d.sync += entered.eq(1)
            with m.If(entered & core.idle):
                m.d.sync += [state.eq(UnitState.ROWS), entered.eq(0)]
        with m.If(start):
            m.d.sync += state.eq(Mux(step.kind == ProductKind.APPLY, UnitState.ROWS, UnitState.PRODUCT))
        m.d.comb += [
            core.a_data.as_value().eq(windows.data.as_value()),
            core.b_data.as_value().eq(Mux(gathers, deltas.data.as_value(), weights.data.as_value())),
        ]
        for k, word in enumerate(core.weights):
            m.d.comb += word.eq(
                Mux(step.gemm.dataflow == Dataflow.WS, windows.weights[k], weights.weights[k])
            )
            m.d.comb += result.tile_sums[k].eq(core.tile_sums[k])
        for name in ("tile_done", "column_sums", "column_done"):
            m.d.comb += getattr(result, name).eq(getattr(core, name))

    def _rows(self, m: Module, platform: Any, state: Signal) -> None:
        """Move the product's rows: to the host, the tensors, the sums of gradients, or Adam."""
        mover, step, outputs = self.mover, self.queues[1].step, self.outputs
        kind = step.kind
        cycles = flush_cycles(self.sizes)
        flush = Signal(range(max(cycles.values()) + 1))
        with m.Switch(kind):
            for name, count in cycles.items():
                with m.Case(getattr(ProductKind, name)):
                    m.d.comb += flush.eq(count)
        sends, wanted = kind == ProductKind.OUTPUT, mover.wanted
        m.d.comb += [
            mover.step.eq(step),
            mover.start.eq(self.queues[1].start),
            mover.works.eq(state == UnitState.ROWS),
            mover.flush.eq(flush),
            mover.free.eq(~sends | ~outputs.valid | outputs.ready),
            self.result.request.valid.eq(mover.moves),
            self.result.request.axis.eq(Axis.ROW),
            self.result.request.block_row.eq(wanted.block),
            self.result.request.offset.eq(wanted.row),
            self.activations.read_enable.eq(mover.moves),
            self.activations.read_address.eq(wanted.activation),
            self.gradient.read_enable.eq(mover.moves),
            self.gradient.read_address.eq((step.base_gradient + wanted.block) * self.sizes.side + wanted.row),
        ]
        with m.If((state == UnitState.ROWS) & mover.ended & ~outputs.valid):
            m.d.sync += state.eq(UnitState.IDLE)
        with m.If(mover.moves & sends):
            m.d.sync += outputs.valid.eq(1)
        with m.Elif(outputs.ready):
            m.d.sync += outputs.valid.eq(0)
        words = [word.as_value()[:WORD_BITS] for word in self.result.data]
        m.d.comb += outputs.payload.as_value().eq(Cat(words))
        self._paths(m, platform, words, kind)

    def _paths(self, m: Module, platform: Any, words: list[Any], kind: Any) -> None:
        """Add the lanes through which rows go, which arrive a cycle after they were wanted, and their writes."""
        side, step, adam = self.sizes.side, self.queues[1].step, self.adam
        name = activation_name(self.sizes.relu)
        valid = delayed(m, self.mover.moves, 1)
        place = data.View(moved_line(side), delayed(m, self.mover.wanted.as_value(), 1))
        kept, old = self.gradient.read_data, self.activations.read_data
        activated, derived, sums = [], [], []
        for j, word in enumerate(words):
            part = slice(j * WORD_BITS, (j + 1) * WORD_BITS)
            lane, m.submodules[f"activation_{j}"] = shared(platform, ActivationLane, relu=self.sizes.relu)
            m.d.comb += lane.inputs[0].eq(word)
            activated.append(lane.results[0])
            lane, m.submodules[f"derivative_{j}"] = shared(platform, DerivativeLane, relu=self.sizes.relu)
            m.d.comb += [lane.inputs[0].eq(word), lane.inputs[1].eq(old[part])]
            derived.append(lane.results[0])
            add, m.submodules[f"add_{j}"] = shared(platform, BandAdd)
            m.d.comb += [add.operands[0].eq(word), add.operands[1].eq(Mux(step.first, 0, kept[part]))]
            sums.append(add.result)
        for chosen, latency, results in (
            (ProductKind.ACTIVATE, activation_program(name).latency, activated),
            (ProductKind.DERIVE, derivative_program(name).latency, derived),
        ):
            line = delayed(m, place.line, latency)
            with m.If(delayed(m, valid & (kind == chosen), latency)):
                self._write_line(m, line, Cat(results))
        m.d.comb += [
            self.gradient.write_enable.eq(delayed(m, valid & (kind == ProductKind.ACCUMULATE), Add.latency)),
            self.gradient.write_address.eq(
                delayed(m, delayed(m, self.gradient.read_address, 1), Add.latency)
            ),
            self.gradient.write_data.eq(Cat(sums)),
            adam.valid.eq(valid & (kind == ProductKind.APPLY)),
            adam.block.eq(step.base_gradient + place.block),
            adam.row.eq(place.row),
            adam.gradients[0].as_value().eq(kept),
            adam.weights.as_value().eq(self.weights.data.as_value()),
            adam.rate.eq(self.rate),
            adam.root.eq(self.root),
        ]
        if self.sizes.clips:
            m.submodules.norm = norm = GradientNorm(side=side)
            m.d.comb += [
                adam.scale.eq(self.scale),
                norm.valid.eq(self.gradient.write_enable & step.last),
                norm.words.as_value().eq(Cat(sums)),
                norm.clear_0.eq(self.runs.valid & self.runs.ready),
                self.parts.as_value().eq(norm.parts_0.as_value()),
            ]

    def _write_line(self, m: Module, line: Any, words: Any) -> None:
        for memory in (self.tensors, self.activations):
            m.d.comb += [
                memory.write_enable.eq(1),
                memory.write_address.eq(line),
                memory.write_data.eq(words),
            ]

    def _host(self, m: Module, busy: Any) -> None:
        """Take the host's rows, and give rows of weights: to the host, and to Adam."""
        writes, payload, adam, weights = self.writes, self.writes.payload, self.adam, self.weights
        taken = writes.valid & writes.ready
        moment = (payload.memory == ImageMemory.MEANS) | (payload.memory == ImageMemory.SQUARES)
        m.d.comb += [
            writes.ready.eq(~busy),
            adam.load.valid.eq(taken & moment),
            adam.load.payload.moment.eq(payload.memory == ImageMemory.SQUARES),
            adam.load.payload.block.eq(payload.block),
            adam.load.payload.row.eq(payload.row),
            adam.load.payload.words.as_value().eq(payload.words.as_value()),
        ]
        with m.If(taken & (payload.memory == ImageMemory.TENSORS)):
            self._write_line(m, payload.block, payload.words.as_value())
        m.d.comb += [
            weights.write_mask.eq(-1),
            weights.write_enable.eq(adam.written),
            *write_row(weights, adam.to_block, adam.to_row, adam.new_weights),
        ]
        with m.If(taken & (payload.memory == ImageMemory.WEIGHTS)):
            m.d.comb += [
                weights.write_enable.eq(1),
                *write_row(weights, payload.block, payload.row, payload.words),
            ]
        reads, rows, mover = self.reads, self.rows, self.mover
        reading = reads.valid & reads.ready
        m.d.comb += [
            reads.ready.eq(~busy & (~rows.valid | rows.ready)),
            rows.payload.as_value().eq(weights.data.as_value()),
        ]
        applies = mover.moves & (self.queues[1].step.kind == ProductKind.APPLY)
        with m.If(reading | applies):
            block = Mux(busy, mover.wanted.block, reads.payload.block)
            row = Mux(busy, mover.wanted.row, reads.payload.row)
            base = Mux(busy, self.queues[1].step.base_gradient, Const(0))
            m.d.comb += read_row(weights, block, row, base)
        with m.If(reading):
            m.d.sync += rows.valid.eq(1)
        with m.Elif(rows.ready):
            m.d.sync += rows.valid.eq(0)
