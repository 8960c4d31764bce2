"""Cycles of one matrix product on a P x P systolic array: PPO's Equation 5, and `fpga.gemm.core`.

Where the two differ (`difference_terms`):

- fill and drain: an operand needs 2 P - 2 steps to the far corner and its sum is there a cycle after; counted from the
  first operand in the array to the last sum at the edge that is 2 P - 2 cycles beyond the operands, 1 less than PPO's.
- first block: a stationary block takes P cycles to come in; the first one before anything streams. PPO leaves it out.
- short passes: later blocks come in behind the vectors that stream, but not in less than P cycles.
  A pass of fewer vectors than P waits for the next block. PPO leaves it out.

The last two are nothing where a block comes in at once (`block_load`): then Equation 5 is right but for fill and drain.
That takes a memory for every element, and is what PPO's gains at small batches rest on.
"""

from primitives.fpga.gemm.plan import DATAFLOWS, GemmShape, passes, vectors, word_shape


def fill_cycles(*, side: int) -> int:
    """Cycles beyond the operands until the last sum is there; products of one dataflow in a row share them."""
    return 2 * side - 2


def ppo_cycles(shape: GemmShape, *, side: int, dataflow: str) -> int:
    """PPO Equation 5."""
    return passes(shape, dataflow, side) * vectors(shape, dataflow) + 2 * side - 1


def difference_terms(
    shape: GemmShape, *, side: int, dataflow: str, halves: bool = False, block_load: bool = False
) -> dict[str, int]:
    """Cycles of the core beyond Equation 5 by reason; they add up to the difference."""
    words = word_shape(shape, dataflow, halves)
    terms = {"fill and drain": -1, "first block": 0, "short passes": 0}
    if dataflow != "NS" and not block_load:
        terms["first block"] = side
        terms["short passes"] = (passes(words, dataflow, side) - 1) * max(0, side - vectors(words, dataflow))
    return terms


def core_cycles(
    shape: GemmShape, *, side: int, dataflow: str, halves: bool = False, block_load: bool = False
) -> int:
    """Cycles of the core, from the first operand in the array to the last sum, in closed form.

    With `halves` the operand from the left carries two activations a word; with `block_load` stationary blocks come
    in at once.
    """
    words = word_shape(shape, dataflow, halves)
    terms = difference_terms(shape, side=side, dataflow=dataflow, halves=halves, block_load=block_load)
    return ppo_cycles(words, side=side, dataflow=dataflow) + sum(terms.values())


def block_load_cycles(shape: GemmShape, *, side: int, dataflow: str) -> int:
    """Cycles of the core whose stationary blocks come in at once."""
    return core_cycles(shape, side=side, dataflow=dataflow, block_load=True)


def best_dataflow(shape: GemmShape, *, side: int) -> str:
    """The dataflow of the fewest cycles on the core; the first of NS, WS, IS where several are."""
    return min(DATAFLOWS, key=lambda dataflow: core_cycles(shape, side=side, dataflow=dataflow))


def utilisation(shape: GemmShape, cycles: int, *, side: int) -> float:
    """The share of the array's multiply-adds that the product used, 0 to 1 (2 with halves)."""
    return shape.multiply_adds / (cycles * side * side)
