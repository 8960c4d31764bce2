"""Runs of single operators in Amaranth's simulator, and the numbers that they are tried on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from amaranth.sim import Simulator
from numpy.typing import NDArray

from placerl.primitives.fpga.floating_point.words import Operator

Words = NDArray[np.uint32]


def run(operator: Operator, operands: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """The operator's results, one for each row of operands, which come without a gap."""
    count, latency = len(operands[0]), operator.latency
    results = np.zeros(count, np.int64)
    simulator = Simulator(operator)
    simulator.add_clock(1e-9)

    async def testbench(context: Any) -> None:
        for cycle in range(count + latency):
            if cycle < count:
                for place, values in enumerate(operands):
                    context.set(operator.operands[place], int(values[cycle]))
            if cycle >= latency:
                result = getattr(operator.result, "value", operator.result)
                results[cycle - latency] = context.get(result)
            await context.tick()

    simulator.add_testbench(testbench)
    simulator.run()
    return results


def awkward_words(rng: np.random.Generator, count: int) -> Words:
    """Finite binary32 words: of any bits, near one, and with fractions of all ones, all zeros or one bit."""
    any_bits = rng.integers(0, 2**32, count, dtype=np.uint32)
    usual = rng.standard_normal(count).astype(np.float32).view(np.uint32)
    fractions = rng.choice(np.array([0, 1, 2**22, 2**23 - 1], np.uint32), count)
    edges = rng.integers(100, 150, count, dtype=np.uint32) << np.uint32(23) | fractions
    edges |= rng.integers(0, 2, count, dtype=np.uint32) << np.uint32(31)
    kind = rng.integers(0, 3, count)
    words = np.select([kind == 0, kind == 1], [any_bits, usual], edges).astype(np.uint32)
    return np.where(np.isfinite(words.view(np.float32)), words, np.uint32(0)).astype(np.uint32)


def exponents(words: Words) -> NDArray[np.int64]:
    """The biased exponents of binary32 words."""
    return (words >> np.uint32(23) & np.uint32(255)).astype(np.int64)


def with_exponents(words: Words, wanted: NDArray[np.int64]) -> Words:
    """Words with other biased exponents, limited to those of finite numbers."""
    placed = np.clip(wanted, 0, 254).astype(np.uint32) << np.uint32(23)
    return (words & np.uint32(0x807FFFFF) | placed).astype(np.uint32)
