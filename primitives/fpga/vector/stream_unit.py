"""Stream units: a program's operators as a pipeline, which takes an element in every cycle (MAP IV-B3).

Activation units, the loss, Adam and the learner's weight update are stream units. A word holds one element per lane.
Golden model: `StreamProgram.golden`. Cycles: `words + program.latency`, without stalls.
"""

import numpy as np
from amaranth.hdl import Const, EnableInserter, Module, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.floating_point.operators import OPERATORS, StreamProgram
from placerl.primitives.fpga.floating_point.words import WORD_BITS, registered


class _Delays:
    """Provides each register's value in the cycles after it is ready; delay lines are shared."""

    def __init__(self, m: Module):
        self._m = m
        self._lines: list[list[Value]] = []

    def add(self, value: Value) -> None:
        """Add the next register."""
        self._lines.append([value])

    def at(self, register: int, cycles: int) -> Value:
        """Return the register's value `cycles` cycles after it was ready."""
        line = self._lines[register]
        if isinstance(line[0], Const):
            return line[0]
        while len(line) <= cycles:
            line.append(registered(self._m, line[-1], name="delay"))
        return line[cycles]


class StreamLane(wiring.Component):
    """The pipeline of a program's operators, which takes one element in every cycle.

    Ports:
        inputs: In(input_count x 32), at least one.
        results: Out(result count x 32), `program.latency` cycles later.
    """

    def __init__(self, program: StreamProgram):
        self.program = program
        super().__init__(
            {
                "inputs": In(data.ArrayLayout(WORD_BITS, max(1, program.input_count))),
                "results": Out(data.ArrayLayout(WORD_BITS, len(program.results))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        program, ready, delays = self.program, self.program.ready_cycles(), _Delays(m)
        for number in range(program.input_count):
            delays.add(self.inputs[number])
        for number, step in enumerate(program.steps):
            if step.op == "constant":
                delays.add(Const(int(np.float32(step.value).view(np.uint32)), WORD_BITS))
                continue
            m.submodules[f"step_{number}_{step.op}"] = operator = OPERATORS[step.op].make()
            start = max(ready[argument] for argument in step.arguments)
            for place, argument in enumerate(step.arguments):
                m.d.comb += operator.operands[place].eq(delays.at(argument, start - ready[argument]))
            delays.add(operator.result)
        for place, register in enumerate(program.results):
            value = delays.at(register, program.latency - ready[register])
            m.d.comb += self.results[place].eq(value)
        return m


class StreamUnit(wiring.Component):
    """A stream unit: several lanes that run the same program, with one input stream and one result stream.

    The unit stalls while its result is not taken.

    Args:
        lanes: elements per word, 1 or more.

    Ports:
        inputs: In(stream of lanes x input_count x 32).
        results: Out(stream of lanes x result count x 32), in the order of the inputs.
    """

    def __init__(self, program: StreamProgram, *, lanes: int = 1):
        if lanes < 1:
            raise ValueError(f"lanes: found {lanes}; allowed: 1 or more")
        self.program, self.lanes = program, lanes
        super().__init__(
            {
                "inputs": In(
                    stream.Signature(data.ArrayLayout(WORD_BITS, lanes * max(1, program.input_count)))
                ),
                "results": Out(stream.Signature(data.ArrayLayout(WORD_BITS, lanes * len(program.results)))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        running = ~self.results.valid | self.results.ready
        m.d.comb += self.inputs.ready.eq(running)
        for number in range(self.lanes):
            lane = StreamLane(self.program)
            m.submodules[f"lane_{number}"] = EnableInserter(running)(lane)
            for place in range(len(lane.inputs.as_value()) // WORD_BITS):
                m.d.comb += lane.inputs[place].eq(
                    self.inputs.payload[number * self.program.input_count + place]
                )
            for place in range(len(self.program.results)):
                at = number * len(self.program.results) + place
                m.d.comb += self.results.payload[at].eq(lane.results[place])
        m.submodules.valid = valid = EnableInserter(running)(_DelayLine(self.program.latency))
        m.d.comb += [valid.value.eq(self.inputs.valid), self.results.valid.eq(valid.delayed)]
        return m


class _DelayLine(wiring.Component):
    def __init__(self, cycles: int):
        self._cycles = cycles
        super().__init__({"value": In(1), "delayed": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        value: Value = self.value
        for _ in range(self._cycles):
            value = registered(m, value)
        m.d.comb += self.delayed.eq(value)
        return m
