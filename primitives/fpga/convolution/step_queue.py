"""Runs steps of a program one after another, each when another queue's steps on which it depends are done."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.gemm.control import INDEX_BITS


class QueueState(enum.Enum, shape=2):  # type: ignore[call-arg]
    """The state of a queue: idle, fetching a step, waiting to start it, or waiting for its end."""

    IDLE = 0
    FETCH = 1
    START = 2
    WORK = 3


class StepQueue(wiring.Component):
    """Runs consecutive steps of a program that the host has loaded.

    Args:
        layout: the fields of a step, among them `after`: steps of the other queue that are done before it starts.
        steps: steps of the program.

    Ports:
        program: In(stream): the `step` at `index`; only while idle.
        begin: In(1), in a cycle in which both queues are idle: a run of `count` steps from `first` on.
        others: In(INDEX_BITS), steps of the other queue that are done. done: Out(INDEX_BITS), of this one.
        busy: Out(1), a run is in progress.
        step: Out(layout), start: Out(1): for the unit. idle: In(1), it is idle.
    """

    def __init__(self, layout: data.StructLayout, *, steps: int):
        self.layout, self.steps = layout, steps
        program = data.StructLayout({"index": range(steps), "step": layout})
        super().__init__(
            {
                "program": In(stream.Signature(program)),
                "begin": In(1),
                "first": In(range(steps)),
                "count": In(range(steps + 1)),
                "others": In(INDEX_BITS),
                "done": Out(INDEX_BITS),
                "busy": Out(1),
                "step": Out(layout),
                "start": Out(1),
                "idle": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.memory = memory = Ram(width=self.layout.size, depth=self.steps)
        state, at, left = Signal(QueueState), Signal.like(self.first), Signal.like(self.count)
        is_idle = state == QueueState.IDLE
        m.d.comb += [
            memory.write_enable.eq(self.program.valid & is_idle),
            memory.write_address.eq(self.program.payload.index),
            memory.write_data.eq(self.program.payload.step.as_value()),
            self.program.ready.eq(is_idle),
            memory.read_enable.eq(state == QueueState.FETCH),
            memory.read_address.eq(at),
            self.step.as_value().eq(memory.read_data),
            self.busy.eq(~is_idle),
            self.start.eq((state == QueueState.START) & (self.others >= self.step.after)),
        ]
        with m.Switch(state):
            with m.Case(QueueState.IDLE), m.If(self.begin):
                m.d.sync += [at.eq(self.first), left.eq(self.count), self.done.eq(0)]
                with m.If(self.count != 0):
                    m.d.sync += state.eq(QueueState.FETCH)
            with m.Case(QueueState.FETCH):
                m.d.sync += state.eq(QueueState.START)
            with m.Case(QueueState.START), m.If(self.start):
                m.d.sync += state.eq(QueueState.WORK)
            with m.Case(QueueState.WORK), m.If(self.idle):
                m.d.sync += [at.eq(at + 1), left.eq(left - 1), self.done.eq(self.done + 1)]
                m.d.sync += state.eq(QueueState.FETCH)
                with m.If(left == 1):
                    m.d.sync += state.eq(QueueState.IDLE)
        return m
