"""The systolic array's element and its accumulator in float32 (PPO 3.2.2, Fig. 5).

Golden model: `float_golden` of the tests, which adds in the order of the hardware.
"""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.floating_point.arithmetic import Add, Multiply
from placerl.primitives.fpga.floating_point.words import WORD_BITS, delayed
from placerl.primitives.fpga.gemm.arithmetic import FLOAT32
from placerl.primitives.fpga.gemm.processing_element import Control

_Sum = data.ArrayLayout(signed(WORD_BITS), 1)


class FloatElement(wiring.Component):
    """An element of the systolic array that starts one float32 multiply-accumulate per cycle.

    It has the ports of a `ProcessingElement` with `block_load`, and words of 32 bits. Operands move to the
    right in one cycle, and down in `FLOAT32.row_cycles`, which an addition takes.

    In the non-stationary dataflow the operands of `FLOAT32.interleaved` blocks of C take turns, because the adder
    returns a running sum that many cycles later. In a stationary dataflow the running sum moves down the column.

    Ports:
        stationary: In(1), whether the dataflow is stationary; constant while operands are in the array.
        halves: In(1), not used: a word holds one number.
        control_in, control_out: Control, from the left, to the right. `load` is not used.
        left_in, left_out: signed(32), the operand that streams through the row.
        top_in, top_out: signed(32), the column's operand (non-stationary).
        sum_in: In(1 x signed(32)), from above, `Multiply.latency` cycles after the operand (stationary).
        sum: Out(1 x signed(32)), `FLOAT32.sum_cycles` cycles after the operands.
        done: Out(1), `sum` is a finished dot product (non-stationary).
        weight_in: In(signed(32)), the weight of the pass whose `first` vector is here in this cycle.
    """

    def __init__(self) -> None:
        word = signed(WORD_BITS)
        super().__init__(
            {
                "stationary": In(1),
                "halves": In(1),
                "control_in": In(Control),
                "control_out": Out(Control),
                "left_in": In(word),
                "left_out": Out(word),
                "top_in": In(word),
                "top_out": Out(word),
                "sum_in": In(_Sum),
                "sum": Out(_Sum),
                "done": Out(1),
                "weight_in": In(word),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.multiply = multiply = Multiply()
        m.submodules.add = add = Add()
        control = self.control_in
        m.d.sync += [self.left_out.eq(self.left_in), self.control_out.eq(control)]
        m.d.comb += self.top_out.eq(delayed(m, self.top_in, FLOAT32.row_cycles))
        weight = Signal(signed(WORD_BITS))
        with m.If(control.valid & control.first):
            m.d.sync += weight.eq(self.weight_in)
        operand = Mux(self.stationary, Mux(control.first, self.weight_in, weight), self.top_in)
        m.d.comb += [multiply.operands[0].eq(self.left_in), multiply.operands[1].eq(operand)]
        begins = delayed(m, control.first, Multiply.latency)
        so_far = Mux(self.stationary, self.sum_in[0], Mux(begins, 0, add.result))
        m.d.comb += [
            add.operands[0].eq(so_far),
            add.operands[1].eq(multiply.result),
            self.sum[0].eq(add.result),
        ]
        ends = control.valid & control.last & ~self.stationary
        m.d.comb += self.done.eq(delayed(m, ends, FLOAT32.sum_cycles))
        return m


class FloatAccumulator(wiring.Component):
    """Adds the float32 partial sums that leave a column of the array, vector by vector (PPO 3.2.2: the FIFOs).

    It has the ports of a `ColumnAccumulator` with one lane of 32 bits. A total is ready `FLOAT32.total_cycles`
    cycles after its last partial sum. Passes must have at least `FLOAT32.shortest_pass` cycles.

    Args:
        depth: most sums in a pass.

    Ports:
        control: In(Control), for the sums that arrive in the next cycle: `valid`, there are sums; `first`, a pass
            begins; `restart`, new totals begin; `last`, the totals are finished.
        sums: In(1 x signed(32)), partial sums.
        totals: Out(1 x signed(32)), the sums added so far; finished when `valid`.
        valid: Out(1).
    """

    def __init__(self, *, depth: int):
        self.depth = depth
        super().__init__({"control": In(Control), "sums": In(_Sum), "totals": Out(_Sum), "valid": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Ram(width=WORD_BITS, depth=self.depth)
        m.submodules.add = add = Add()
        position = Signal(range(self.depth))
        arriving, current = self.control, Signal(Control)
        m.d.comb += [
            memory.read_address.eq(Mux(arriving.first, 0, position)),
            memory.read_enable.eq(arriving.valid),
        ]
        with m.If(arriving.valid):
            m.d.sync += position.eq(Mux(arriving.first, 1, position + 1))
        m.d.sync += current.eq(arriving)
        m.d.comb += [
            add.operands[0].eq(Mux(current.restart, 0, memory.read_data)),
            add.operands[1].eq(self.sums[0]),
            self.totals[0].eq(add.result),
            memory.write_data.eq(add.result),
            memory.write_address.eq(delayed(m, memory.read_address, 1 + FLOAT32.total_cycles)),
            memory.write_enable.eq(delayed(m, current.valid, FLOAT32.total_cycles)),
            self.valid.eq(delayed(m, current.valid & current.last, FLOAT32.total_cycles)),
        ]
        return m
