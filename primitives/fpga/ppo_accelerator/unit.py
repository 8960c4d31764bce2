"""One float32 compute unit of the accelerator: core, memories, and the paths of a product's rows (PPO Fig. 3).

The weights' memory is outside, because two units may share it (PPO 3.3). Golden model: the tests' `GoldenNetwork`.
Cycles: `cycles.ppo_accelerator.step_cycles`.
"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.compute_unit.row_ports import transpose_request
from placerl.primitives.fpga.compute_unit.weight_banks import BankedBuffer
from placerl.primitives.fpga.export.platform import shared
from placerl.primitives.fpga.floating_point.words import WORD_BITS, delayed
from placerl.primitives.fpga.gemm.control import INDEX_BITS, Axis, Dataflow, VectorRequest
from placerl.primitives.fpga.gemm.core import GemmCore
from placerl.primitives.fpga.gemm.result_buffer import ResultBuffer
from placerl.primitives.fpga.ppo_accelerator.row_programs import (
    ActivationLane,
    DerivativeLane,
    activation_name,
    activation_program,
    derivative_program,
    row_cycles,
)
from placerl.primitives.fpga.ppo_accelerator.step import PpoStepKind, Step

ONE = 0x3F800000  # 1.0


class WeightRead(wiring.Signature):
    """The port by which a unit reads the weights: a `BankedBuffer`'s, seen from the unit."""

    def __init__(self, side: int):
        super().__init__(
            {
                "request": Out(VectorRequest),
                "base": Out(INDEX_BITS),
                "pitch": Out(INDEX_BITS),
                "as_blocks": Out(1),
                "flipped": Out(1),
                "data": In(data.ArrayLayout(WORD_BITS, side)),
                "weights": In(signed(WORD_BITS)).array(side * side),
            }
        )


class RowState(enum.Enum):
    """The state of a unit: idle, computing a product, moving its rows, or waiting for the last row's results."""

    IDLE = 0
    PRODUCT = 1
    ROWS = 2
    FLUSH = 3


def row_write(side: int) -> data.StructLayout:
    """Return the layout of a row of P words for a memory: block, row and words."""
    return data.StructLayout(
        {"block": INDEX_BITS, "row": range(side), "words": data.ArrayLayout(WORD_BITS, side)}
    )


@dataclass(frozen=True)
class Arrived:
    """A row of the product that was read, and what belongs to it.

    Attributes:
        valid: there is one in this cycle.
        place: its block and row in the memory where it goes, joined.
        words: its P words.
        exists: the row exists; otherwise it is filled with 0.
        is_one: it is the first row after those, which the activations fill with 1.
    """

    valid: Value
    place: Value
    words: list[Value]
    exists: Value
    is_one: Value


def output_row(side: int) -> data.StructLayout:
    """Return the layout of a row of z_L for the host; `last` marks the last one of a forward pass."""
    return data.StructLayout({**dict(row_write(side).members), "last": 1})


def flush_cycles(relu: bool, adam_latency: int) -> dict[str, int]:
    """Return the cycles that a unit waits after its last row was requested, until it is written, by `PpoStepKind`.

    Args:
        relu: whether the activation function is ReLU; otherwise tanh.
        adam_latency: cycles from a gradient's row to the new weights.
    """
    return {**row_cycles(relu), "UPDATE": 1 + adam_latency}


class AcceleratorUnit(wiring.Component):
    """Computes the product of a step, then moves its rows: to the host, activations, deltas, or the weight update.

    Args:
        activation_blocks: blocks of P x P for the activations; delta_blocks: for the deltas, which are stored twice,
            as operand A and behind the activations as operand B.
        result_blocks: blocks for a product (PPO Fig. 3: the z buffer).
        relu: whether the activation function is ReLU; otherwise tanh.
        adam_latency: cycles from a gradient's row to the new weights.

    Ports:
        step: In(Step), constant from `start` on until `idle` again. start: In(1), in a cycle with `idle`. idle: Out(1).
        updating: Out(1), rows go to the weight update. granted: In(1), it takes them.
        weights: Out(WeightRead).
        gradient: Out(row_write), gradient_valid: Out(1): a row of a weight gradient; the weights' row is on
            `weights.data` in the same cycle, and goes to the same place.
        outputs: Out(stream of output_row), rows of the last layer's z that exist, for the host.
        write_activations, write_deltas: In(1): `write`, In(row_write), goes there; not while rows move.
    """

    def __init__(
        self,
        *,
        side: int,
        activation_blocks: int,
        delta_blocks: int,
        result_blocks: int,
        relu: bool,
        adam_latency: int,
        accumulator_depth: int = 1024,
    ):
        self.side, self.relu, self.adam_latency = side, relu, adam_latency
        self.activation_blocks, self.delta_blocks = activation_blocks, delta_blocks
        self.core = GemmCore(
            side=side,
            width=WORD_BITS,
            accumulator_width=WORD_BITS,
            accumulator_depth=accumulator_depth,
            block_load=True,
            float32=True,
        )
        self.result = ResultBuffer(core=self.core, blocks=result_blocks)
        super().__init__(
            {
                "step": In(Step),
                "start": In(1),
                "idle": Out(1),
                "updating": Out(1),
                "granted": In(1),
                "weights": Out(WeightRead(side)),
                "gradient": Out(row_write(side)),
                "gradient_valid": Out(1),
                "outputs": Out(stream.Signature(output_row(side))),
                "write_activations": In(1),
                "write_deltas": In(1),
                "write": In(row_write(side)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.core, m.submodules.result = self.core, self.result
        sizes = {"side": self.side, "width": WORD_BITS, "row_cycles": self.core.arithmetic.row_cycles}
        m.submodules.activations = activations = BankedBuffer(
            **sizes, blocks=self.activation_blocks + self.delta_blocks
        )
        m.submodules.deltas = deltas = BankedBuffer(**sizes, blocks=self.delta_blocks)
        state = Signal(RowState)
        self._product(m, state, activations, deltas)
        self._rows(m, platform, state, activations, deltas)
        return m

    def _product(self, m: Module, state: Signal, activations: Any, deltas: Any) -> None:
        """Connect the core to its operands: A is in the weights, or in the deltas (UPDATE); B in the activations."""
        core, result, step, side = self.core, self.result, self.step, self.side
        update, derive = step.kind == PpoStepKind.UPDATE, step.kind == PpoStepKind.DERIVE
        computes, entered = state == RowState.PRODUCT, Signal()
        stationary_a = computes & (step.gemm.dataflow == Dataflow.WS)
        stationary_b = computes & (step.gemm.dataflow == Dataflow.IS)
        m.d.comb += [
            self.idle.eq(state == RowState.IDLE),
            core.command.valid.eq(computes & ~entered),
            core.command.payload.eq(step.gemm),
            core.ready.eq(1),
            result.command.eq(step.gemm),
            result.start.eq(self.start),
            deltas.base.eq(step.base_a),
            deltas.pitch.eq(step.pitch_a),
            deltas.as_blocks.eq(stationary_a),
            deltas.flipped.eq(1),
            self.weights.base.eq(Mux(computes, step.base_a, step.base_to)),
            self.weights.pitch.eq(step.pitch_a),
            self.weights.as_blocks.eq(stationary_a),
            self.weights.flipped.eq(~derive),
            activations.base.eq(Mux(computes, step.base_b, step.base_activation)),
            activations.pitch.eq(step.pitch_b),
            activations.as_blocks.eq(stationary_b),
            activations.flipped.eq(update),
        ]
        with m.If(computes):
            m.d.comb += [
                deltas.request.eq(core.a),
                self.weights.request.eq(core.a),
                activations.request.eq(core.b),
            ]
            transpose_request(m, derive, self.weights.request, core.a)
            transpose_request(m, update, activations.request, core.b)
            with m.If(core.command.ready & core.command.valid):
                m.d.sync += entered.eq(1)
            with m.If(entered & core.idle):
                m.d.sync += [state.eq(RowState.ROWS), entered.eq(0)]
        with m.If(self.start):
            m.d.sync += state.eq(RowState.PRODUCT)
        m.d.comb += core.b_data.as_value().eq(activations.data.as_value())
        a_data = Mux(update, deltas.data.as_value(), self.weights.data.as_value())
        m.d.comb += core.a_data.as_value().eq(a_data)
        for k in range(side * side):
            of_a = Mux(update, deltas.weights[k], self.weights.weights[k])
            stays_in_a = step.gemm.dataflow == Dataflow.WS
            m.d.comb += core.weights[k].eq(Mux(stays_in_a, of_a, activations.weights[k]))
            m.d.comb += result.tile_sums[k].eq(core.tile_sums[k])
        for name in ("tile_done", "column_sums", "column_done"):
            m.d.comb += getattr(result, name).eq(getattr(core, name))

    def _rows(self, m: Module, platform: Any, state: Signal, activations: Any, deltas: Any) -> None:
        """Read the product's rows and move them, one per cycle, in the order of the blocks as stored."""
        step, side, outputs = self.step, self.side, self.outputs
        block, row = Signal(INDEX_BITS), Signal(range(side))
        block_row, block_column = Signal(INDEX_BITS), Signal(INDEX_BITS)
        flush = flush_cycles(self.relu, self.adam_latency)
        waited, limit = Signal(range(max(flush.values()) + 1)), Signal(range(max(flush.values()) + 1))
        moves, sent, sent_last = Signal(), Signal(INDEX_BITS + len(row)), Signal()
        with m.Switch(step.kind):
            for kind, cycles in flush.items():
                with m.Case(getattr(PpoStepKind, kind)):
                    m.d.comb += limit.eq(cycles)
        is_output, is_update = step.kind == PpoStepKind.OUTPUT, step.kind == PpoStepKind.UPDATE
        free = Mux(is_output, ~outputs.valid | outputs.ready, ~is_update | self.granted)
        row_ends, column_ends = row == side - 1, block_column == step.column_blocks - 1
        in_rows = (state == RowState.ROWS) | (state == RowState.FLUSH)
        m.d.comb += [moves.eq((state == RowState.ROWS) & free), self.updating.eq(is_update & in_rows)]
        with m.If(moves):
            m.d.sync += row.eq(Mux(row_ends, 0, row + 1))
            with m.If(row_ends):
                m.d.sync += [
                    block.eq(block + 1),
                    block_column.eq(Mux(column_ends, 0, block_column + 1)),
                    block_row.eq(block_row + column_ends),
                ]
            with m.If(row_ends & column_ends & (block_row == step.row_blocks - 1)):
                m.d.sync += state.eq(RowState.FLUSH)
        with m.If(state == RowState.FLUSH):
            m.d.sync += waited.eq(waited + 1)
            with m.If(waited == limit):
                m.d.sync += [waited.eq(waited), state.eq(Mux(outputs.valid, RowState.FLUSH, RowState.IDLE))]
        with m.If(self.start):
            m.d.sync += [each.eq(0) for each in (block, row, block_row, block_column, waited)]

        wanted = Signal(VectorRequest, name="wanted")
        m.d.comb += [
            wanted.valid.eq(moves),
            wanted.axis.eq(Axis.ROW),
            wanted.block_column.eq(block),
            wanted.offset.eq(row),
            self.result.request.eq(wanted),
            self.result.request.block_row.eq(block),
        ]
        with m.If(state == RowState.ROWS):
            m.d.comb += [self.weights.request.eq(wanted), activations.request.eq(wanted)]

        # Everything about a row arrives a cycle later, with its words.
        number = Signal(INDEX_BITS + side.bit_length())
        m.d.comb += number.eq(block_row * side + row)
        place = Cat((step.base_to + block)[:INDEX_BITS], row)
        words = [word.as_value()[:WORD_BITS] for word in self.result.data]
        arrived = Arrived(
            delayed(m, moves, 1),
            delayed(m, place, 1),
            words,
            delayed(m, number < step.size, 1),
            delayed(m, number == step.size, 1),
        )
        m.d.comb += [
            Cat(self.gradient.block, self.gradient.row).eq(arrived.place),
            self.gradient.words.as_value().eq(Cat(words)),
            self.gradient_valid.eq(arrived.valid & is_update),
            Cat(outputs.payload.block, outputs.payload.row).eq(sent),
            outputs.payload.words.as_value().eq(Cat(words)),
            outputs.payload.last.eq(sent_last),
        ]
        with m.If(moves & is_output):
            m.d.sync += [outputs.valid.eq(number < step.size), sent.eq(place)]
            m.d.sync += sent_last.eq(column_ends & (number == step.size - 1))
        with m.Elif(outputs.ready):
            m.d.sync += outputs.valid.eq(0)
        self._paths(m, platform, arrived, activations, deltas)

    def _paths(self, m: Module, platform: Any, arrived: Arrived, activations: Any, deltas: Any) -> None:
        """Add the lanes of the activation function and of its derivative, and the writes of their results."""
        kind, name = self.step.kind, activation_name(self.relu)
        forward, backward = activation_program(name).latency, derivative_program(name).latency
        activated, derived = [], []
        for j, word in enumerate(arrived.words):
            lane, m.submodules[f"activation_{j}"] = shared(platform, ActivationLane, relu=self.relu)
            m.d.comb += lane.inputs[0].eq(word)
            activated.append(lane.results[0])
            lane, m.submodules[f"derivative_{j}"] = shared(platform, DerivativeLane, relu=self.relu)
            m.d.comb += [lane.inputs[0].eq(word), lane.inputs[1].eq(activations.data[j])]
            derived.append(lane.results[0])
        fill = Mux(delayed(m, arrived.is_one, forward), Const(ONE, WORD_BITS), 0)
        activation_exists = delayed(m, arrived.exists, forward)
        delta_exists = delayed(m, arrived.exists, backward)
        activated_words = Cat(Mux(activation_exists, word, fill) for word in activated)
        derived_words = Cat(Mux(delta_exists, word, 0) for word in derived)
        is_activation = delayed(m, arrived.valid & (kind == PpoStepKind.ACTIVATE), forward)
        is_delta = delayed(m, arrived.valid & (kind == PpoStepKind.DERIVE), backward)
        activation_place = delayed(m, arrived.place, forward)
        delta_place = delayed(m, arrived.place, backward)
        for memory in (activations, deltas):
            m.d.comb += [memory.write_mask.eq(-1), memory.write_next.eq(0)]
        written, write, behind = Signal(row_write(self.side)), self.write, Signal()
        m.d.comb += [
            written.eq(write),
            behind.eq(is_delta | self.write_deltas),
            activations.write_enable.eq(
                is_activation | is_delta | self.write_activations | self.write_deltas
            ),
            deltas.write_enable.eq(behind),
            activations.write_block.eq(written.block + Mux(behind, self.activation_blocks, 0)),
            deltas.write_block.eq(written.block),
        ]
        for memory in (activations, deltas):
            m.d.comb += [memory.write_row.eq(written.row), memory.write_data.eq(written.words)]
        with m.If(is_activation):
            m.d.comb += [
                Cat(written.block, written.row).eq(activation_place),
                written.words.as_value().eq(activated_words),
            ]
        with m.Elif(is_delta):
            m.d.comb += [
                Cat(written.block, written.row).eq(delta_place),
                written.words.as_value().eq(derived_words),
            ]
