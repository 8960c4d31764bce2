"""A hardware block whose reset is a port, so that a test can reset it within a run."""

from typing import Any

from amaranth.hdl import Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from placerl.primitives.fpga.simulation import Simulation


class Resettable(wiring.Component):
    """A block that is reset while its port `reset` is 1; its memories are not.

    Args:
        design: the block.
    """

    def __init__(self, design: wiring.Component) -> None:
        self._design = design
        super().__init__({**design.signature.members, "reset": In(1)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.design = ResetInserter(self.reset)(self._design)
        for name, member in self._design.signature.members.items():
            ours, its = getattr(self, name), getattr(self._design, name)
            if member.is_signature:
                wiring.connect(m, wiring.flipped(ours), its)
            else:
                m.d.comb += its.eq(ours) if member.flow == In else ours.eq(its)
        return m


def reset(model: Simulation) -> None:
    """Reset a simulated `Resettable` for some cycles."""
    model.write("reset", 1)
    model.step(3)
    model.write("reset", 0)
