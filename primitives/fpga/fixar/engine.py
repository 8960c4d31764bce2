"""Runs one layer's pass at a time: forward, errors backward, or gradients, a block of weights per cycle (FIX V-B).

The memory gives one block of P x P weights per cycle, which is 16 banks x 512 bits with P = 16. FIX prints numbers that
no single reading of its dataflow explains (`cycles.fixar_dataflows`); this one fits its rate, its activation memory
and its doubled throughput with 16 bits, but reads 256 weights per cycle where the text has 16:

- **Forward**, the cores share a layer: blocks go to the cores in turn, whose sums are added at the end. With 16-bit
  activations each element multiplies its weight by those of two samples.
- **Backward and gradients**, the cores share the samples: all use the same block, core n for sample n. With 32-bit
  activations there is one sample, because the activation memory has no room for another, and core 1 idles.

A forward block is used column by column and a backward block row by row, so that nothing is transposed in memory.
Gradients are added up in their memory, rounded once for each group of samples.

Errors have 32 bits and need a memory that the paper does not mention; so do the ReLUs' signs.
"""

from enum import IntEnum
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.cartpole_agent.lane import saturated
from placerl.primitives.fpga.export.platform import shared
from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.fixar.core import PRODUCT_LATENCY, BlockCore, GradientAdder, sum_latency
from placerl.primitives.fpga.fixar.shape import (
    CORES,
    HALF_BITS,
    INPUTS,
    LEAST_SHIFT,
    MOST_SHIFT,
    ONE,
    SAMPLES,
    SCALES,
    SUM_BITS,
    WEIGHTS,
    WORD_BITS,
    FixarShape,
)
from placerl.primitives.fpga.gemm.systolic_array import delayed

SIZE_BITS = 12
SHIFT_BITS = MOST_SHIFT.bit_length()


class PassKind(IntEnum):
    """What a pass computes."""

    FORWARD = 0
    BACKWARD = 1
    GRADIENT = 2


def pass_layout(shape: FixarShape) -> data.StructLayout:
    """Return the layout of a pass's command.

    `kind`; `target`: with the target weights; `base`: the layer's first block; `outer`, `inner`: how many steps the
    two loops take, the inner one over what is summed (for gradients, over inputs); `skip`: first step of the outer
    loop; `stride`, `outer_stride`: blocks from one step to the next; `inputs`: of the layer; `read_line`: of the
    layer's inputs; `error_line`: of its outputs' errors, if not `at_end`; `write_line`: of the results, if not to the
    network's outputs (`at_end`, forward) or inputs (`at_start`, backward); `actions`: inputs hold actions; `scratch`:
    forward results go to the errors' memory, as the inputs come from it unless `at_start`; `scale`, `write_scale`:
    numbers of the 16-bit codes' scales; `mask_line`: of the ReLUs' signs.
    """
    line = range(shape.lines + 1)
    return data.StructLayout(
        {
            "kind": 2,
            "target": 1,
            "base": range(shape.blocks),
            "outer": SIZE_BITS,
            "inner": SIZE_BITS,
            "skip": SIZE_BITS,
            "stride": SIZE_BITS,
            "outer_stride": SIZE_BITS,
            "inputs": SIZE_BITS,
            "read_line": line,
            "error_line": line,
            "write_line": line,
            "at_start": 1,
            "at_end": 1,
            "actions": 1,
            "scratch": 1,
            "scale": range(SCALES),
            "write_scale": range(SCALES),
            "mask_line": range(2 * shape.lines),
        }
    )


def pass_latency(side: int) -> int:
    """Return the cycles from a pass's last block to the end of its last write."""
    return sum_latency(side) + 4


def coded(m: Module, raw: Value, shift: Value) -> Value:
    """Return the code of 16 bits of a raw activation: FIX's Q_n with delta = 2^shift, in two's complement."""
    return saturated(m, raw >> shift, HALF_BITS)


class BlockLoops(wiring.Component):
    """Gives the blocks of a pass, one per cycle, and says when its last result is stored.

    Ports:
        start: In(1), command: In(pass_layout), stays until `done`. done: Out(1), the pass has ended.
        issuing: Out(1), there is a block: its address `block`, the steps `outer` and `inner` of the loops, and
            `last_inner`, with the inner loop's last step.
    """

    def __init__(self, shape: FixarShape):
        self.shape = shape
        super().__init__(
            {
                "start": In(1),
                "command": In(pass_layout(shape)),
                "done": Out(1),
                "issuing": Out(1),
                "block": Out(range(shape.blocks)),
                "outer": Out(SIZE_BITS),
                "inner": Out(SIZE_BITS),
                "last_inner": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        command, latency = self.command, pass_latency(self.shape.side)
        draining = Signal(range(latency + 1))
        row_start = Signal(range(self.shape.blocks))
        last_outer = self.outer + 1 == command.outer
        m.d.comb += self.last_inner.eq(self.inner + 1 == command.inner)
        with m.If(self.start):
            m.d.sync += [
                self.issuing.eq(1),
                self.outer.eq(command.skip),
                self.inner.eq(0),
                self.block.eq(command.base),
                row_start.eq(command.base),
            ]
        with m.Elif(self.issuing):
            m.d.sync += [self.inner.eq(self.inner + 1), self.block.eq(self.block + command.stride)]
            with m.If(self.last_inner):
                following = row_start + command.outer_stride
                m.d.sync += [self.inner.eq(0), self.outer.eq(self.outer + 1), self.issuing.eq(~last_outer)]
                m.d.sync += [self.block.eq(following), row_start.eq(following)]
        with m.If(self.start | self.issuing):
            m.d.sync += draining.eq(latency)
        with m.Elif(draining != 0):
            m.d.sync += draining.eq(draining - 1)
        m.d.comb += self.done.eq(draining == 1)
        return m


class LayerEngine(wiring.Component):
    """The cores with the memories of activations and errors.

    Args:
        datapath: whether there are cores and memories; without them it takes the same cycles, and computes nothing.

    Ports:
        start: In(1), command: In(pass_layout): begins a pass; only when none goes on. command stays until `done`.
        done: Out(1), the pass has ended.
        halves: In(1), activations have 16 bits and two samples are trained together.
        actions: In(2 x P x signed(32)), each sample's action, raw; what is beyond the action's size is not read.
        output_errors: In(2 x P x signed(32)), the errors of the network's outputs.
        outputs: Out(2 x P x signed(32)), what the last forward pass of a last layer gave.
        input_errors: Out(2 x P x signed(32)), the errors of the critic's inputs that are actions.
        store: In(1), line: In, states: In(2 x P x signed(32)): a line of the samples' states.
        shifts: Out(5 x 5), the scales: log2 of the raw value that the code 1 stands for.
        block, target, weights_0 .., gradient_block, gradients_0 .., write, write_block, new_0 ..: to the
            `ParameterMemory`, whose ports have the same names.
    """

    def __init__(self, shape: FixarShape, *, datapath: bool = True):
        self.shape, self.datapath = shape, datapath
        side = shape.side
        row = data.ArrayLayout(signed(WORD_BITS), side)
        pair = data.ArrayLayout(row, SAMPLES)
        banks = {
            f"{name}_{r}": flow(row)
            for name, flow in (("weights", In), ("gradients", In), ("new", Out))
            for r in range(side)
        }
        super().__init__(
            {
                "start": In(1),
                "command": In(pass_layout(shape)),
                "done": Out(1),
                "halves": In(1),
                "actions": In(pair),
                "output_errors": In(pair),
                "outputs": Out(pair),
                "input_errors": Out(pair),
                "store": In(1),
                "line": In(range(shape.lines)),
                "states": In(pair),
                "shifts": Out(data.ArrayLayout(SHIFT_BITS, SCALES)),
                "block": Out(range(shape.blocks)),
                "target": Out(1),
                "gradient_block": Out(range(shape.blocks)),
                "write": Out(1),
                "write_block": Out(range(shape.blocks)),
                **banks,
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape, side, command = self.shape, self.shape.side, self.command
        m.submodules.loops = loops = BlockLoops(shape)
        m.d.comb += [
            loops.start.eq(self.start),
            loops.command.eq(command),
            self.block.eq(loops.block),
            self.target.eq(command.target),
            self.done.eq(loops.done),
        ]
        if not self.datapath:
            return m
        width = side * WORD_BITS
        m.submodules.activations = activations = Ram(width=width, depth=shape.lines)
        errors = [Ram(width=width, depth=shape.lines) for _ in range(SAMPLES)]
        masks = Ram(width=SAMPLES * side, depth=2 * shape.lines)
        for n, memory in enumerate(errors):
            m.submodules[f"errors_{n}"] = memory
        m.submodules.masks = masks
        forward = command.kind == PassKind.FORWARD
        backward = command.kind == PassKind.BACKWARD
        gradient = command.kind == PassKind.GRADIENT

        issuing, outer, inner = loops.issuing, loops.outer, loops.inner
        last_inner = loops.last_inner
        read_line = command.read_line + inner
        error_line = command.error_line + Mux(backward, inner, outer)
        m.d.comb += [
            activations.read_enable.eq(1),
            activations.read_address.eq(read_line),
            masks.read_enable.eq(1),
        ]
        for memory in errors:
            m.d.comb += [
                memory.read_enable.eq(1),
                memory.read_address.eq(Mux(forward, read_line, error_line)),
            ]

        # The next cycle: the operands.
        valid, line = delayed(m, issuing, 1), delayed(m, inner, 1)
        restart = delayed(m, Mux(forward, inner < CORES, inner == 0), 1)
        turn = delayed(m, inner[0], 1)
        error_place = delayed(m, Mux(backward, inner, outer), 1)
        shift = Signal(SHIFT_BITS)
        m.d.comb += shift.eq(Array(self.shifts[k] for k in range(SCALES))[command.scale])
        one = Signal(WORD_BITS)
        half_one = Signal(HALF_BITS)
        m.d.comb += [half_one.eq(ONE >> shift), one.eq(Mux(self.halves, Cat(half_one, half_one), ONE))]
        action_words = self._action_words(m)
        stored = Mux(command.scratch & ~command.at_start, errors[0].read_data, activations.read_data)
        words = [Signal(WORD_BITS, name=f"word_{j}") for j in range(side)]
        row_bits = side.bit_length() - 1
        for j, word in enumerate(words):
            value: Any = stored[j * WORD_BITS : (j + 1) * WORD_BITS]
            for a in range(shape.action):
                place, lane = divmod(shape.state + a, side)
                if lane == j:
                    value = Mux(command.actions & (line == place), action_words[a], value)
            full, beyond = command.inputs >> row_bits, command.inputs[:row_bits]
            with m.If(line != full):
                m.d.comb += word.eq(value)
            with m.Elif(beyond == j):
                m.d.comb += word.eq(one)
            if j < side - 1:
                with m.Elif(beyond > j):
                    m.d.comb += word.eq(value)
        columns = [
            [Signal(signed(WORD_BITS), name=f"column_{n}_{j}") for j in range(side)] for n in range(CORES)
        ]
        lines = [Signal(data.ArrayLayout(signed(WORD_BITS), side), name=f"error_{n}") for n in range(SAMPLES)]
        for n in range(CORES):
            for j in range(side):
                half = words[j][n * HALF_BITS : (n + 1) * HALF_BITS].as_signed()
                m.d.comb += columns[n][j].eq(Mux(self.halves, half << shift, words[j]))
            end = self.output_errors[n].as_value()
            first = error_place == 0
            m.d.comb += lines[n].as_value().eq(Mux(command.at_end, Mux(first, end, 0), errors[n].read_data))
        cores = []
        for n in range(CORES):
            core, m.submodules[f"core_{n}"] = shared(platform, BlockCore, side=side)
            cores.append(core)
            m.d.comb += [
                core.take.eq(valid & Mux(forward, turn == n, self.halves if n else 1)),
                core.restart.eq(restart),
                core.halves.eq(self.halves & forward),
            ]
            for i in range(side):
                m.d.comb += core.activations[i].eq(Mux(forward, words[i], lines[n][i]))
                weights = getattr(core, f"weights_{i}")
                for j in range(side):
                    across, along = getattr(self, f"weights_{j}")[i], getattr(self, f"weights_{i}")[j]
                    m.d.comb += weights[j].eq(Mux(forward, across, Mux(backward, along, columns[n][j])))

        # Gradients: the products of all samples are added to the memory's.
        places: list[Value] = [self.block]
        marks: list[Value] = [issuing]
        for _ in range(PRODUCT_LATENCY + 2):
            places.append(delayed(m, places[-1], 1))
            marks.append(delayed(m, marks[-1], 1))
        m.d.comb += [
            self.gradient_block.eq(places[PRODUCT_LATENCY]),
            self.write.eq(marks[-1] & gradient),
            self.write_block.eq(places[-1]),
        ]
        for i in range(side):
            for j in range(side):
                adder, m.submodules[f"gradient_{i}_{j}"] = shared(platform, GradientAdder)
                m.d.comb += [
                    adder.both.eq(self.halves),
                    adder.gradient.eq(getattr(self, f"gradients_{i}")[j]),
                    getattr(self, f"new_{i}")[j].eq(adder.total),
                    *(
                        adder.products[n].eq(getattr(core, f"products_{i}")[j])
                        for n, core in enumerate(cores)
                    ),
                ]

        # Sums: they are added over cores, rounded, and become activations or errors.
        cycles = 1 + sum_latency(side)
        ended = delayed(m, issuing & last_inner & ~gradient, cycles + 1)
        place = delayed(m, outer, cycles + 1)
        sums = [[Signal(signed(SUM_BITS), name=f"sum_{n}_{j}") for j in range(side)] for n in range(SAMPLES)]
        results = [
            [Signal(signed(WORD_BITS), name=f"result_{n}_{j}") for j in range(side)] for n in range(SAMPLES)
        ]
        places_right = WEIGHTS.fraction_bits
        for n in range(SAMPLES):
            for j in range(side):
                shared_total = cores[0].totals[j][n] + Mux(command.inner > 1, cores[1].totals[j][n], 0)
                total = Signal(signed(SUM_BITS), name=f"total_{n}_{j}")
                m.d.comb += total.eq(Mux(forward, shared_total, cores[n].totals[j][0]))
                m.d.sync += sums[n][j].eq(Mux(forward & self.halves, total << shift, total))
                rounded = (sums[n][j] + (1 << places_right - 1)) >> places_right
                m.d.sync += results[n][j].eq(saturated(m, rounded, WORD_BITS))
        m.d.comb += masks.read_address.eq(command.mask_line + place)
        ended, place = delayed(m, ended, 1), delayed(m, place, 1)
        self._write_results(m, ended, place, results, (activations, *errors), masks)
        return m

    def _action_words(self, m: Module) -> list[Value]:
        """Return the words that stand for the actions in the networks' inputs: raw, or two codes."""
        words = []
        for a in range(self.shape.action):
            codes = [coded(m, self.actions[n][a], self.shifts[INPUTS]) for n in range(SAMPLES)]
            words.append(Mux(self.halves, Cat(*codes), self.actions[0][a]))
        return words

    def _write_results(
        self,
        m: Module,
        ended: Value,
        place: Value,
        results: list[list[Signal]],
        memories: tuple[Ram, ...],
        masks: Ram,
    ) -> None:
        """Add the last stage: ReLUs or their derivatives, 16-bit codes, and the memories' write ports."""
        shape, side, command = self.shape, self.shape.side, self.command
        activations, *errors = memories
        forward, at_end = command.kind == PassKind.FORWARD, command.at_end
        positive = [[result > 0 for result in row] for row in results]
        shift = Array(self.shifts[k] for k in range(SCALES))[command.write_scale]
        hidden: list[Value] = []
        seen = [Signal(WORD_BITS - 1, name=f"seen_{k}") for k in range(SCALES)]
        largest: Value = Signal(WORD_BITS - 1, name="largest")
        magnitudes: Any = 0
        states: list[Value] = []
        state_magnitudes: Any = 0
        for j in range(side):
            kept = [Mux(positive[n][j], results[n][j], 0)[:WORD_BITS] for n in range(SAMPLES)]
            magnitudes = magnitudes | kept[0]
            codes = [coded(m, one.as_signed(), shift) for one in kept]
            hidden.append(Mux(self.halves, Cat(*codes), kept[0]))
            own = [self.states[n][j] for n in range(SAMPLES)]
            state_magnitudes = state_magnitudes | Mux(own[0] < 0, ~own[0], own[0])
            codes = [coded(m, one, self.shifts[INPUTS]) for one in own]
            states.append(Mux(self.halves, Cat(*codes), own[0])[:WORD_BITS])
        m.d.comb += largest.eq(Mux(self.store, state_magnitudes, magnitudes))
        writes = ended & forward & ~at_end
        line = command.write_line + place
        m.d.comb += [
            activations.write_enable.eq(self.store | (writes & ~command.scratch)),
            activations.write_address.eq(Mux(self.store, self.line, line)),
            activations.write_data.eq(Mux(self.store, Cat(*states), Cat(*hidden))),
            masks.write_enable.eq(writes),
            masks.write_address.eq(command.mask_line + place),
            masks.write_data.eq(Cat(*(Cat(*row) for row in positive))),
        ]
        carried = ended & (command.kind == PassKind.BACKWARD) & ~command.at_start
        for n, memory in enumerate(errors):
            active = masks.read_data[n * side : (n + 1) * side]
            back = Cat(*(Mux(active[j], results[n][j], 0)[:WORD_BITS] for j in range(side)))
            m.d.comb += [
                memory.write_enable.eq(carried | ((writes & command.scratch) if n == 0 else 0)),
                memory.write_address.eq(line),
                memory.write_data.eq(Mux(forward, Cat(*hidden), back) if n == 0 else back),
            ]
            with m.If(ended & forward & at_end):
                m.d.sync += [self.outputs[n][j].eq(results[n][j]) for j in range(side)]
            with m.If(ended & (command.kind == PassKind.BACKWARD) & command.at_start):
                for a in range(shape.action):
                    number, lane = divmod(shape.state + a, side)
                    with m.If(place == number):
                        m.d.sync += self.input_errors[n][a].eq(results[n][lane])

        # The largest activation's top bit gives each scale, until 16 bits begin.
        for k in range(SCALES):
            written = self.store if k == INPUTS else writes & (command.write_scale == k)
            with m.If(written & ~self.halves):
                m.d.sync += seen[k].eq(seen[k] | largest)
            found = Signal(SHIFT_BITS, init=LEAST_SHIFT, name=f"shift_{k}")
            m.d.comb += found.eq(LEAST_SHIFT)
            for bit in range(LEAST_SHIFT + HALF_BITS - 1, WORD_BITS - 1):
                with m.If(seen[k][bit]):
                    m.d.comb += found.eq(bit + 2 - HALF_BITS)
            m.d.sync += self.shifts[k].eq(found)
