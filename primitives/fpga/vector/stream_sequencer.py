"""The sequencer of a stream or reduction unit, which reads a tensor's words and signals when the unit is done.

Golden model: `cycles.simulated_units.sequence_cycles`.
"""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

WORD_COUNT_BITS = 32
LATENCY_BITS = 16


# A tensor to stream: its memory words, 1 or more; the unit's latency from its last word to its last result, in cycles.
SequenceCommand = data.StructLayout({"words": WORD_COUNT_BITS, "latency": LATENCY_BITS})


class SequencerState(enum.Enum):
    """The state of the sequencer: idle, reading words, waiting for the last result, or signalling the end."""

    IDLE = 0
    READ = 1
    DRAIN = 2
    DONE = 3


class StreamSequencer(wiring.Component):
    """Requests the words of a tensor, one per cycle, and signals when the last result is written.

    It runs one command at a time.

    Ports:
        commands: In(stream of SequenceCommand): `words`, the tensor's memory words, and `latency`, the cycles from the
            unit's last word to its last result.
        read: Out(1), address: Out(32): the word requested from memory in this cycle; counts from 0.
        done: Out(stream of 32): the number of words streamed, after the last result is written.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "commands": In(stream.Signature(SequenceCommand)),
                "read": Out(1),
                "address": Out(WORD_COUNT_BITS),
                "done": Out(stream.Signature(WORD_COUNT_BITS)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        state, command, waited = Signal(SequencerState), Signal(SequenceCommand), Signal(LATENCY_BITS)
        m.d.comb += [
            self.commands.ready.eq(state == SequencerState.IDLE),
            self.done.valid.eq(state == SequencerState.DONE),
        ]
        m.d.comb += self.done.payload.eq(command.words)
        m.d.sync += self.read.eq(0)
        with m.Switch(state):
            with m.Case(SequencerState.IDLE):
                m.d.sync += [command.eq(self.commands.payload), self.address.eq(0), waited.eq(0)]
                with m.If(self.commands.valid):
                    m.d.sync += [state.eq(SequencerState.READ), self.read.eq(1)]
            with m.Case(SequencerState.READ):
                with m.If(self.address == command.words - 1):
                    m.d.sync += state.eq(SequencerState.DRAIN)
                with m.Else():
                    m.d.sync += [self.address.eq(self.address + 1), self.read.eq(1)]
            with m.Case(SequencerState.DRAIN):
                m.d.sync += waited.eq(waited + 1)
                with m.If(waited == command.latency):
                    m.d.sync += state.eq(SequencerState.DONE)
            with m.Case(SequencerState.DONE), m.If(self.done.ready):
                m.d.sync += state.eq(SequencerState.IDLE)
        return m
