"""The multiplier with a configurable datapath against its golden model and plain arithmetic."""

from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.primitives.fpga.gemm.arithmetic import INTEGER
from placerl.primitives.fpga.gemm.processing_element import ConfigurableMultiplier, ProcessingElement
from tests.primitives.fpga.gemm.golden import multiply_golden

words = st.tuples(st.integers(0, 2**32 - 1), st.integers(-(2**31), 2**31 - 1), st.booleans())
extremes = [
    (activation, weight, halves)
    for activation in (0, 0x80000000, 0x7FFFFFFF, 0xFFFFFFFF, 0x80008000, 0x00008000, 0x7FFF7FFF)
    for weight in (-(2**31), 2**31 - 1, -1, 0, 1)
    for halves in (False, True)
]


def test_golden_model_is_signed_arithmetic() -> None:
    assert multiply_golden(0xFFFFFFFF, 5, False) == (-5, 0)
    assert multiply_golden(0xFFFF0003, -7, True) == (-21, 7)


@settings(max_examples=20, deadline=None)
@given(cases=st.lists(words, min_size=1, max_size=50))
def test_whole_and_halves(cases: list[tuple[int, int, bool]]) -> None:
    multiplier = ConfigurableMultiplier(width=32)

    async def drive(ctx: object) -> None:
        for activation, weight, halves in cases + extremes:
            ctx.set(multiplier.activation, activation)
            ctx.set(multiplier.weight, weight)
            ctx.set(multiplier.halves, halves)
            found = ctx.get(multiplier.product), ctx.get(multiplier.upper_product)
            assert found == multiply_golden(activation, weight, halves)

    simulator = Simulator(multiplier)
    simulator.add_testbench(drive)
    simulator.run()


@settings(max_examples=20, deadline=None)
@given(data=st.data(), width=st.sampled_from([2, 16, 18, 32, 40, 64]), configurable=st.booleans())
def test_a_dot_product_is_done_after_the_cycles_of_a_sum(
    data: st.DataObject, width: int, configurable: bool
) -> None:
    lowest, highest = -(1 << width - 1), (1 << width - 1) - 1
    number = st.integers(lowest, highest) | st.sampled_from([lowest, highest, -1, 0])
    pairs = data.draw(st.lists(st.tuples(number, number), min_size=1, max_size=6))
    halves = configurable and data.draw(st.booleans())
    element = ProcessingElement(width=width, accumulator_width=2 * width + 3, configurable=configurable)
    found = []

    async def drive(ctx: Any) -> None:
        ctx.set(element.halves, halves)
        for place, (left, top) in enumerate(pairs):
            ctx.set(element.left_in, left)
            ctx.set(element.top_in, top)
            ctx.set(element.control_in, {"valid": 1, "first": place == 0, "last": place == len(pairs) - 1})
            await ctx.tick()
        ctx.set(element.control_in, {"valid": 0})
        for cycle in range(1, INTEGER.sum_cycles + 2):
            if ctx.get(element.done):
                found.append((cycle, [ctx.get(element.sum[lane]) for lane in range(element.lanes)]))
            await ctx.tick()

    products = [multiply_golden(left % (1 << width), top, halves, width) for left, top in pairs]
    wanted = [sum(lane) for lane in zip(*products, strict=True)][: element.lanes]
    simulator = Simulator(element)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    assert found == [(INTEGER.sum_cycles, wanted)]
