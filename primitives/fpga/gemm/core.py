"""The systolic GEMM core: controller, array and accumulators (PPO 3.2.2).

The golden model of its result is `a @ b` in integers, or the tests' `float_golden` in float32; that of its timing is
`cycles.gemm.core_cycles`, or `cycles.gemm_float32.core_cycles`.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export.platform import shared
from placerl.primitives.fpga.gemm.arithmetic import FLOAT32, INTEGER
from placerl.primitives.fpga.gemm.column_accumulator import ColumnAccumulator
from placerl.primitives.fpga.gemm.control import Dataflow, GemmCommand, GemmController, VectorRequest
from placerl.primitives.fpga.gemm.float_element import FloatAccumulator
from placerl.primitives.fpga.gemm.processing_element import Control
from placerl.primitives.fpga.gemm.systolic_array import SystolicArray


class GemmCore(wiring.Component):
    """Computes C = A B in signed integers, modulo 2**accumulator_width, or in float32.

    The matrices may have any sizes; blocks that extend beyond a matrix are filled with zeros.

    The memories of A and B are outside. They accept a request by answering `ready`, and give the P words on `a_data`
    or `b_data` in the next cycle; words beyond the matrix are 0. `ready` may depend on the requests combinationally.

    Latency: the first vectors are on `a_data` and `b_data` one cycle after the command is taken plus one cycle of the
    memory. `cycles.gemm.core_cycles` gives the cycles after that.

    Args:
        side: P, rows and columns of the array, 2 or more.
        accumulator_depth: most vectors that a stationary command may stream (c of WS, a of IS).
        configurable: whether the elements have FIX's configurable datapath, which can multiply two activations of
            half the width at once. Then every sum has two lanes, otherwise one.
        block_load: whether every element has its own memory for the stationary operand (P x P banks, PPO Fig. 6),
            read together with the vectors; otherwise blocks are loaded from above, one row per cycle.
        datapath: whether the array and the accumulators exist. Without them the core has no data ports, but requests
            the same operands in the same cycles, which is enough for a timer.
        float32: whether numbers are float32 (`arithmetic`). Then `width` and `accumulator_width` are 32, `block_load`
            is required, and `ready` must always be 1.

    Ports:
        command: In(stream of GemmCommand).
        a, b: Out(VectorRequest), the vectors of A and B that are requested; ready: In(1), both requests are taken.
        a_data, b_data: In(P x signed(width)), the requested vectors.
        entering: Out(1), an operand or a weight enters the array in this cycle.
        idle: Out(1), no operand is in the array, and none is requested.
        tile_sums: Out(lanes x signed(accumulator_width)), P x P of them: element (i, j) of a block of C at i * P + j.
        tile_done: Out(P * P), the sums that are finished in this cycle (NS). Blocks come in the order of the passes.
        column_sums: Out(P x lanes x signed(accumulator_width)), the sums below the columns.
        column_done: Out(P), the columns whose sum is finished in this cycle. WS: column i gives row i of a block row
            of C, left to right. IS: column j gives column j of a block column of C, top to bottom.
        weights: In(signed(width)), P x P of them, row by row (`block_load` only): element (i, j) of the block
            requested in cycle t (A's (j, i) in WS, B's (i, j) in IS) is valid in cycle t + 1 + i r + j, where r is
            `arithmetic.row_cycles`.
        streaming: Out(1), a streaming operand enters the array in this cycle (without `datapath` only).
    """

    def __init__(
        self,
        *,
        side: int,
        width: int = 32,
        accumulator_width: int = 64,
        accumulator_depth: int = 1024,
        configurable: bool = False,
        block_load: bool = False,
        datapath: bool = True,
        float32: bool = False,
    ):
        if float32 and not block_load:
            raise ValueError("block_load: found False; allowed with float32: True")
        self.float32, self.arithmetic = float32, FLOAT32 if float32 else INTEGER
        self.side, self.width, self.accumulator_width = side, width, accumulator_width
        self.accumulator_depth, self.configurable = accumulator_depth, configurable
        self.block_load, self.datapath = block_load, datapath
        self.lanes = 2 if configurable else 1
        vector = data.ArrayLayout(signed(width), side)
        sums = data.ArrayLayout(signed(accumulator_width), self.lanes)
        requests = {
            "command": In(stream.Signature(GemmCommand)),
            "a": Out(VectorRequest),
            "b": Out(VectorRequest),
            "ready": In(1),
        }
        when = {"entering": Out(1), "idle": Out(1)}
        if not datapath:
            super().__init__({**requests, **when, "streaming": Out(1)})
            return
        super().__init__(
            {
                **requests,
                "a_data": In(vector),
                "b_data": In(vector),
                **when,
                "tile_sums": Out(sums).array(side * side),
                "tile_done": Out(side * side),
                "column_sums": Out(data.ArrayLayout(sums, side)),
                "column_done": Out(side),
                **({"weights": In(signed(width)).array(side * side)} if block_load else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        side = self.side
        m.submodules.controller = controller = GemmController(
            side=side, block_load=self.block_load, arithmetic=self.arithmetic
        )
        array = self._array(m) if self.datapath else None
        wiring.connect(m, wiring.flipped(self.command), controller.command)
        m.d.comb += [self.a.eq(controller.a), self.b.eq(controller.b), controller.ready.eq(self.ready)]

        # The memory answers one cycle after the request, so signals that belong to the vectors are delayed as
        # well.
        control = Signal(Control)
        load, load_row = Signal(), Signal(range(side))
        m.d.sync += [
            control.eq(controller.control),
            load.eq(controller.load),
            load_row.eq(controller.load_row),
        ]
        if array is not None:
            swapped = controller.dataflow == Dataflow.WS  # A's vectors enter the columns
            m.d.comb += [
                array.stationary.eq(controller.dataflow != Dataflow.NS),
                array.halves.eq(controller.halves),
                array.control.eq(control),
                array.load.eq(load),
                array.load_row.eq(load_row),
                array.left.eq(Mux(swapped, self.b_data, self.a_data)),
                array.top.eq(Mux(swapped, self.a_data, self.b_data)),
            ]
        m.d.comb += self.entering.eq(control.valid | load)
        drain_cycles = self.arithmetic.drain_cycles(side)
        remaining = Signal(range(drain_cycles + 1))
        with m.If(self.entering):
            m.d.sync += remaining.eq(drain_cycles)
        with m.Elif(remaining != 0):
            m.d.sync += remaining.eq(remaining - 1)
        asking = controller.a.valid | controller.b.valid
        m.d.comb += [
            self.idle.eq(~asking & ~self.entering & (remaining == 0)),
            controller.drained.eq(self.idle),
        ]

        if array is not None:
            self._add_sums(m, platform, array)
        else:
            m.d.comb += self.streaming.eq(control.valid)
        return m

    def _array(self, m: Module) -> SystolicArray:
        """Return the array, with the memories next to its elements if it has them."""
        m.submodules.array = array = SystolicArray(
            side=self.side,
            width=self.width,
            accumulator_width=self.accumulator_width,
            configurable=self.configurable,
            block_load=self.block_load,
            float32=self.float32,
        )
        if self.block_load:
            m.d.comb += [theirs.eq(ours) for theirs, ours in zip(array.weights, self.weights, strict=True)]
        return array

    def _add_sums(self, m: Module, platform: object, array: SystolicArray) -> None:
        """Connect the sums of blocks at the elements, and the accumulators below the columns."""
        side = self.side
        m.d.comb += [ours.eq(theirs) for ours, theirs in zip(self.tile_sums, array.sums, strict=True)]
        m.d.comb += self.tile_done.eq(array.done)
        valid = []
        for j in range(side):
            accumulator, m.submodules[f"accumulator_{j}"] = self._accumulator(platform)
            with m.If(array.stationary):
                m.d.comb += accumulator.control.eq(array.column_control[j])
            m.d.comb += accumulator.sums.eq(array.sums[(side - 1) * side + j])
            m.d.comb += self.column_sums[j].eq(accumulator.totals)
            valid.append(accumulator.valid)
        m.d.comb += self.column_done.eq(Cat(valid))

    def _accumulator(self, platform: object) -> tuple[Any, Any]:
        """Return the ports of a new accumulator, and the submodule to add."""
        if self.float32:
            return shared(platform, FloatAccumulator, depth=self.accumulator_depth)
        return shared(
            platform,
            ColumnAccumulator,
            width=self.accumulator_width,
            depth=self.accumulator_depth,
            lanes=self.lanes,
        )
