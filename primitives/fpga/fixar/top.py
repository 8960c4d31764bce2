"""The accelerator with its host interface: AXI4-Lite registers, and AXI4-Streams as wide as a line of P words."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.fixar.accelerator import GROUP_BITS, Fixar
from placerl.primitives.fpga.fixar.adam import TAU_FRACTION
from placerl.primitives.fpga.fixar.engine import SHIFT_BITS
from placerl.primitives.fpga.fixar.parameters import state_word
from placerl.primitives.fpga.fixar.shape import CORES, SAMPLES, SCALES, WORD_BITS, FixarShape
from placerl.primitives.fpga.host import (
    COMMON,
    AxiLite,
    Field,
    Register,
    RegisterFile,
    RegisterMap,
    axi_stream,
    run_control,
)

SETTINGS = (
    "overlap",
    "halves",
    "groups",
    "critic_rate",
    "actor_rate",
    "epsilon",
    "tau",
    "actor_error",
    "deviation",
)
REGISTERS = RegisterMap(
    "fixar",
    "Trains DDPG's actor and critic in fixed point (FIX).",
    (
        *COMMON,
        Register("command", 0x10, "rw", 2, description="What `start` begins: 0 train, 1 act, 2 dump."),
        Register(
            "halves", 0x14, "rw", 1, description="Activations have 16 bits, and groups four samples, not two."
        ),
        Register(
            "groups", 0x18, "rw", GROUP_BITS, reset=1, description="Groups of samples in a batch, 1 or more."
        ),
        Register(
            "critic_rate",
            0x1C,
            "rw",
            description="Adam's corrected rate of the critic, in 2^-40, below 2^-8.",
        ),
        Register(
            "actor_rate", 0x20, "rw", description="Adam's corrected rate of the actor, in 2^-40, below 2^-8."
        ),
        Register(
            "epsilon", 0x24, "rw", 24, reset=1, description="Adam's corrected epsilon, in 2^-24, 1 or more."
        ),
        Register("tau", 0x28, "rw", TAU_FRACTION, description="How far targets move, in 2^-16, below 1."),
        Register("actor_error", 0x2C, "rw", description="-1 / B in two's complement, in 2^-24."),
        Register("deviation", 0x30, "rw", 17, description="Standard deviation of the noise, in 2^-16."),
        Register("overlap", 0x3C, "rw", 1, description="Adam runs alongside the next loop over a batch."),
        Register("cycles", 0x34, "ro", description="Cycles of the last training step or action."),
        Register(
            "shifts",
            0x38,
            "ro",
            SCALES * SHIFT_BITS,
            description="log2 of what the code 1 stands for, in 2^-16.",
            fields=tuple(
                Field(name, k * SHIFT_BITS, SHIFT_BITS, f"Of the {words}.")
                for k, (name, words) in enumerate(
                    (
                        ("inputs", "networks' inputs"),
                        ("actor_first", "actor's first hidden layer"),
                        ("actor_second", "actor's second hidden layer"),
                        ("critic_first", "critic's first hidden layer"),
                        ("critic_second", "critic's second hidden layer"),
                    )
                )
            ),
        ),
    ),
)


class FixarAccelerator(wiring.Component):
    """`accelerator.Fixar` with registers and AXI streams, to be put next to a host's link.

    Ports:
        s_axil: the registers, `REGISTERS`. control.start begins the command once the one before it has ended.
        s_axis_samples: lines of P words, as `accelerator.Fixar` reads them; a packet for each command. One with fewer
            or more lines than the command reads sets `events.packet`: with the first line after its end that the
            command takes, or when the command ends.
        s_axis_load, m_axis_dump: weights, targets and moments: a `state_word` of P weights in five beats of P words,
            the lowest bits first; taken while no command goes on. `last` marks the last beat of all that are sent; one
            that the host sends elsewhere sets `events.packet`.
        m_axis_errors: temporal difference errors, one a beat; `last` marks a batch's last.
        m_axis_action: an action in one beat.
    """

    register_map = REGISTERS

    def __init__(self, shape: FixarShape, seed: int = 0):
        self.shape, self.seed = shape, seed
        line = shape.side * WORD_BITS
        super().__init__(
            {
                "s_axil": In(AxiLite(REGISTERS.address_bits)),
                "s_axis_samples": In(axi_stream(line)),
                "s_axis_load": In(axi_stream(line)),
                "m_axis_dump": Out(axi_stream(line)),
                "m_axis_errors": Out(axi_stream(WORD_BITS)),
                "m_axis_action": Out(axi_stream(shape.action * WORD_BITS)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.registers = registers = RegisterFile(REGISTERS)
        m.submodules.fixar = fixar = Fixar(self.shape, self.seed)
        wiring.connect(m, wiring.flipped(self.s_axil), registers.bus)
        control = run_control(m, registers)
        m.d.comb += [
            *(getattr(fixar, name).eq(getattr(registers, name)) for name in SETTINGS),
            registers.cycles.eq(fixar.cycles),
            registers.shifts.as_value().eq(fixar.shifts.as_value()),
            control.works.eq(fixar.busy),
            control.takes.eq(fixar.commands.ready),
            fixar.commands.valid.eq(control.wanted),
            fixar.commands.payload.eq(registers.command),
        ]

        samples = self.s_axis_samples
        m.d.comb += [
            fixar.samples.payload.as_value().eq(samples.payload.data),
            fixar.samples.valid.eq(samples.valid),
            samples.ready.eq(fixar.samples.ready),
        ]
        taken, works = samples.valid & samples.ready, Signal()
        within, ended = Signal(), Signal()  # a packet has begun and not ended; one has ended in this command
        m.d.sync += works.eq(fixar.busy)
        with m.If(taken):
            m.d.sync += [within.eq(~samples.payload.last), ended.eq(ended | samples.payload.last)]
        ends = works & ~fixar.busy
        with m.If(ends):
            m.d.sync += [within.eq(0), ended.eq(0)]
        wrong = Signal()
        m.d.comb += wrong.eq((taken & ended) | (ends & within))
        errors, action = self.m_axis_errors, self.m_axis_action
        sent, size = Signal(GROUP_BITS + 2), Signal(GROUP_BITS + 2)
        m.d.comb += [
            size.eq(registers.groups * Mux(registers.halves, SAMPLES, CORES)),
            errors.payload.data.eq(fixar.errors.payload),
            errors.payload.last.eq(sent + 1 == size),
            errors.valid.eq(fixar.errors.valid),
            fixar.errors.ready.eq(errors.ready),
            action.payload.data.eq(fixar.action.payload.as_value()),
            action.payload.last.eq(1),
            action.valid.eq(fixar.action.valid),
            fixar.action.ready.eq(action.ready),
        ]
        with m.If(errors.valid & errors.ready):
            m.d.sync += sent.eq(Mux(errors.payload.last, 0, sent + 1))
        m.d.comb += registers.events.packet.eq(wrong | self._load(m, fixar))
        self._dump(m, fixar)
        return m

    def _beats(self) -> int:
        return int(state_word(self.shape.side).size // (self.shape.side * WORD_BITS))

    def _load(self, m: Module, fixar: Any) -> Value:
        """Join the beats of a word, of which the last goes through at once.

        Returns:
            Whether a packet ends elsewhere than with the last word.
        """
        beats, given = self._beats(), self.s_axis_load
        width = len(given.payload.data)
        held, beat = Signal((beats - 1) * width), Signal(range(beats))
        word = Signal(range(self.shape.words))
        last, last_word = beat == beats - 1, word == self.shape.words - 1
        m.d.comb += [
            fixar.load.payload.as_value().eq(Cat(held, given.payload.data)),
            fixar.load.valid.eq(given.valid & last),
            given.ready.eq(Mux(last, fixar.load.ready, 1)),
        ]
        with m.If(given.valid & given.ready):
            m.d.sync += beat.eq(Mux(last, 0, beat + 1))
            with m.If(~last):
                m.d.sync += held.eq(Cat(held[width:], given.payload.data))
            with m.Else():
                m.d.sync += word.eq(Mux(last_word, 0, word + 1))
        wrong: Value = given.valid & given.ready & given.payload.last & ~(last & last_word)
        return wrong

    def _dump(self, m: Module, fixar: Any) -> None:
        """Divide a word into beats; it stays offered until the last has been taken."""
        beats, taken = self._beats(), self.m_axis_dump
        width = len(taken.payload.data)
        beat, word = Signal(range(beats)), Signal(range(self.shape.words))
        last, last_word = beat == beats - 1, word == self.shape.words - 1
        value: stream.Interface = fixar.dump
        m.d.comb += [
            taken.payload.data.eq(value.payload.as_value().word_select(beat, width)),
            taken.payload.last.eq(last & last_word),
            taken.valid.eq(value.valid),
            value.ready.eq(taken.ready & last),
        ]
        with m.If(taken.valid & taken.ready):
            m.d.sync += beat.eq(Mux(last, 0, beat + 1))
            with m.If(last):
                m.d.sync += word.eq(Mux(last_word, 0, word + 1))
