"""Simulates matrix products on the systolic core cycle by cycle: gives the exact product and its cycles.

    core = SimulatedGemm(side=16)
    outcome = core.multiply(a, b, dataflow="WS")   # a (M, K), b (K, N), integers of `width` bits
    outcome.product                                # (M, N) int64, exactly a @ b
    outcome.cycles                                 # clock cycles, `simulated`
    core.cycles(GemmShape(a=M, b=K, c=N), dataflow="WS")  # cycles depend on the sizes alone

Cycles count from the first operand (or weight) in the array to the last sum at its edge.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth.sim import Simulator
from numpy.typing import NDArray

from placerl.primitives.fpga.compute_unit.simulation import plan_for, zeros
from placerl.primitives.fpga.gemm.control import Axis
from placerl.primitives.fpga.gemm.core import GemmCore
from placerl.primitives.fpga.gemm.plan import GemmPlan, GemmShape, Integers, blocks, vectors


@dataclass(frozen=True)
class GemmOutcome:
    """A product (M, N) int64, and the clock cycles that the core took for it."""

    product: Integers
    cycles: int


@dataclass(frozen=True)
class GemmOutcomes:
    """Several products, and the clock cycles from the first product's first operand to the last product's last sum."""

    products: list[Integers]
    cycles: int


def requested(request: Any, matrix: Integers, side: int) -> list[int]:
    """Return the P words of a matrix that a `VectorRequest` requests: one row or column of a block.

    Args:
        request: the request, as the simulator reads it from a port.
        matrix: the matrix, padded to whole blocks.
        side: P, rows and columns of a block.
    """
    row, column = request.block_row * side, request.block_column * side
    if request.axis == Axis.COLUMN:
        return matrix[row : row + side, column + request.offset].tolist()
    return matrix[row + request.offset, column : column + side].tolist()


def requested_block(request: Any, matrix: Integers, side: int) -> Integers:
    """Return the P x P block of a matrix that a `VectorRequest` requests.

    Args:
        request: the request, as the simulator reads it from a port.
        matrix: the matrix, padded to whole blocks.
        side: P, rows and columns of a block.
    """
    row, column = request.block_row * side, request.block_column * side
    return matrix[row : row + side, column : column + side]


class WeightWave:
    """A golden model of the memories next to the elements of a core with `block_load`.

    After a request for a block, the word for element (0, 0) is valid in the next cycle, and that for element
    (i, j) i + j cycles later.

    Args:
        side: P, rows and columns of the array.
    """

    def __init__(self, side: int):
        self._blocks: list[Integers | None] = [None] * (2 * side - 1)
        self._side = side

    def after(self, block: Integers | None) -> list[int]:
        """Advance by the cycle in which `block` is requested, and return the words of all elements in the next one.

        Args:
            block: (P, P) integers; None if no block is requested.

        Returns:
            P x P words, row by row; 0 for an element that gets no word in this cycle.
        """
        self._blocks = [block, *self._blocks[:-1]]
        places = ((i, j, self._blocks[i + j]) for i in range(self._side) for j in range(self._side))
        return [0 if due is None else int(due[i, j]) for i, j, due in places]


class SumCollector:
    """Puts the sums of products at their places in the result, in the order in which the core gives them.

    Args:
        plans: the products, in the order in which the core computes them.
        lanes: numbers in a sum.
    """

    def __init__(self, plans: Sequence[GemmPlan], lanes: int):
        side = plans[0].side
        self.plans = plans
        self._sums = [
            np.zeros((blocks(plan.words.a, side) * side, blocks(plan.words.c, side) * side, lanes), np.int64)
            for plan in plans
        ]
        self._seen = [0] * (side * side)  # sums of this product from each element (NS) or column (WS, IS)
        self._product = [0] * (side * side)

    def place(self, position: int, values: list[int]) -> None:
        """Store the next sum that one element or column of the array gave.

        Args:
            position: number of the element, counted row by row (NS), or of the column (WS, IS).
            values: the sum's numbers, one per lane.
        """
        plan, sums = self.plans[self._product[position]], self._sums[self._product[position]]
        side, words, seen = plan.side, plan.words, self._seen[position]
        c_blocks = blocks(words.c, side)
        if plan.dataflow == "NS":
            total = blocks(words.a, side) * c_blocks
            block, place = divmod(seen, c_blocks), divmod(position, side)
            row, column = (b * side + p for b, p in zip(block, place, strict=True))
        else:
            streamed = vectors(words, plan.dataflow)
            block_index, vector = divmod(seen, streamed)
            row, column = block_index * side + position, vector
            total = blocks(words.a, side) * streamed
            if plan.dataflow == "IS":
                row, column = column, row
                total = c_blocks * streamed
        sums[row, column] = values
        self._seen[position] = seen + 1
        if seen + 1 == total:
            self._seen[position] = 0
            self._product[position] += 1

    def products(self) -> list[Integers]:
        return [
            plan.product(sums[: plan.words.a, : plan.words.c])
            for plan, sums in zip(self.plans, self._sums, strict=True)
        ]


def set_bits(mask: int) -> Iterator[int]:
    """Yield the positions of the ones in `mask`."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class SimulatedGemm:
    """A systolic core in Amaranth's own simulator, which runs thousands of cycles per second for small arrays.

    Args:
        options: arguments of `GemmCore`, such as `block_load=True`; `side`, the rows and columns of the array, is
            required. Sums have at most 64 bits here.
    """

    def __init__(self, **options: Any):
        self.core = GemmCore(**options)
        self._plans: list[GemmPlan] = []
        self._outcome: GemmOutcomes | None = None
        self._simulator = Simulator(self.core)
        self._simulator.add_clock(1e-8)
        self._simulator.add_testbench(self._run)
        self._simulator.run()  # without a plan it ends at once

    def multiply(
        self, a: NDArray[np.integer], b: NDArray[np.integer], *, dataflow: str = "NS", halves: bool = False
    ) -> GemmOutcome:
        """Compute the product A B on the simulated core.

        Args:
            a, b: matrices of integers, (M, K) and (K, N).
            dataflow: what stays in the array: "NS" (only sums), "WS" (weights) or "IS" (inputs).
            halves: whether the operand that streams from the left (A in NS and IS, B in WS) holds integers of half
                the width, two per word.

        Raises:
            ValueError: the core does not take these operands, this dataflow or these sizes.
        """
        outcome = self.multiply_all([(a, b)], dataflow=dataflow, halves=halves)
        return GemmOutcome(outcome.products[0], outcome.cycles)

    def multiply_all(
        self,
        operands: Sequence[tuple[NDArray[np.integer], NDArray[np.integer]]],
        *,
        dataflow: str = "NS",
        halves: bool = False,
    ) -> GemmOutcomes:
        """Compute the products of several pairs (A, B), one after another, on the simulated core.

        A product may begin while the array still works on the previous one.

        Args:
            operands: pairs of matrices of integers, (M, K) and (K, N) each.
            dataflow: what stays in the array: "NS" (only sums), "WS" (weights) or "IS" (inputs).
            halves: whether the operand that streams from the left (A in NS and IS, B in WS) holds integers of half
                the width, two per word.

        Raises:
            ValueError: the core does not take these operands, this dataflow or these sizes.
        """
        core = self.core
        self._plans = [plan_for(core, a, b, dataflow=dataflow, halves=halves) for a, b in operands]
        self._simulator.reset()  # starts `_run` again
        self._simulator.run()
        assert self._outcome is not None
        return self._outcome

    def cycles(self, shape: GemmShape, *, dataflow: str = "NS", halves: bool = False) -> int:
        """Return the clock cycles of a product of this shape, from a simulation.

        Operands of zeros are simulated, because the cycles depend only on the sizes.

        Args:
            dataflow: what stays in the array: "NS" (only sums), "WS" (weights) or "IS" (inputs).
            halves: whether the operand that streams from the left holds integers of half the width, two per word.
        """
        return self.multiply(*zeros(shape), dataflow=dataflow, halves=halves).cycles

    async def _run(self, ctx: Any) -> None:
        if not self._plans:
            return
        core, waiting = self.core, list(self._plans)
        collector = SumCollector(self._plans, core.lanes)
        plan = waiting[0]
        ctx.set(core.ready, 1)
        cycle, first, last = 0, None, 0
        weights = WeightWave(core.side)
        while first is None or not ctx.get(core.idle):
            if waiting:
                ctx.set(core.command.payload, waiting[0].command())
            ctx.set(core.command.valid, int(bool(waiting)))
            if first is None and ctx.get(core.entering):
                first = cycle
            for done, sums in ((core.tile_done, core.tile_sums), (core.column_done, core.column_sums)):
                for position in set_bits(ctx.get(done)):
                    collector.place(position, list(ctx.get(sums[position])))
                    last = cycle
            a, b = ctx.get(core.a), ctx.get(core.b)
            asked, taken = plan, waiting and ctx.get(core.command.ready)
            if taken:
                plan = waiting.pop(0)
            await ctx.tick()
            cycle += 1
            if core.block_load and asked.dataflow != "NS":
                ws = asked.dataflow == "WS"
                request, matrix = (a, asked.a) if ws else (b, asked.b)
                block = requested_block(request, matrix, core.side) if request.valid else None
                due = weights.after(block.T if ws and block is not None else block)
                for port, word in zip(core.weights, due, strict=True):
                    ctx.set(port, word)
            ctx.set(core.a_data, requested(a, asked.a, core.side) if a.valid else [0] * core.side)
            ctx.set(core.b_data, requested(b, asked.b, core.side) if b.valid else [0] * core.side)
        self._outcome = GemmOutcomes(collector.products(), last - first)
