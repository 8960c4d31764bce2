"""How long the systolic core takes for a product: its controller alone, without the array that it feeds.

The controller decides when every operand enters; behind the last one the array adds the constant that its size gives
(`cycles.gemm.fill_cycles`). So the cycles are those of the whole core, which the tests compare, and a simulation runs
hundreds of times as fast.
"""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from primitives.fpga.gemm_control import GemmCommand, GemmController
from primitives.fpga.gemm_plan import GemmShape, blocks, vectors

COUNT_BITS = 32


def command_fields(shape: GemmShape, *, side: int, dataflow: str) -> dict[str, object]:
    """The command for a product of that shape, as the fields of a `GemmCommand`."""
    return {
        "dataflow": ("NS", "WS", "IS").index(dataflow),
        "a_blocks": blocks(shape.a, side),
        "b_blocks": blocks(shape.b, side),
        "c_blocks": blocks(shape.c, side),
        "vectors": vectors(shape, dataflow),
        "halves": 0,
    }


class GemmTimer(wiring.Component):
    """Counts the cycles of products, one after the other, with memories that always answer.

    Args:
        side: P.

    Ports:
        commands: In(stream of GemmCommand).
        cycles: Out(stream of 32): from the first operand in the array to the last sum at its edge.
    """

    def __init__(self, *, side: int):
        self.side = side
        super().__init__(
            {
                "commands": In(stream.Signature(GemmCommand)),
                "cycles": Out(stream.Signature(COUNT_BITS)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.controller = controller = GemmController(side=self.side)
        running, entered, since = Signal(), Signal(), Signal(COUNT_BITS)
        starting = self.commands.valid & self.commands.ready
        entering = controller.control.valid | controller.load
        m.d.comb += [
            controller.ready.eq(1),
            controller.drained.eq(~running),
            controller.command.valid.eq(starting),
            controller.command.payload.eq(self.commands.payload),
            self.commands.ready.eq(~running & ~self.cycles.valid & controller.command.ready),
        ]
        with m.If(entering | entered):
            m.d.sync += [entered.eq(1), since.eq(since + 1)]
        with m.If(controller.control.valid):
            # The last vector's sum is at the edge 2 P - 1 cycles after it entered.
            m.d.sync += self.cycles.payload.eq(since + 2 * self.side - 1)
        with m.If(starting):
            m.d.sync += [running.eq(1), entered.eq(0), since.eq(0)]
        with m.If(running & entered & ~controller.a.valid & ~controller.b.valid):
            m.d.sync += [running.eq(0), self.cycles.valid.eq(1)]
        with m.If(self.cycles.valid & self.cycles.ready):
            m.d.sync += self.cycles.valid.eq(0)
        return m
