"""The arithmetic of the systolic array: integers, or float32 with a pipelined multiplier and adder.

A float32 addition takes several cycles, so a running sum cannot take a new product in every cycle. The array
solves this without partial sums, so that every sum is added in one order:

- NS: every element works on several blocks of C in turn, as many as an addition takes cycles. The pipeline of
  its adder holds their running sums, and a sum comes out in the cycle in which its next product is ready.
- WS, IS: the running sum moves down the column. A row gets its operands as many cycles after the row above as an
  addition takes. The accumulators below the columns need `shortest_pass` cycles before they can add to a total again.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Arithmetic:
    """The cycles that the array's operations take.

    Attributes:
        row_cycles: cycles from an operand in a row to the matching operand in the row below; the cycles of an
            element's addition.
        sum_cycles: cycles from an element's operands to its sum.
        total_cycles: cycles from a column's partial sum to the total; 0: in the same cycle.
    """

    row_cycles: int
    sum_cycles: int
    total_cycles: int

    @property
    def interleaved(self) -> int:
        """Number of blocks of C on which an element works in turn (NS)."""
        return self.row_cycles

    @property
    def shortest_pass(self) -> int:
        """Fewest cycles of a pass in a stationary dataflow.

        A total is written `total_cycles` cycles after its partial sum; the next pass reads it a cycle before its own
        partial sum, and can do so from the cycle after the write on.
        """
        return self.total_cycles + 2 if self.total_cycles else 1

    def drain_cycles(self, side: int) -> int:
        """Return the cycles from the last operand that enters the array to the last total at its edge."""
        return (side - 1) * (self.row_cycles + 1) + self.sum_cycles + self.total_cycles


INTEGER = Arithmetic(row_cycles=1, sum_cycles=4, total_cycles=0)
"""Integers: the operands take a register, then pieces of them are multiplied, the products added, and the sum."""
FLOAT32 = Arithmetic(row_cycles=3, sum_cycles=6, total_cycles=3)
"""float32 with the latencies of `floating_point.arithmetic`: 3 cycles to multiply, 3 to add."""
