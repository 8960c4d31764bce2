"""The multiplier with a configurable datapath against its golden model and plain arithmetic."""

from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st

from primitives.fpga.gemm.processing_element import ConfigurableMultiplier, multiply_golden

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
