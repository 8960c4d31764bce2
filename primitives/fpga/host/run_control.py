"""The control of runs, from the host's start to the end that it sees: the same in every design with `COMMON`."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class RunControl(wiring.Component):
    """Keeps a start until the design begins the run, and says when the design is busy and when it is done.

    A start while a run goes on is kept, and the next run begins after this one; further starts add no more runs.

    Ports:
        start: In(1), the host starts a run: `control.start`.
        wanted: Out(1), a run is to begin. takes: In(1), the design begins it in this cycle.
        works: In(1), the design is in a run, from the cycle after `takes` on.
        busy: Out(1), a run has started and has not ended: `status.busy`.
        done: Out(1), the cycle after the last one with `busy`: `events.done`.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "start": In(1),
                "wanted": Out(1),
                "takes": In(1),
                "works": In(1),
                "busy": Out(1),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        kept, before = Signal(), Signal()
        m.d.comb += [
            self.wanted.eq(self.start | kept),
            self.busy.eq(self.wanted | self.works),
            self.done.eq(before & ~self.busy),
        ]
        m.d.sync += [kept.eq(self.wanted & ~self.takes), before.eq(self.busy)]
        return m


def run_control(m: Module, registers: Any) -> Any:
    """Add a `RunControl` that is connected to the `COMMON` registers of a design, and return it."""
    m.submodules.run_control = control = RunControl()
    m.d.comb += [
        control.start.eq(registers.control.start),
        registers.status.busy.eq(control.busy),
        registers.events.done.eq(control.done),
    ]
    return control
