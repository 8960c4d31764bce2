"""The cycles of float32 products: the stated differences from Equation 5 add up."""

from hypothesis import given
from hypothesis import strategies as st

from placerl.primitives.fpga.cycles import gemm, gemm_float32, layout
from placerl.primitives.fpga.gemm.arithmetic import FLOAT32, INTEGER
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape
from tests.primitives.fpga.cycles.gemm_float32 import difference_terms

SIZES = st.integers(1, 200)


@given(st.builds(GemmShape, SIZES, SIZES, SIZES), st.sampled_from(DATAFLOWS), st.sampled_from((2, 8, 16)))
def test_the_terms_add_up_to_the_difference(shape: GemmShape, dataflow: str, side: int) -> None:
    options = {"side": side, "dataflow": dataflow}
    terms = difference_terms(shape, **options)
    difference = gemm_float32.core_cycles(shape, **options) - gemm.ppo_cycles(shape, **options)
    assert difference == sum(terms.values())


@given(st.builds(GemmShape, SIZES, SIZES, SIZES), st.sampled_from(DATAFLOWS), st.sampled_from((2, 8, 16)))
def test_float32_takes_no_fewer_cycles_than_integers(shape: GemmShape, dataflow: str, side: int) -> None:
    """In an array that takes blocks at once, and across the plain layout where no blocks of C take turns."""
    options = {"side": side, "dataflow": dataflow}
    cycles = gemm_float32.core_cycles(shape, **options)
    integers = gemm.core_cycles(shape, block_load=True, **options)
    assert cycles >= integers
    if dataflow != "NS":
        stalls = layout.standing_stalls(shape, arithmetic=FLOAT32, **options)
        assert stalls == layout.standing_stalls(shape, arithmetic=INTEGER, **options)
        assert cycles + stalls >= integers + stalls


def test_hopper_hidden_layer_loses_little_to_the_adder() -> None:
    """64 x 64 weights, 64 samples, P = 8: 64 blocks of C in 22 passes of 3, and the longer way to the corner."""
    shape = GemmShape(64, 64, 64)
    terms = difference_terms(shape, side=8, dataflow="NS")
    assert terms == {"fill and drain": 18, "idle turns": 2 * 63, "short passes": 0}
    assert gemm_float32.core_cycles(shape, side=8, dataflow="NS") == 66 * 64 - 2 + 33
