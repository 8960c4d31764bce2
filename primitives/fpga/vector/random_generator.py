"""Pseudo-random numbers for exploration noise (FIX III: the PRNG module after the actor's inference).

Uniform words come from xorshift128 (Marsaglia 2003, Journal of Statistical Software 8(14), period
2^128 - 1), one per cycle:

    t = x ^ (x << 11);  (x, y, z) <- (y, z, w);  w <- w ^ (w >> 19) ^ t ^ (t >> 8)

A Gaussian number is the sum of twelve uniform 16-bit numbers minus its mean, two from each of six generators. Its
variance is 1, and it is never beyond 6. (The kurtosis is 2.9; that of a normal distribution is 3.)
"""

from collections.abc import Sequence

import numpy as np
from amaranth.hdl import EnableInserter, Module, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.floating_point.convert import FromFixed

WORD_BITS = 32
GENERATORS = 6
UNIFORM_BITS = 16
MEAN = GENERATORS * ((1 << UNIFORM_BITS) - 1)  # of the sum of twelve: twelve times half of the largest
SUM_BITS = 22
SUM_LATENCY = 3  # registers from the words to the sum of twelve

State = tuple[int, int, int, int]


def seeds(seed: int, count: int) -> list[State]:
    """Return the start states of `count` generators, which follow from one seed; none is all zero.

    Args:
        seed: at least 0.
    """
    words = np.random.SeedSequence(seed).generate_state(4 * count).reshape(count, 4)
    return [(int(x) | 1, int(y), int(z), int(w)) for x, y, z, w in words]


class Xorshift(wiring.Component):
    """A generator of uniform 32-bit words, which gives one in every cycle with `enable`.

    Args:
        state: the start values of x, y, z and w, 32 bits each; not all 0.

    Ports:
        enable: In(1). word: Out(32), the word of this cycle.
    """

    def __init__(self, state: State):
        if not any(state):
            raise ValueError("state: found zeros; allowed: a word that is not 0")
        self.state = state
        super().__init__({"enable": In(1), "word": Out(WORD_BITS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        x, y, z, w = (
            Signal(WORD_BITS, init=value, name=name) for name, value in zip("xyzw", self.state, strict=True)
        )
        t = Signal(WORD_BITS)
        m.d.comb += [t.eq(x ^ (x << 11)), self.word.eq(w ^ (w >> 19) ^ t ^ (t >> 8))]
        with m.If(self.enable):
            m.d.sync += [x.eq(y), y.eq(z), z.eq(w), w.eq(self.word)]
        return m


class GaussianGenerator(wiring.Component):
    """A generator of Gaussian numbers with mean 0 and variance 1, one per cycle after the first few.

    Args:
        states: start states of the six uniform generators, as `seeds` returns them.

    Ports:
        numbers: Out(stream of 32): float32.
    """

    def __init__(self, states: Sequence[State]):
        if len(states) != GENERATORS:
            raise ValueError(f"states: found {len(states)}; allowed: {GENERATORS}")
        self.states = tuple(states)
        super().__init__({"numbers": Out(stream.Signature(WORD_BITS))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        convert = FromFixed(bits=SUM_BITS, fraction_bits=UNIFORM_BITS, latency=3)
        latency = SUM_LATENCY + convert.latency
        filled = Signal(range(latency + 1))
        ready = filled == latency
        running = ~ready | self.numbers.ready
        m.d.comb += [self.numbers.valid.eq(ready), self.numbers.payload.eq(convert.result)]
        with m.If(~ready):
            m.d.sync += filled.eq(filled + 1)
        # A tree of registers: of the two numbers of each generator, of three generators, of all.
        pairs = [Signal(UNIFORM_BITS + 1, name=f"pair_{number}") for number in range(GENERATORS)]
        halves = [Signal(UNIFORM_BITS + 3, name=f"half_{number}") for number in range(2)]
        total = Signal(signed(SUM_BITS))
        for number, state in enumerate(self.states):
            m.submodules[f"generator_{number}"] = generator = Xorshift(state)
            m.d.comb += generator.enable.eq(running)
            with m.If(running):
                m.d.sync += pairs[number].eq(generator.word[:UNIFORM_BITS] + generator.word[UNIFORM_BITS:])
        m.submodules.convert = EnableInserter(running)(convert)
        with m.If(running):
            m.d.sync += [
                half.eq(a + b + c) for half, (a, b, c) in zip(halves, (pairs[:3], pairs[3:]), strict=True)
            ]
            m.d.sync += total.eq(halves[0] + halves[1] - MEAN)
        m.d.comb += convert.operands[0].eq(total)
        return m
