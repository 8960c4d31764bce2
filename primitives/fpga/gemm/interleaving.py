"""The blocks of C that a float32 array works on in turn in the non-stationary dataflow (`gemm.arithmetic`)."""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal, ValueLike


class InterleavedBlocks:
    """Selects a block of C in every cycle of a pass, and finds the first block of the next pass.

    A pass begins at block (outer, inner) and takes `count` blocks in the order of the loops, of which the last pass
    may have fewer. In a stationary dataflow a pass has one block.

    Args:
        count: number of blocks of a pass, 2 or more.
        outer, inner: the loop counters, at the first block of the pass.
        outer_blocks, inner_blocks: the numbers of turns of the loops.
        active: whether a vector is requested, or would be if there were another block.

    Attributes:
        outer, inner: the block of this cycle; exists: whether there is such a block.
        ends: the last block of the pass has its turn, so that the next vectors follow.
        next_outer, next_inner: the first block of the next pass; is_last: there is no next pass.
    """

    def __init__(
        self,
        m: Module,
        count: int,
        outer: Signal,
        inner: Signal,
        outer_blocks: ValueLike,
        inner_blocks: ValueLike,
        stationary: ValueLike,
        active: ValueLike,
    ):
        turn = Signal(range(count))
        blocks: list[tuple[Any, Any]] = [(outer, inner)]
        for k in range(count):
            last_outer, last_inner = blocks[-1]
            following = Signal.like(outer, name=f"outer_{k}"), Signal.like(inner, name=f"inner_{k}")
            wraps = last_inner == inner_blocks - 1
            m.d.comb += [
                following[0].eq(last_outer + wraps),
                following[1].eq(Mux(wraps, 0, last_inner + 1)),
            ]
            blocks.append(following)
        self.outer, self.inner = (Array(each)[turn] for each in zip(*blocks[:-1], strict=True))
        self.exists = self.outer < outer_blocks
        self.ends = stationary | (turn == count - 1)
        self.next_outer, self.next_inner = (
            Mux(stationary, one, several) for one, several in zip(blocks[1], blocks[-1], strict=True)
        )
        self.is_last = self.next_outer >= outer_blocks
        with m.If(active):
            m.d.sync += turn.eq(Mux(self.ends, 0, turn + 1))
