"""Cycles of a product: Equation 5, the core's own terms, and what follows from them."""

from hypothesis import given
from hypothesis import strategies as st

from placerl.primitives.fpga.cycles import gemm
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape

sizes = st.integers(1, 600)


def test_equation_5_by_hand() -> None:
    shape = GemmShape(a=20, b=30, c=40)
    assert [gemm.ppo_cycles(shape, side=16, dataflow=d) for d in DATAFLOWS] == [
        2 * 3 * 30 + 31,
        2 * 2 * 40 + 31,
        2 * 3 * 20 + 31,
    ]


@given(a=sizes, b=sizes, c=sizes, side=st.integers(2, 40))
def test_the_core_is_its_formula_plus_its_terms(a: int, b: int, c: int, side: int) -> None:
    shape = GemmShape(a, b, c)
    for dataflow in DATAFLOWS:
        formula = gemm.ppo_cycles(shape, side=side, dataflow=dataflow)
        for block_load in (False, True):
            options = {"side": side, "dataflow": dataflow, "block_load": block_load}
            terms = gemm.difference_terms(shape, **options)
            assert gemm.core_cycles(shape, **options) == formula + sum(terms.values())
        assert gemm.block_load_cycles(shape, side=side, dataflow=dataflow) == formula + 2
    # Never faster than the array can multiply.
    best = gemm.core_cycles(shape, side=side, dataflow=gemm.best_dataflow(shape, side=side))
    assert shape.multiply_adds <= best * side * side
