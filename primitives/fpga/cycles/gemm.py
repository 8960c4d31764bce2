"""Cycles of one matrix product on a P x P systolic array: by PPO's Equation 5, and of the hardware, `fpga.gemm.core`.

They differ as follows (`difference_terms`):

- fill and drain: an operand takes 2 P - 2 steps to the far corner, and its sum is ready `INTEGER.sum_cycles` = 4
  cycles later, because a multiplication and an addition are not done in one. Counted from the first operand in the
  array to the last sum at the edge, this is 2 P + 1 cycles beyond the operands, 2 more than PPO's.
- first block: loading a stationary block takes P cycles; the first one is loaded before anything
  streams. PPO leaves it out.
- short passes: later blocks are loaded while vectors stream, which takes at least P cycles. A pass, in which the
  vectors stream past one block, waits for the next block if it has fewer than P vectors. PPO leaves it out.

The last two are zero if a block is loaded at once (`block_load`): then Equation 5 is correct except for fill and
drain. This needs a memory for every element; PPO's gains at small batches depend on it.
"""

from placerl.primitives.fpga.gemm.arithmetic import INTEGER
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape, passes, vectors, word_shape


def fill_cycles(*, side: int) -> int:
    """Return the cycles to fill and drain the array, 2 P + 1, which are added to those of streaming the operands.

    Consecutive products in the same dataflow overlap, so that a sequence needs these cycles only once.
    """
    return INTEGER.drain_cycles(side) - 1


def ppo_cycles(shape: GemmShape, *, side: int, dataflow: str) -> int:
    """Return the cycles of a product by PPO's Equation 5: passes x (vectors per pass) + 2 P - 1."""
    return passes(shape, dataflow, side) * vectors(shape, dataflow) + 2 * side - 1


def difference_terms(
    shape: GemmShape, *, side: int, dataflow: str, halves: bool = False, block_load: bool = False
) -> dict[str, int]:
    """Return the cycles of a product on the core beyond PPO's Equation 5, by reason; they add up to the difference.

    Args:
        halves: whether the operand from the left carries two activations per word.
        block_load: whether stationary blocks are loaded at once.

    Returns:
        The cycles for "fill and drain" (of the array), "first block" (loading it) and "short passes" (which wait for
        the next block). The top of this module explains them.
    """
    words = word_shape(shape, dataflow, halves)
    terms = {"fill and drain": INTEGER.drain_cycles(side) - 2 * side, "first block": 0, "short passes": 0}
    if dataflow != "NS" and not block_load:
        terms["first block"] = side
        terms["short passes"] = (passes(words, dataflow, side) - 1) * max(0, side - vectors(words, dataflow))
    return terms


def core_cycles(
    shape: GemmShape, *, side: int, dataflow: str, halves: bool = False, block_load: bool = False
) -> int:
    """Return the cycles of a product on the core, from the first operand in the array to the last sum.

    Args:
        halves: whether the operand from the left carries two activations per word.
        block_load: whether stationary blocks are loaded at once.
    """
    words = word_shape(shape, dataflow, halves)
    terms = difference_terms(shape, side=side, dataflow=dataflow, halves=halves, block_load=block_load)
    return ppo_cycles(words, side=side, dataflow=dataflow) + sum(terms.values())


def block_load_cycles(shape: GemmShape, *, side: int, dataflow: str) -> int:
    """Return the cycles of a product on a core that loads stationary blocks at once."""
    return core_cycles(shape, side=side, dataflow=dataflow, block_load=True)


def best_dataflow(shape: GemmShape, *, side: int) -> str:
    """Return the dataflow with the fewest cycles for a product on the core; among equal ones the first of NS, WS, IS.

    In "NS" only sums stay in the array, in "WS" weights, and in "IS" inputs.
    """
    return min(DATAFLOWS, key=lambda dataflow: core_cycles(shape, side=side, dataflow=dataflow))
