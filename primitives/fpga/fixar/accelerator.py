"""The top level of the accelerator: memories, cores, Adam, and the sequencer that runs the programs (FIX Fig. 2, 3)."""

from enum import IntEnum
from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.fixar import program
from placerl.primitives.fpga.fixar.adam import RATE_BITS, TAU_FRACTION
from placerl.primitives.fpga.fixar.engine import SHIFT_BITS, LayerEngine, PassKind, pass_layout
from placerl.primitives.fpga.fixar.parameters import ParameterMemory, state_word
from placerl.primitives.fpga.fixar.program import ScalarFunction, StepKind
from placerl.primitives.fpga.fixar.scalar import FixarScalarUnit
from placerl.primitives.fpga.fixar.shape import CORES, SAMPLES, SCALES, WORD_BITS, FixarShape

GROUP_BITS = 16
COUNT_BITS = 32


class FixarCommand(IntEnum):
    """What the host asks for."""

    TRAIN = 0
    ACT = 1
    DUMP = 2


class Fixar(wiring.Component):
    """Trains DDPG's actor and critic on groups of samples that the host streams. Golden model: the tests'
    `GoldenFixar`.

    It must be given its weights by `load` first, and again after a reset; this also clears the sums of gradients.

    Args:
        datapath: whether there are cores, memories and Adam; without them, commands take the same cycles.

    Ports:
        overlap: In(1), Adam runs alongside the next loop over a batch: the actor is trained through the critic before
            its update, and the goals are of a target actor that is an update older. Without it, a loop waits for the
            update before it, as DDPG has it.
        halves: In(1), activations have 16 bits (FIX Algorithm 1, after the quantisation delay). The scales then stay
            what the largest activations made them. groups: In(16), of a batch, 1 or more: of two samples, or with
            `halves` of four.
        critic_rate, actor_rate, epsilon: In, `adam.corrections` of this update. tau: In(16), in 2^-16.
        actor_error: In(signed(32)), -1 / B with 24 fraction bits. deviation: In(17), of the noise, in 2^-16.
            All of these are constant while `busy`; an update that goes on longer keeps its own.
        commands: In(stream of 2): a `FixarCommand`; taken while nothing goes on. With `overlap` the actor's update may
            go on after TRAIN: the next TRAIN does not wait for it; ACT and DUMP do.
        samples: In(stream of P x signed(32)): lines, in the order in which the program reads them. Of a group each line
            is sent for all its samples in turn. TRAIN takes for each group the lines of the next
            state, a line with reward (16 fraction bits), discount x (1 - terminated) (30), and 2 x weight / B (30),
            then the lines of the state, and a line with the action; after all groups it takes each group's states
            again. ACT takes the lines of one state.
        load: In(stream of `state_word`), taken while nothing goes on; dump: Out(the same): all weights, targets and
            moments.
        errors: Out(stream of signed(32)), each sample's temporal difference error, 16 fraction bits.
        action: Out(stream of A x signed(32)), the answer to ACT, 16 fraction bits.
        busy: Out(1). cycles: Out(32), of the last TRAIN or ACT. shifts: Out(5 x 5), scales of 16-bit codes.
    """

    def __init__(self, shape: FixarShape, seed: int = 0, *, datapath: bool = True):
        if shape.side < 4:
            raise ValueError(f"side: found {shape.side}; allowed: 4 or more")
        self.shape, self.seed, self.datapath = shape, seed, datapath
        word = state_word(shape.side)
        line = data.ArrayLayout(signed(WORD_BITS), shape.side)
        super().__init__(
            {
                "overlap": In(1),
                "halves": In(1),
                "groups": In(GROUP_BITS),
                "critic_rate": In(RATE_BITS),
                "actor_rate": In(RATE_BITS),
                "epsilon": In(24),
                "tau": In(TAU_FRACTION),
                "actor_error": In(signed(WORD_BITS)),
                "deviation": In(17),
                "commands": In(stream.Signature(2)),
                "samples": In(stream.Signature(line)),
                "load": In(stream.Signature(word)),
                "dump": Out(stream.Signature(word)),
                "errors": Out(stream.Signature(signed(WORD_BITS))),
                "action": Out(stream.Signature(data.ArrayLayout(signed(WORD_BITS), shape.action))),
                "busy": Out(1),
                "cycles": Out(COUNT_BITS),
                "shifts": Out(data.ArrayLayout(SHIFT_BITS, SCALES)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape, side = self.shape, self.shape.side
        m.submodules.engine = engine = LayerEngine(shape, datapath=self.datapath)
        m.submodules.memory = memory = ParameterMemory(shape, datapath=self.datapath)
        m.submodules.scalar = scalar = FixarScalarUnit(shape, self.seed)
        _join(m, engine, memory, side)
        m.d.comb += [
            engine.halves.eq(self.halves),
            engine.actions.eq(scalar.actions),
            engine.output_errors.eq(scalar.output_errors),
            scalar.outputs.eq(engine.outputs),
            scalar.input_errors.eq(engine.input_errors),
            scalar.actor_error.eq(self.actor_error),
            scalar.deviation.eq(self.deviation),
            self.shifts.eq(engine.shifts),
            memory.epsilon.eq(self.epsilon),
            memory.tau.eq(self.tau),
        ]
        idle = Signal()
        m.d.comb += [
            memory.load.payload.eq(self.load.payload),
            memory.load.valid.eq(self.load.valid & idle),
            self.load.ready.eq(memory.load.ready & idle),
        ]
        wiring.connect(m, memory.words, wiring.flipped(self.dump))

        # The instruction.
        trains = program.train(shape)
        code = [*trains, *program.act(shape)]
        counter = Signal(range(len(code)))
        operation, function = Signal(range(len(StepKind))), Signal(range(len(ScalarFunction)))
        count, target, updates_actor = Signal(range(side + 1)), Signal.like(counter), Signal()
        command = Signal(pass_layout(shape))
        with m.Switch(counter):
            for place, one in enumerate(code):
                with m.Case(place):
                    m.d.comb += [
                        operation.eq(one.operation),
                        function.eq(one.function),
                        count.eq(one.count),
                        target.eq(one.target),
                        updates_actor.eq(one.actor),
                        *(command[name].eq(value) for name, value in one.fields.items()),
                    ]
        m.d.comb += [
            engine.command.eq(command),
            scalar.function.eq(function),
            scalar.count.eq(count),
            memory.rate.eq(Mux(updates_actor, self.actor_rate, self.critic_rate)),
            memory.critic.eq(~updates_actor),
        ]

        group, acts = Signal(GROUP_BITS), Signal()
        number, last = (
            Signal(range(SAMPLES), name=name) for name in ("number", "last")
        )  # samples of the group
        line = Signal(range(shape.lines))
        part = Signal()  # of a pass that takes a group's samples in two parts
        item = self.samples.payload
        held = Signal(data.ArrayLayout(item.shape(), SAMPLES - 1))
        last_sample = number == last
        m.d.comb += [
            last.eq(Mux(acts, 0, Mux(self.halves, SAMPLES - 1, CORES - 1))),
            scalar.last.eq(last),
            engine.alone.eq(acts),
            engine.part.eq(part),
            engine.line.eq(line),
            engine.states[SAMPLES - 1].eq(item),
            *(
                engine.states[n].as_value().eq(Mux(number == n, item.as_value(), held[n].as_value()))
                for n in range(SAMPLES - 1)
            ),
            scalar.line.eq(item),
            scalar.number.eq(number),
            self.errors.payload.eq(scalar.errors[number]),
            *(self.action.payload[a].eq(scalar.actions[0][a]) for a in range(shape.action)),
        ]
        m.d.comb += self.busy.eq(1)
        with m.If(self.busy & ~memory.dumping):
            m.d.sync += self.cycles.eq(self.cycles + 1)

        def following() -> None:
            m.d.sync += counter.eq(counter + 1)
            m.next = "START"

        def next_sample() -> None:
            m.d.sync += number.eq(Mux(last_sample, 0, number + 1))

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += idle.eq(1)
                asked = self.commands.payload
                goes_on = self.overlap & (asked == FixarCommand.TRAIN)
                m.d.comb += [
                    self.busy.eq(memory.dumping),
                    self.commands.ready.eq(~memory.dumping & (~memory.busy | goes_on)),
                ]
                with m.If(self.commands.valid & self.commands.ready):
                    m.d.comb += memory.publish.eq(~self.overlap)
                    with m.If(asked == FixarCommand.DUMP):
                        m.d.comb += memory.dump.eq(1)
                    with m.Else():
                        m.d.sync += [
                            counter.eq(Mux(asked == FixarCommand.ACT, len(trains), 0)),
                            acts.eq(asked == FixarCommand.ACT),
                            group.eq(0),
                            self.cycles.eq(1),
                        ]
                        m.next = "START"
            with m.State("START"):
                m.d.sync += [line.eq(0), number.eq(0)]
                with m.Switch(operation):
                    with m.Case(StepKind.PASS):
                        m.d.comb += engine.start.eq(1)
                        m.next = "PASS"
                    with m.Case(StepKind.SCALAR):
                        m.d.comb += scalar.start.eq(1)
                        m.next = "SCALAR"
                    with m.Case(StepKind.UPDATE), m.If(~memory.busy):
                        m.d.comb += [memory.publish.eq(1), memory.update.eq(1)]
                        m.next = "UPDATE"
                    with m.Case(StepKind.LOOP):
                        with m.If(group + 1 == self.groups):
                            m.d.sync += [group.eq(0), counter.eq(counter + 1)]
                        with m.Else():
                            m.d.sync += [group.eq(group + 1), counter.eq(target)]
                    with m.Case(StepKind.END):
                        m.next = "IDLE"
                    with m.Case(StepKind.READ_STATES):
                        m.next = "READ_STATES"
                    with m.Case(StepKind.SEND_ERRORS):
                        m.next = "SEND_ERRORS"
                    with m.Case(StepKind.SEND_ACTION):
                        m.next = "SEND_ACTION"
                    with m.Default():
                        m.next = "READ_LINE"
            with m.State("PASS"), m.If(engine.done):
                with m.If(self.halves & (command.kind != PassKind.FORWARD) & ~part):
                    m.d.sync += part.eq(1)
                    m.next = "START"
                with m.Else():
                    m.d.sync += part.eq(0)
                    following()
            with m.State("SCALAR"), m.If(scalar.done):
                following()
            with m.State("UPDATE"), m.If(self.overlap | ~memory.busy):
                m.d.comb += memory.publish.eq(~self.overlap)
                following()
            with m.State("READ_STATES"):
                m.d.comb += self.samples.ready.eq(1)
                with m.If(self.samples.valid):
                    m.d.sync += held[number].eq(item)
                    next_sample()
                    with m.If(last_sample):
                        m.d.comb += engine.store.eq(1)
                        m.d.sync += line.eq(line + 1)
                        with m.If(line == -(-shape.state // side) - 1):
                            following()
            with m.State("READ_LINE"):
                m.d.comb += self.samples.ready.eq(1)
                with m.If(self.samples.valid):
                    m.d.comb += [
                        scalar.take_action.eq(operation == StepKind.READ_ACTIONS),
                        scalar.take_outcome.eq(operation == StepKind.READ_OUTCOMES),
                    ]
                    next_sample()
                    with m.If(last_sample):
                        following()
            with m.State("SEND_ERRORS"):
                m.d.comb += self.errors.valid.eq(1)
                with m.If(self.errors.ready):
                    next_sample()
                    with m.If(last_sample):
                        following()
            with m.State("SEND_ACTION"):
                m.d.comb += self.action.valid.eq(1)
                with m.If(self.action.ready):
                    following()
        return m


def _join(m: Module, engine: Any, memory: Any, side: int) -> None:
    """Connect the engine with the memories of weights and gradients."""
    for name in ("block", "target", "gradient_block", "write", "write_block"):
        m.d.comb += getattr(memory, name).eq(getattr(engine, name))
    for r in range(side):
        m.d.comb += getattr(memory, f"new_{r}").eq(getattr(engine, f"new_{r}"))
        for name in ("weights", "gradients"):
            m.d.comb += getattr(engine, f"{name}_{r}").eq(getattr(memory, f"{name}_{r}"))
