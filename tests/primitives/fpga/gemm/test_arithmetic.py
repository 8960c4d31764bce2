"""The cycles of the array's float32 operations are those of the operators."""

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.floating_point.arithmetic import Add, Multiply
from placerl.primitives.fpga.gemm.arithmetic import FLOAT32, INTEGER


def test_the_latencies_are_those_of_the_operators() -> None:
    assert FLOAT32.row_cycles == FLOAT32.total_cycles == Add.latency
    assert FLOAT32.sum_cycles == Multiply.latency + Add.latency


def test_integers_neither_interleave_nor_wait() -> None:
    assert (INTEGER.interleaved, INTEGER.shortest_pass, INTEGER.drain_cycles(4)) == (1, 1, 10)
    assert (FLOAT32.interleaved, FLOAT32.shortest_pass) == (3, 5)
