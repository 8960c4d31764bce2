"""The sequencer of one network: it runs steps of the program that the host has loaded."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.ppo_accelerator.step import Step

CYCLE_BITS = 32


class RunState(enum.Enum, shape=2):  # type: ignore[call-arg]
    """The state of a sequencer: idle, fetching a step, starting it, or waiting for its end."""

    IDLE = 0
    FETCH = 1
    START = 2
    WORK = 3


class NetworkSequencer(wiring.Component):
    """Runs consecutive steps of a network's program, one after another, and counts the cycles.

    Ports:
        program: In(stream): the `step` at `index`; only while idle.
        runs: In(stream): a run of `count` steps from `first` on, which may be none; `shared`: on both units.
        may_start: In(1), a run may begin; may_share: In(1), so may one on both units.
        finished: Out(stream of 32): the cycles of each run.
        busy: Out(1), a run is in progress. shared: Out(1), it is on both units.
        step: Out(Step), start: Out(1): for the units. idle: In(1), they are idle.
    """

    def __init__(self, *, steps: int):
        self.steps = steps
        run = data.StructLayout({"first": range(steps), "count": range(steps + 1), "shared": 1})
        program = data.StructLayout({"index": range(steps), "step": Step})
        super().__init__(
            {
                "program": In(stream.Signature(program)),
                "runs": In(stream.Signature(run)),
                "may_start": In(1),
                "may_share": In(1),
                "finished": Out(stream.Signature(CYCLE_BITS)),
                "busy": Out(1),
                "shared": Out(1),
                "step": Out(Step),
                "start": Out(1),
                "idle": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.memory = memory = Ram(width=Step.size, depth=self.steps)
        state, run, cycles = Signal(RunState), Signal.like(self.runs.payload), Signal(CYCLE_BITS)
        is_idle = state == RunState.IDLE
        may_begin = self.may_start & (~self.runs.payload.shared | self.may_share)
        m.d.comb += [
            memory.write_enable.eq(self.program.valid & is_idle),
            memory.write_address.eq(self.program.payload.index),
            memory.write_data.eq(self.program.payload.step.as_value()),
            self.program.ready.eq(is_idle),
            memory.read_enable.eq(state == RunState.FETCH),
            memory.read_address.eq(run.first),
            self.step.as_value().eq(memory.read_data),
            self.busy.eq(~is_idle),
            self.shared.eq(~is_idle & run.shared),
            self.start.eq(state == RunState.START),
            self.runs.ready.eq(is_idle & ~self.finished.valid & may_begin),
            self.finished.payload.eq(cycles),
        ]
        m.d.sync += cycles.eq(cycles + self.busy)
        with m.If(self.finished.ready):
            m.d.sync += self.finished.valid.eq(0)
        with m.Switch(state):
            with m.Case(RunState.IDLE), m.If(self.runs.valid & self.runs.ready):
                m.d.sync += [run.eq(self.runs.payload), cycles.eq(0), state.eq(RunState.FETCH)]
                with m.If(self.runs.payload.count == 0):  # it has ended
                    m.d.sync += [state.eq(RunState.IDLE), self.finished.valid.eq(1)]
            with m.Case(RunState.FETCH):
                m.d.sync += state.eq(RunState.START)
            with m.Case(RunState.START):
                m.d.sync += state.eq(RunState.WORK)
            with m.Case(RunState.WORK), m.If(self.idle):
                m.d.sync += [run.first.eq(run.first + 1), run.count.eq(run.count - 1)]
                m.d.sync += state.eq(RunState.FETCH)
                with m.If(run.count == 1):
                    m.d.sync += [state.eq(RunState.IDLE), self.finished.valid.eq(1)]
        return m
