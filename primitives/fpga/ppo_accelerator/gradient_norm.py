"""The sum of the squares of two networks' gradients, by whose root they are clipped, as PPO's baseline PPO2 does (5.1).

Golden model: the tests' `GoldenTraining.norm_parts`.
"""

import math
from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export.platform import shared
from placerl.primitives.fpga.floating_point.arithmetic import Add, Multiply
from placerl.primitives.fpga.floating_point.words import WORD_BITS, delayed


def latency(side: int) -> int:
    """Return the cycles from a row of P gradients to its part of the sum."""
    return Multiply.latency + Add.latency * ((side - 1).bit_length() + 1)


PARTS = 4
"""Partial sums of a network: more than the cycles of an addition, so that each is there when its next row comes."""


def clip_scale(parts: Sequence[float], most: float) -> float:
    """Return the factor that the host lets gradients be multiplied by, as `algorithms.updates` clips them.

    Args:
        parts: the partial sums of a network's squares; the host adds those of parameters that it keeps, such as the
            standard deviations of actions.
        most: the largest norm.
    """
    return min(1.0, most / (math.sqrt(math.fsum(parts)) + 1e-6))


class SquareMultiply(Multiply):
    """Squares a gradient; a class of its own, so that an export writes its module once."""


class SquareAdd(Add):
    """Adds squares; a class of its own, so that an export writes its module once."""


class GradientNorm(wiring.Component):
    """Adds the squares of rows of P gradients, a row per cycle, to partial sums of their network.

    The squares of a row are added in pairs, of neighbours first. Rows go to the partial sums of their network in turn.

    Args:
        side: P, numbers in a row.

    Ports:
        valid: In(1), a row comes. network: In(1), it is of this network. words: In(P x 32), the row.
        clear_k: In(1): sets the partial sums of network k to 0; only while no row of it is in the unit.
        parts_k: Out(PARTS x 32), the partial sums of network k.
    """

    def __init__(self, *, side: int):
        self.side = side
        super().__init__(
            {
                "valid": In(1),
                "network": In(1),
                "words": In(data.ArrayLayout(WORD_BITS, side)),
                **{f"clear_{k}": In(1) for k in range(2)},
                **{f"parts_{k}": Out(data.ArrayLayout(WORD_BITS, PARTS)) for k in range(2)},
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        row = []
        for j in range(self.side):
            square, m.submodules[f"square_{j}"] = shared(platform, SquareMultiply)
            m.d.comb += [square.operands[side].eq(self.words[j]) for side in range(2)]
            row.append(square.result)
        latency, level = Multiply.latency, 0
        while len(row) > 1:
            pairs, last = zip(row[::2], row[1::2], strict=False), row[-1:] if len(row) % 2 else []
            row = []
            for number, operands in enumerate(pairs):
                add, m.submodules[f"add_{level}_{number}"] = shared(platform, SquareAdd)
                m.d.comb += [add.operands[side].eq(each) for side, each in enumerate(operands)]
                row.append(add.result)
            row += [delayed(m, each, Add.latency) for each in last]
            latency, level = latency + Add.latency, level + 1
        comes, network = delayed(m, self.valid, latency), delayed(m, self.network, latency)
        turns = [Signal(range(PARTS), name=f"turn_{k}") for k in range(2)]
        sums = [Signal(WORD_BITS, name=f"sum_{k}_{part}") for k in range(2) for part in range(PARTS)]
        place = Cat(Mux(network, turns[1], turns[0]), network)
        total, m.submodules.total = shared(platform, SquareAdd)
        m.d.comb += [total.operands[0].eq(Array(sums)[place]), total.operands[1].eq(row[0])]
        added, to = delayed(m, comes, Add.latency), delayed(m, place, Add.latency)
        with m.If(added):
            m.d.sync += Array(sums)[to].eq(total.result)
        for k, turn in enumerate(turns):
            of_network = sums[k * PARTS : (k + 1) * PARTS]
            m.d.comb += getattr(self, f"parts_{k}").as_value().eq(Cat(of_network))
            m.d.sync += turn.eq(turn + (comes & (network == k)))
            with m.If(getattr(self, f"clear_{k}")):
                m.d.sync += [turn.eq(0), *(each.eq(0) for each in of_network)]
        return m
