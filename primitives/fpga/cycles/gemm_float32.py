"""Cycles of one float32 matrix product on the P x P systolic array (`fpga.gemm.arithmetic`), against PPO's Equation 5.

They differ as follows (the tests' `difference_terms`, exact):

- fill and drain: an operand reaches the far corner after (P - 1) (r + 1) cycles, where r = 3 cycles are those of an
  addition, and its sum is ready 6 cycles later; below the columns (WS, IS) there is one more addition.
- idle turns: in NS the array works on r blocks of C in turn. If their number is no multiple of r, turns
  of the last pass stay empty.
- short passes: a pass of WS or IS has at least `shortest_pass` cycles, because a total that was just written cannot
  be added to at once.
"""

from placerl.primitives.fpga.gemm.arithmetic import FLOAT32
from placerl.primitives.fpga.gemm.plan import GemmShape, passes, vectors


def _idle_turns(shape: GemmShape, side: int) -> int:
    """Return the empty turns of the last pass in NS."""
    return -passes(shape, "NS", side) % FLOAT32.interleaved


def core_cycles(shape: GemmShape, *, side: int, dataflow: str) -> int:
    """Return the cycles of a float32 product on the core, from the first operand in the array to the last sum."""
    streamed = vectors(shape, dataflow)
    if dataflow == "NS":
        idle = _idle_turns(shape, side)
        turns = (passes(shape, dataflow, side) + idle) * streamed - idle
        return turns + FLOAT32.drain_cycles(side) - FLOAT32.total_cycles - 1
    waits = max(0, FLOAT32.shortest_pass - streamed)
    return passes(shape, dataflow, side) * (streamed + waits) - waits + FLOAT32.drain_cycles(side) - 1
