"""The P x P systolic array: processing elements, and the registers that skew their inputs (PPO 3.2.2, Fig. 5)."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, ValueLike, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export.platform import shared
from placerl.primitives.fpga.gemm.arithmetic import FLOAT32, INTEGER
from placerl.primitives.fpga.gemm.float_element import FloatElement
from placerl.primitives.fpga.gemm.processing_element import Control, ProcessingElement


def delayed(m: Module, value: ValueLike, cycles: int) -> ValueLike:
    """Return `value` delayed by `cycles` clock cycles, in registers that are added to `m`.

    With 0 cycles it returns `value` itself.
    """
    for _ in range(cycles):
        later = Signal.like(value)
        m.d.sync += later.eq(value)
        value = later
    return value


class SystolicArray(wiring.Component):
    """A grid of P x P processing elements, with inputs delayed so that matching operands meet in each element.

    Element (i, j) gets the operands of cycle t in cycle t + i r + j; its sum is valid `sum_cycles` later. r and
    `sum_cycles` are those of `arithmetic.INTEGER` or `arithmetic.FLOAT32`.

    Every element has its own ports `sums` and `weights`. A single port for all elements would be thousands of bits
    wide, and simulators would assemble and split it in every cycle.

    Args:
        side: P, 2 or more.
        configurable: whether the left operand may hold two numbers of half the width; then every sum has two lanes,
            otherwise one.
        block_load: whether weights come from memories of the elements instead of from above.
        float32: whether the operands and sums are float32 (`FloatElement`); then both widths are 32, and weights
            come from memories.

    Ports:
        stationary: In(1), whether the dataflow is stationary; constant while operands are in the array.
        halves: In(1), the left operands hold two numbers of half the width each (`configurable` only).
        control: In(Control), of the vector on `left`; its `load` is not used.
        left: In(P x signed(width)), one operand per row.
        top: In(P x signed(width)), one operand per column, or row `load_row` of a block of weights.
        load, load_row: In(1), In(range(P)), whether `top` carries weights, and for which row.
        sums: Out(lanes x signed(accumulator_width)), P x P of them: every element's sum, row by row.
        done: Out(P * P), the sums that are finished dot products (non-stationary).
        column_control: Out(P x Control), of the vector whose sums, the last row of `sums`, are valid one cycle later
            (stationary).
        weights: In(signed(width)), P x P of them, row by row (`block_load` only): word (i, j) of the pass whose first
            vector entered in cycle t is valid in cycle t + i r + j.
    """

    def __init__(
        self,
        *,
        side: int,
        width: int,
        accumulator_width: int,
        configurable: bool = False,
        block_load: bool = False,
        float32: bool = False,
    ):
        if side < 2:
            raise ValueError(f"side: found {side}; allowed: 2 or more")
        if float32 and (not block_load or configurable or (width, accumulator_width) != (32, 32)):
            raise ValueError(
                "float32: found True; allowed with block_load, widths of 32 and no configurable datapath"
            )
        self.float32, self.arithmetic = float32, FLOAT32 if float32 else INTEGER
        self.side, self.width, self.accumulator_width = side, width, accumulator_width
        self.configurable, self.block_load = configurable, block_load
        lanes = data.ArrayLayout(signed(accumulator_width), 2 if configurable else 1)
        super().__init__(
            {
                "stationary": In(1),
                "halves": In(1),
                "control": In(Control),
                "left": In(data.ArrayLayout(signed(width), side)),
                "top": In(data.ArrayLayout(signed(width), side)),
                "load": In(1),
                "load_row": In(range(side)),
                "sums": Out(lanes).array(side * side),
                "done": Out(side * side),
                "column_control": Out(data.ArrayLayout(Control, side)),
                **({"weights": In(signed(width)).array(side * side)} if block_load else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        side = self.side
        options = {
            "width": self.width,
            "accumulator_width": self.accumulator_width,
            "configurable": self.configurable,
            "block_load": self.block_load,
        }
        elements: list[list[Any]] = [[] for _ in range(side)]
        for i, row in enumerate(elements):
            for j in range(side):
                kind = (FloatElement, {}) if self.float32 else (ProcessingElement, options)
                element, m.submodules[f"element_{i}_{j}"] = shared(platform, kind[0], **kind[1])
                row.append(element)
        row_cycles, before_sum = self.arithmetic.row_cycles, self.arithmetic.sum_cycles - 1
        for i, row in enumerate(elements):
            for j, element in enumerate(row):
                m.d.comb += [element.stationary.eq(self.stationary), element.halves.eq(self.halves)]
                m.d.comb += self.sums[i * side + j].eq(element.sum)
                if self.block_load:
                    m.d.comb += element.weight_in.eq(self.weights[i * side + j])
                if j:
                    m.d.comb += element.left_in.eq(row[j - 1].left_out)
                    m.d.comb += element.control_in.eq(row[j - 1].control_out)
                if i:
                    above = elements[i - 1][j]
                    m.d.comb += [element.top_in.eq(above.top_out), element.sum_in.eq(above.sum)]
            entering = Signal(Control)
            m.d.comb += entering.eq(self.control)
            m.d.comb += entering.load.eq(self.load & (self.load_row == i))
            m.d.comb += [
                row[0].left_in.eq(delayed(m, self.left[i], i * row_cycles)),
                row[0].control_in.eq(delayed(m, entering, i * row_cycles)),
                elements[0][i].top_in.eq(delayed(m, self.top[i], i)),
                self.column_control[i].eq(delayed(m, elements[side - 1][i].control_in, before_sum)),
            ]
        m.d.comb += self.done.eq(Cat(element.done for row in elements for element in row))
        return m
