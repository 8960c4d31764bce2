"""The units of a deterministic policy in a pass through actor and critic (DDPG): tanh, the joined pair, and back.

The actor's last layer gives an action, tanh of its sums; the critic takes the state and the action. On the way back,
the errors of the action are those of the critic's inputs, times tanh's derivative 1 - a^2.
"""

from typing import Any

from amaranth.hdl import Cat, EnableInserter, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.floating_point.convert import FromFixed, ToFixed
from placerl.primitives.fpga.floating_point.operators import ProgramBuilder, StreamProgram
from placerl.primitives.fpga.floating_point.words import delayed
from placerl.primitives.fpga.learner_pipeline.layer import CYCLE_BITS, Number, stored, vector, word_write
from placerl.primitives.fpga.learner_pipeline.layer_shape import (
    FORMAT,
    POLICY_BACK_CYCLES,
    TANH_CYCLES,
    LayerShape,
)
from placerl.primitives.fpga.learner_pipeline.td_loss import TdLossUnit
from placerl.primitives.fpga.learner_pipeline.tensor_units import EMPTY, BackwardUnit, ForwardUnit
from placerl.primitives.fpga.vector.stream_unit import StreamLane

ONE = 1 << FORMAT.fraction_bits
ACTIONS_DEPTH = 4  # more samples than a backward unit holds


def tanh_program() -> StreamProgram:
    """Return the stream program of tanh."""
    b = ProgramBuilder(1)
    return b.finished([b.apply("tanh", 0)])


class _TanhLanes(wiring.Component):
    def __init__(self, size: int):
        self._size = size
        super().__init__(
            {"item": In(vector(size)), "valid": In(1), "result": Out(vector(size)), "done": Out(1)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        program = tanh_program()
        for number in range(self._size):
            m.submodules[f"from_{number}"] = before = FromFixed(
                bits=FORMAT.bits, fraction_bits=FORMAT.fraction_bits
            )
            m.submodules[f"tanh_{number}"] = lane = StreamLane(program)
            m.submodules[f"to_{number}"] = after = ToFixed(
                bits=FORMAT.bits, fraction_bits=FORMAT.fraction_bits
            )
            m.d.comb += [
                before.operands[0].eq(self.item[number]),
                lane.inputs[0].eq(before.result),
                after.operands[0].eq(lane.results[0]),
                self.result[number].eq(after.result.value),
            ]
        latency = FromFixed.latency + program.latency + ToFixed.latency
        m.d.comb += self.done.eq(delayed(m, self.valid, latency))
        return m


class TanhUnit(wiring.Component):
    """Computes tanh of every number of a sample, in float32; takes a sample per cycle, and stalls with its result.

    Args:
        size: numbers of a sample.

    Ports:
        inputs: In(stream of vector(size)), outputs: Out(stream of vector(size)).
    """

    def __init__(self, size: int):
        self.size = size
        super().__init__(
            {"inputs": In(stream.Signature(vector(size))), "outputs": Out(stream.Signature(vector(size)))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        running = ~self.outputs.valid | self.outputs.ready
        lanes = _TanhLanes(self.size)
        m.submodules.lanes = EnableInserter(running)(lanes)
        m.d.comb += [
            self.inputs.ready.eq(running),
            lanes.item.eq(self.inputs.payload),
            lanes.valid.eq(self.inputs.valid),
            self.outputs.payload.eq(lanes.result),
            self.outputs.valid.eq(lanes.done),
        ]
        return m


class _Delay(wiring.Component):
    """Delays samples without meaning, one per cycle, and stalls with its last one, as `TanhUnit` does.

    Args:
        cycles: from a sample to its output.

    Ports:
        inputs: In(stream of 1), outputs: Out(stream of 1).
    """

    def __init__(self, cycles: int):
        self._cycles = cycles
        super().__init__({"inputs": In(EMPTY), "outputs": Out(EMPTY)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.inputs.ready.eq(~self.outputs.valid | self.outputs.ready)
        moving = Signal(self._cycles)
        with m.If(self.inputs.ready):
            m.d.sync += moving.eq(Cat(self.inputs.valid, moving[:-1]))
        m.d.comb += self.outputs.valid.eq(moving[-1])
        return m


class TimedPolicyForward(wiring.Component):
    """Takes the cycles of `PolicyForward` without a datapath; its ports are those of `ForwardUnit` without one."""

    def __init__(self) -> None:
        super().__init__({"inputs": In(EMPTY), "outputs": Out(EMPTY), "cycles": In(CYCLE_BITS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.forward = forward = ForwardUnit(None)
        m.submodules.tanh = tanh = _Delay(TANH_CYCLES)
        m.d.comb += forward.cycles.eq(self.cycles)
        wiring.connect(m, wiring.flipped(self.inputs), forward.inputs)
        wiring.connect(m, forward.outputs, tanh.inputs)
        wiring.connect(m, tanh.outputs, wiring.flipped(self.outputs))
        return m


class TimedPolicyBackward(wiring.Component):
    """Takes the cycles of `PolicyBackward` without a datapath; its ports are those of `BackwardUnit` without one."""

    def __init__(self) -> None:
        super().__init__(
            {"errors": In(EMPTY), "inputs": In(EMPTY), "back": Out(EMPTY), "cycles": In(CYCLE_BITS)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.backward = backward = BackwardUnit(None)
        m.submodules.tanh = tanh = _Delay(POLICY_BACK_CYCLES)
        m.d.comb += backward.cycles.eq(self.cycles)
        wiring.connect(m, wiring.flipped(self.errors), backward.errors)
        wiring.connect(m, wiring.flipped(self.inputs), backward.inputs)
        wiring.connect(m, backward.back, tanh.inputs)
        wiring.connect(m, tanh.outputs, wiring.flipped(self.back))
        return m


class PolicyForward(wiring.Component):
    """The actor's last layer: computes the action, and joins it to the state, for the critic.

    Args:
        states: numbers of a state.

    Ports:
        inputs: In(stream of vector(inputs)); states: In(stream of vector(states)), the same samples' states.
        outputs: Out(stream of vector(states + outputs)): state and action.
        write: In(word_write): a word of weights to store.
    """

    def __init__(self, layer: LayerShape, states: int):
        self.layer, self._states = layer, states
        super().__init__(
            {
                "inputs": In(stream.Signature(vector(layer.inputs))),
                "states": In(stream.Signature(vector(states))),
                "outputs": Out(stream.Signature(vector(states + layer.outputs))),
                "write": In(word_write(layer)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.forward = forward = ForwardUnit(self.layer, relu=False)
        m.submodules.tanh = unit = TanhUnit(self.layer.outputs)
        wiring.connect(m, wiring.flipped(self.inputs), forward.inputs)
        wiring.connect(m, wiring.flipped(self.write), forward.write)
        wiring.connect(m, forward.outputs, unit.inputs)
        both = unit.outputs.valid & self.states.valid
        taken = both & self.outputs.ready
        m.d.comb += [
            self.outputs.valid.eq(both),
            self.outputs.payload.as_value().eq(
                Cat(self.states.payload.as_value(), unit.outputs.payload.as_value())
            ),
            unit.outputs.ready.eq(taken),
            self.states.ready.eq(taken),
        ]
        return m


class PolicyBackward(wiring.Component):
    """The critic's first layer on the way back to the actor: computes the errors of the action's sums.

    Args:
        layer: the layer, whose inputs are state and action.
        states: numbers of a state.

    Ports:
        errors: In(stream of vector(outputs)), inputs: In(stream of vector(inputs)): taken together.
        back: Out(stream of vector(inputs - states)).
        write: In(word_write): a word of weights to store.
    """

    def __init__(self, layer: LayerShape, states: int):
        self.layer, self._states = layer, states
        super().__init__(
            {
                "errors": In(stream.Signature(vector(layer.outputs))),
                "inputs": In(stream.Signature(vector(layer.inputs))),
                "back": Out(stream.Signature(vector(layer.inputs - states))),
                "write": In(word_write(layer)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        states, size = self._states, self.layer.inputs - self._states
        m.submodules.backward = backward = BackwardUnit(self.layer, relu=False)
        m.submodules.actions = queue = SyncFIFOBuffered(width=FORMAT.bits * size, depth=ACTIONS_DEPTH)
        for name in ("errors", "inputs", "write"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(backward, name))
        advance = ~self.back.valid | self.back.ready
        taken = backward.back.valid & queue.r_rdy & advance
        m.d.comb += [
            queue.w_data.eq(self.inputs.payload.as_value()[FORMAT.bits * states :]),
            queue.w_en.eq(self.inputs.valid & self.inputs.ready),
            queue.r_en.eq(taken),
            backward.back.ready.eq(taken),
        ]

        def kept(value: Any, shape: Any = Number) -> Signal:
            register = Signal(shape, name="stage")
            with m.If(advance):
                m.d.sync += register.eq(value)
            return register

        product = signed(2 * FORMAT.bits)
        valid = kept(kept(kept(backward.back.valid & queue.r_rdy, 1), 1), 1)
        with m.If(advance):
            m.d.sync += self.back.valid.eq(valid)
        for number in range(size):
            action = queue.r_data.word_select(number, FORMAT.bits).as_signed()
            error = kept(kept(backward.back.payload[states + number]))
            slope = kept(ONE - stored(m, kept(action * action, product)))
            with m.If(advance):
                m.d.sync += self.back.payload[number].eq(stored(m, kept(error * slope, product)))
        return m


class PassesLoss(wiring.Component):
    """The losses of DDPG's two passes: that of the critic, `TdLossUnit`, or that of the actor, -Q.

    The error of the actor's loss is -1 for every sample, a cycle after its value.

    Ports:
        Those of `TdLossUnit`, whose results come only of the critic's pass. acts: In(1), it is the actor's pass, whose
        samples have neither targets nor terms.
    """

    def __init__(self) -> None:
        self._critic = TdLossUnit(1)
        super().__init__({**self._critic.signature.members, "acts": In(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.critic = critic = self._critic
        for name in ("targets", "terms", "tds"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(critic, name))
        ascends = Signal()
        free = ~ascends | self.errors.ready
        with m.If(free):
            m.d.sync += ascends.eq(self.outputs.valid & self.acts)
        m.d.comb += [
            critic.huber.eq(self.huber),
            critic.outputs.payload.eq(self.outputs.payload),
            critic.outputs.valid.eq(self.outputs.valid & ~self.acts),
            self.outputs.ready.eq(Mux(self.acts, free & self.outputs.valid, critic.outputs.ready)),
            critic.errors.ready.eq(self.errors.ready & ~self.acts),
            self.errors.valid.eq(Mux(self.acts, ascends, critic.errors.valid)),
            self.errors.payload[0].eq(Mux(self.acts, -ONE, critic.errors.payload[0])),
        ]
        return m
