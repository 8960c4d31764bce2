"""Simulates matrix products on a compute unit: stores the operands in its memories, and reads the product back.

    unit = SimulatedUnit(side=16)                  # built by Verilator once, in seconds to minutes, and kept on disk
    outcome = unit.multiply(a, b, dataflow="WS")   # a (M, K), b (K, N) integers
    outcome.product, outcome.cycles, outcome.stalls

Cycles count from the first operand (or weight) in the array to the last sum at its edge; storing the operands and
reading the product back are not counted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.compute_unit.matrix_rows import read_back, row_writes
from placerl.primitives.fpga.compute_unit.unit import compute_unit
from placerl.primitives.fpga.gemm.core import GemmCore
from placerl.primitives.fpga.gemm.plan import GemmPlan, GemmShape, Integers, blocks, check_streamed
from placerl.primitives.fpga.simulation.ports import columns


@dataclass(frozen=True)
class UnitOutcome:
    """The result of a simulated matrix product.

    Attributes:
        product: (M, N) int64.
        cycles: clock cycles from the first operand (or weight) in the array to the last sum at its edge.
        stalls: how many of these cycles the array waited for an operand.
    """

    product: Integers
    cycles: int
    stalls: int


def plan_for(
    core: GemmCore, a: NDArray[np.integer], b: NDArray[np.integer], *, dataflow: str, halves: bool
) -> GemmPlan:
    """Return the plan of the product A B for the given core (`GemmPlan`).

    Args:
        a, b: matrices of integers, (M, K) and (K, N).
        halves: whether a word holds two numbers of half the width, of B in "WS" and of A otherwise.

    Raises:
        ValueError: the core does not take these operands, this dataflow or these sizes.
    """
    if halves and not core.configurable:
        raise ValueError("halves: found True; allowed: False, for the core is not configurable")
    plan = GemmPlan.of(a, b, side=core.side, dataflow=dataflow, width=core.width, halves=halves)
    check_streamed(plan.words, dataflow, core.accumulator_depth)
    return plan


def zeros(shape: GemmShape) -> tuple[Integers, Integers]:
    """Return operands A and B of zeros, (a, b) and (b, c) int64, for a product of that shape."""
    return np.zeros((shape.a, shape.b), np.int64), np.zeros((shape.b, shape.c), np.int64)


class SimulatedUnit:
    """A simulated compute unit.

    Args:
        start: starts a simulation of the unit, by default one that Verilator builds.
        options: arguments of `compute_unit`, such as `layout="plain"` or `width=16`; `side`, the rows and columns of
            the array, is required. Sums have at most 64 bits here.
    """

    def __init__(
        self, *, start: Callable[[Any], simulation.Simulation] = simulation.compiled, **options: Any
    ):
        self.unit = compute_unit(**options)
        self.core = self.unit.core
        self._simulation = start(self.unit)

    def multiply(
        self,
        a: NDArray[np.integer],
        b: NDArray[np.integer],
        *,
        dataflow: str = "NS",
        halves: bool = False,
        transposed_a: bool = False,
    ) -> UnitOutcome:
        """Compute the product A B on the simulated unit.

        Args:
            a, b: matrices of integers, (M, K) and (K, N).
            halves: whether a word holds two numbers of half the width, of B in "WS" and of A otherwise.
            transposed_a: whether A's memory holds the transpose of A.

        Raises:
            ValueError: the unit does not take these operands, this dataflow or these sizes.
        """
        core = self.core
        plan = plan_for(core, a, b, dataflow=dataflow, halves=halves)
        self._check_room(plan)
        stored_a = plan.a.T if transposed_a else plan.a
        for matrix, to_b in ((stored_a, False), (plan.b, True)):
            self._simulation.run({"writes": row_writes(matrix, core, to_b=to_b)}, {})
        command = {
            "gemm": plan.command(),
            "pitch_a": stored_a.shape[1] // core.side,
            "pitch_b": plan.b.shape[1] // core.side,
            "transposed_a": int(transposed_a),
            **dict.fromkeys(("base_a", "base_b", "base_c"), 0),
        }
        run = self._simulation.run({"commands": columns([command])}, {"finished": 1})
        finished = run.outputs["finished"]
        sums = read_back(self._simulation, plan.words.a, plan.words.c, core)
        return UnitOutcome(plan.product(sums), int(finished["cycles"][0]), int(finished["stalls"][0]))

    def cycles(self, shape: GemmShape, *, dataflow: str = "NS", halves: bool = False) -> int:
        """Return the clock cycles of a product of this shape, from a simulation.

        Operands of zeros are simulated, because the cycles depend only on the sizes.

        Args:
            halves: whether a word holds two numbers of half the width, of B in "WS" and of A otherwise.
        """
        return self.multiply(*zeros(shape), dataflow=dataflow, halves=halves).cycles

    def _check_room(self, plan: GemmPlan) -> None:
        """Raise ValueError if the unit's memories are too small for a matrix of the product."""
        side, capacity = plan.side, self.unit.operand_blocks
        product_blocks = blocks(plan.words.a, side) * blocks(plan.words.c, side)
        for name, found, allowed in (
            ("a", plan.a.size // side**2, capacity),
            ("b", plan.b.size // side**2, capacity),
            ("product", product_blocks, self.unit.result_blocks),
        ):
            if found > allowed:
                raise ValueError(f"{name}: found {found} blocks of {side} x {side}; allowed: {allowed}")
