"""Runs one layer's pass at a time: forward, errors backward, or gradients, a block of weights per cycle (FIX V-B).

The memory gives one block of P x P weights per cycle, which is 16 banks x 512 bits with P = 16. FIX prints numbers that
no single reading of its dataflow explains (`cycles.fixar_dataflows`); this one fits its rate and its doubled
throughput with 16 bits, but reads 256 weights per cycle where the text has 16. The cores share the samples of a group:
all use the same block, each with an activation memory of the paper's size. Dividing a layer over the cores, as FIX
does for a single vector, would gain nothing: the block that the memory gives in a cycle keeps one core busy.

- **Forward**, core n takes sample n. With 16-bit activations each element multiplies its weight by those of two
  samples, n and n + 2.
- **Backward and gradients** multiply errors of 32 bits, so that of a group of four samples, with 16-bit activations, a
  pass takes one `part`: samples 0 and 1, or 2 and 3.

A forward block is used column by column and a backward block row by row, so that nothing is transposed in memory.
Gradients are added up in their memory, rounded once for each two samples.

Errors have 32 bits and need a memory that the paper does not mention; so do the ReLUs' signs.
"""

from collections.abc import Sequence
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
    CODES,
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
    """Return the code of 16 bits of a raw activation: FIX's Q_n with delta = 2^shift, in two's complement.

    With Algorithm 1's own delta, which is no power of two, each of the 4 x P results of a line would take a division or
    a multiplication by 1 / delta, and each sum of products another one by delta. Its zero point is 0 after a ReLU, so
    that a code would need a 17th bit beside its sign, which the elements' 16-bit multipliers lack. The range that is
    widened here to a power of two, and to both signs, has at most four times Algorithm 1's step: two bits of sixteen.
    """
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
        part: In(1), a backward or gradient pass is of samples 2 and 3, not 0 and 1; constant until `done`, and else 0.
        halves: In(1), activations have 16 bits and four samples are trained together, not two.
        alone: In(1), only sample 0 is one, so that activations of the others are not ranged.
        actions: In(4 x P x signed(32)), each sample's action, raw; what is beyond the action's size is not read.
        output_errors: In(4 x P x signed(32)), the errors of the network's outputs.
        outputs: Out(4 x P x signed(32)), what the last forward pass of a last layer gave.
        input_errors: Out(4 x P x signed(32)), the errors of the critic's inputs that are actions.
        store: In(1), line: In, states: In(4 x P x signed(32)): a line of the samples' states.
        shifts: Out(5 x 5), the scales: log2 of the raw value that the code 1 stands for.
        block, target, weights_0 .., gradient_block, gradients_0 .., write, write_block, new_0 ..: to the
            `ParameterMemory`, whose ports have the same names.
    """

    def __init__(self, shape: FixarShape, *, datapath: bool = True):
        self.shape, self.datapath = shape, datapath
        side = shape.side
        row = data.ArrayLayout(signed(WORD_BITS), side)
        rows = data.ArrayLayout(row, SAMPLES)
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
                "part": In(1),
                "halves": In(1),
                "alone": In(1),
                "actions": In(rows),
                "output_errors": In(rows),
                "outputs": Out(rows),
                "input_errors": Out(rows),
                "store": In(1),
                "line": In(range(shape.lines)),
                "states": In(rows),
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
        activations = [Ram(width=width, depth=shape.lines) for _ in range(CORES)]
        errors = [Ram(width=width, depth=CODES * shape.lines) for _ in range(CORES)]
        masks = Ram(width=SAMPLES * side, depth=2 * shape.lines)
        for n in range(CORES):
            m.submodules[f"activations_{n}"], m.submodules[f"errors_{n}"] = activations[n], errors[n]
        m.submodules.masks = masks
        forward = command.kind == PassKind.FORWARD
        backward = command.kind == PassKind.BACKWARD
        gradient = command.kind == PassKind.GRADIENT

        issuing, outer, inner = loops.issuing, loops.outer, loops.inner
        last_inner = loops.last_inner
        read_line = command.read_line + inner
        part_line = Mux(self.part, shape.lines, 0)
        error_line = command.error_line + part_line + Mux(backward, inner, outer)
        m.d.comb += masks.read_enable.eq(1)
        for n in range(CORES):
            m.d.comb += [
                activations[n].read_enable.eq(1),
                activations[n].read_address.eq(read_line),
                errors[n].read_enable.eq(1),
                errors[n].read_address.eq(Mux(forward, read_line, error_line)),
            ]

        # The next cycle: the operands.
        valid, line = delayed(m, issuing, 1), delayed(m, inner, 1)
        restart = delayed(m, inner == 0, 1)
        error_place = delayed(m, Mux(backward, inner, outer), 1)
        shift = Signal(SHIFT_BITS)
        m.d.comb += shift.eq(Array(self.shifts[k] for k in range(SCALES))[command.scale])
        one = Signal(WORD_BITS)
        half_one = Signal(HALF_BITS)
        m.d.comb += [half_one.eq(ONE >> shift), one.eq(Mux(self.halves, Cat(half_one, half_one), ONE))]
        row_bits = side.bit_length() - 1
        full, beyond = command.inputs >> row_bits, command.inputs[:row_bits]
        cores = []
        for n in range(CORES):
            action_words = [
                self._word(m, [self.actions[s][a] for s in range(SAMPLES)], n, self.shifts[INPUTS])
                for a in range(shape.action)
            ]
            stored = Mux(command.scratch & ~command.at_start, errors[n].read_data, activations[n].read_data)
            words = [Signal(WORD_BITS, name=f"word_{n}_{j}") for j in range(side)]
            columns = [Signal(signed(WORD_BITS), name=f"column_{n}_{j}") for j in range(side)]
            for j, word in enumerate(words):
                value: Any = stored[j * WORD_BITS : (j + 1) * WORD_BITS]
                for a in range(shape.action):
                    place, lane = divmod(shape.state + a, side)
                    if lane == j:
                        value = Mux(command.actions & (line == place), action_words[a], value)
                with m.If(line != full):
                    m.d.comb += word.eq(value)
                with m.Elif(beyond == j):
                    m.d.comb += word.eq(one)
                if j < side - 1:
                    with m.Elif(beyond > j):
                        m.d.comb += word.eq(value)
                code = word.word_select(self.part, HALF_BITS).as_signed()
                m.d.comb += columns[j].eq(Mux(self.halves, code << shift, word))
            line_of_errors = Signal(data.ArrayLayout(signed(WORD_BITS), side), name=f"error_{n}")
            end = Mux(error_place == 0, self._of_part(self.output_errors, n).as_value(), 0)
            m.d.comb += line_of_errors.as_value().eq(Mux(command.at_end, end, errors[n].read_data))
            core, m.submodules[f"core_{n}"] = shared(platform, BlockCore, side=side)
            cores.append(core)
            m.d.comb += [
                core.take.eq(valid),
                core.restart.eq(restart),
                core.halves.eq(self.halves & forward),
            ]
            for i in range(side):
                m.d.comb += core.activations[i].eq(Mux(forward, words[i], line_of_errors[i]))
                weights = getattr(core, f"weights_{i}")
                for j in range(side):
                    across, along = getattr(self, f"weights_{j}")[i], getattr(self, f"weights_{i}")[j]
                    m.d.comb += weights[j].eq(Mux(forward, across, Mux(backward, along, columns[j])))

        # Gradients: the products of both cores are added to the memory's.
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
                    adder.gradient.eq(getattr(self, f"gradients_{i}")[j]),
                    getattr(self, f"new_{i}")[j].eq(adder.total),
                    *(
                        adder.products[n].eq(getattr(core, f"products_{i}")[j])
                        for n, core in enumerate(cores)
                    ),
                ]

        # Sums: they are rounded, and become activations or errors.
        cycles = 1 + sum_latency(side)
        ended = delayed(m, issuing & last_inner & ~gradient, cycles + 1)
        place = delayed(m, outer, cycles + 1)
        sums = [[Signal(signed(SUM_BITS), name=f"sum_{n}_{j}") for j in range(side)] for n in range(SAMPLES)]
        results = [
            [Signal(signed(WORD_BITS), name=f"result_{n}_{j}") for j in range(side)] for n in range(SAMPLES)
        ]
        places_right = WEIGHTS.fraction_bits
        for n in range(SAMPLES):
            half, number = divmod(n, CORES)
            for j in range(side):
                total = cores[number].totals[j][half]
                m.d.sync += sums[n][j].eq(Mux(forward & self.halves, total << shift, total))
                rounded = (sums[n][j] + (1 << places_right - 1)) >> places_right
                m.d.sync += results[n][j].eq(saturated(m, rounded, WORD_BITS))
        m.d.comb += masks.read_address.eq(command.mask_line + place)
        ended, place = delayed(m, ended, 1), delayed(m, place, 1)
        self._write_results(m, ended, place, results, activations, errors, masks)
        return m

    def _of_part(self, values: Any, core: int) -> Any:
        """Return the value of the sample that a core takes in this part, of the values of all samples."""
        return Array(values[half * CORES + core] for half in range(CODES))[self.part]

    def _word(self, m: Module, values: Sequence[Any], core: int, shift: Value) -> Any:
        """Return a word of a core's activation memory, of the samples' raw values: the core's, or two codes."""
        own = values[core::CORES]
        codes = [coded(m, value, shift) for value in own]
        return Mux(self.halves, Cat(*codes), own[0])[:WORD_BITS]

    def _write_results(
        self,
        m: Module,
        ended: Value,
        place: Value,
        results: list[list[Signal]],
        activations: list[Ram],
        errors: list[Ram],
        masks: Ram,
    ) -> None:
        """Add the last stage: ReLUs or their derivatives, 16-bit codes, and the memories' write ports."""
        shape, side, command = self.shape, self.shape.side, self.command
        forward, at_end = command.kind == PassKind.FORWARD, command.at_end
        positive = [[result > 0 for result in row] for row in results]
        shift = Array(self.shifts[k] for k in range(SCALES))[command.write_scale]
        seen = [Signal(WORD_BITS - 1, name=f"seen_{k}") for k in range(SCALES)]
        writes = ended & forward & ~at_end
        line = command.write_line + place
        m.d.comb += [
            masks.write_enable.eq(writes),
            masks.write_address.eq(command.mask_line + place),
            masks.write_data.eq(Cat(*(Cat(*row) for row in positive))),
        ]
        with m.If(ended & forward & at_end):
            for n in range(SAMPLES):
                m.d.sync += [self.outputs[n][j].eq(results[n][j]) for j in range(side)]
        backward = ended & (command.kind == PassKind.BACKWARD)
        magnitudes: Any = 0
        state_magnitudes: Any = 0
        active_rows = data.View(data.ArrayLayout(side, SAMPLES), masks.read_data)
        for n in range(CORES):
            kept = [
                [Mux(positive[s][j], results[s][j], 0)[:WORD_BITS].as_signed() for s in range(SAMPLES)]
                for j in range(side)
            ]
            own = [[self.states[s][j] for s in range(SAMPLES)] for j in range(side)]
            ranged = ~self.alone if n else 1
            for j in range(side):
                state = own[j][n]
                magnitudes = magnitudes | Mux(ranged, kept[j][n], 0)
                state_magnitudes = state_magnitudes | Mux(ranged, Mux(state < 0, ~state, state), 0)
            hidden = Cat(*(self._word(m, words, n, shift) for words in kept))
            states = Cat(*(self._word(m, words, n, self.shifts[INPUTS]) for words in own))
            m.d.comb += [
                activations[n].write_enable.eq(self.store | (writes & ~command.scratch)),
                activations[n].write_address.eq(Mux(self.store, self.line, line)),
                activations[n].write_data.eq(Mux(self.store, states, hidden)),
            ]
            active = self._of_part(active_rows, n)
            back = Cat(*(Mux(active[j], results[n][j], 0)[:WORD_BITS] for j in range(side)))
            m.d.comb += [
                errors[n].write_enable.eq((backward & ~command.at_start) | (writes & command.scratch)),
                errors[n].write_address.eq(line + Mux(self.part, shape.lines, 0)),
                errors[n].write_data.eq(Mux(forward, hidden, back)),
            ]
            with m.If(backward & command.at_start):
                for a in range(shape.action):
                    number, lane = divmod(shape.state + a, side)
                    with m.If(place == number):
                        m.d.sync += self._of_part(self.input_errors, n)[a].eq(results[n][lane])
        largest: Value = Signal(WORD_BITS - 1, name="largest")
        m.d.comb += largest.eq(Mux(self.store, state_magnitudes, magnitudes))

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
