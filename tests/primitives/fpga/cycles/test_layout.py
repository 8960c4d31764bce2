"""Stalls of an array that stands still while A is read across the plain layout, counted from the requests."""

from hypothesis import given
from hypothesis import strategies as st

from placerl.primitives.fpga.cycles.layout import block_reads, plain_stalls, standing_stalls
from placerl.primitives.fpga.gemm.arithmetic import FLOAT32, INTEGER
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape, blocks

SIZES = st.integers(1, 40)


def counted_reads(shape: GemmShape, side: int, turns: int) -> int:
    """The reads of NS: of every vector of a pass, whose blocks of C take turns, the block of A that it is in."""
    rows, columns = blocks(shape.a, side), blocks(shape.c, side)
    of_c = [(row, column) for row in range(rows) for column in range(columns)]
    asked = [
        (row, vector // side)
        for first in range(0, len(of_c), turns)
        for vector in range(shape.b)
        for row, _ in of_c[first : first + turns]
    ]
    return sum(one != before for before, one in zip([None, *asked], asked, strict=False))


@given(
    st.builds(GemmShape, SIZES, SIZES, SIZES),
    st.sampled_from((2, 3, 16)),
    st.sampled_from((INTEGER, FLOAT32)),
)
def test_ns_reads_a_block_whenever_a_vector_is_of_another_one(
    shape: GemmShape, side: int, arithmetic: object
) -> None:
    reads = counted_reads(shape, side, arithmetic.interleaved)  # type: ignore[attr-defined]
    stalls = standing_stalls(shape, side=side, dataflow="NS", arithmetic=arithmetic)  # type: ignore[arg-type]
    assert stalls == (reads - 1) * (side + 1)


@given(st.builds(GemmShape, SIZES, SIZES, SIZES), st.sampled_from(DATAFLOWS), st.sampled_from((2, 16)))
def test_integers_stall_as_blocks_row_by_row_do_but_for_the_first(
    shape: GemmShape, dataflow: str, side: int
) -> None:
    options = {"side": side, "dataflow": dataflow}
    first = side + 1 if dataflow == "IS" else 0
    assert standing_stalls(shape, **options) == plain_stalls(shape, **options) - first
    assert standing_stalls(shape, **options) == (block_reads(shape, **options) - 1) * (side + 1)


def test_hoppers_weight_gradients_by_hand() -> None:
    """64 x 512 activations times 512 x 64 gradients, P = 16: 4 x 32 blocks of A, which WS reads once each."""
    shape = GemmShape(64, 512, 64)
    options = {"side": 16, "arithmetic": FLOAT32}
    assert standing_stalls(shape, dataflow="WS", **options) == 127 * 17
    assert standing_stalls(shape, dataflow="IS", **options) == (4 * 128 - 1) * 17
    # Of 16 blocks of C in passes of 3, passes 1, 4, 5 and 6 are of one row, which takes 32 blocks of A; in passes 2 and
    # 3, of two rows, each of 512 vectors takes a block for each.
    assert standing_stalls(shape, dataflow="NS", **options) == (4 * 32 + 2 * 1024 - 1) * 17
