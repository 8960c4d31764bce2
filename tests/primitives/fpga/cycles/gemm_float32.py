"""The reasons for the float32 core's cycles beyond PPO's Equation 5, which the tests check."""

from placerl.primitives.fpga.cycles.gemm_float32 import _idle_turns
from placerl.primitives.fpga.gemm.arithmetic import FLOAT32
from placerl.primitives.fpga.gemm.plan import GemmShape, passes, vectors


def difference_terms(shape: GemmShape, *, side: int, dataflow: str) -> dict[str, int]:
    """Return the cycles of a float32 product beyond PPO's Equation 5, by reason; they add up to the difference.

    Returns:
        The cycles for "fill and drain" (of the array), "idle turns" and "short passes". The top of this module
        explains them.
    """
    streamed = vectors(shape, dataflow)
    terms = {"fill and drain": FLOAT32.drain_cycles(side) - 2 * side, "idle turns": 0, "short passes": 0}
    if dataflow == "NS":
        terms["fill and drain"] -= FLOAT32.total_cycles
        # The turns of the last vector come after the last sum.
        terms["idle turns"] = _idle_turns(shape, side) * (streamed - 1)
    else:
        waits = max(0, FLOAT32.shortest_pass - streamed)
        terms["short passes"] = (passes(shape, dataflow, side) - 1) * waits
    return terms
