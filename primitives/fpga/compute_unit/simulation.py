"""Simulates matrix products on a compute unit: operands are written to its memories, and the product is read back.

    unit = SimulatedUnit(side=16)                  # Verilator: takes seconds to build once, then kept on disk
    outcome = unit.multiply(a, b, dataflow="WS")   # a (M, K), b (K, N) integers
    outcome.product, outcome.cycles, outcome.stalls

Cycles count from the first operand (or weight) in the array to the last sum at its edge; loading the memories and
reading the result back are not counted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga import simulation
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
        self._check(plan)
        stored_a = plan.a.T if transposed_a else plan.a
        self._load(stored_a, to_b=0)
        self._load(plan.b, to_b=1)
        command = {
            "gemm": plan.command(),
            "pitch_a": stored_a.shape[1] // core.side,
            "pitch_b": plan.b.shape[1] // core.side,
            "transposed_a": int(transposed_a),
            **dict.fromkeys(("base_a", "base_b", "base_c"), 0),
        }
        run = self._simulation.run({"commands": columns([command])}, {"finished": 1})
        finished = run.outputs["finished"]
        product = plan.product(self._result(plan))
        return UnitOutcome(product, int(finished["cycles"][0]), int(finished["stalls"][0]))

    def cycles(self, shape: GemmShape, *, dataflow: str = "NS", halves: bool = False) -> int:
        """Return the clock cycles of a product of this shape, from a simulation.

        Operands of zeros are simulated, because the cycles depend only on the sizes.

        Args:
            halves: whether a word holds two numbers of half the width, of B in "WS" and of A otherwise.
        """
        return self.multiply(*zeros(shape), dataflow=dataflow, halves=halves).cycles

    def _check(self, plan: GemmPlan) -> None:
        unit, words, side = self.unit, plan.words, plan.side
        c_blocks = blocks(words.a, side) * blocks(words.c, side)
        for name, found, allowed in (
            ("a", plan.a.size // side**2, unit.operand_blocks),
            ("b", plan.b.size // side**2, unit.operand_blocks),
            ("product", c_blocks, unit.result_blocks),
        ):
            if found > allowed:
                raise ValueError(f"{name}: found {found} blocks of {side} x {side}; allowed: {allowed}")

    def _load(self, matrix: Integers, *, to_b: int) -> None:
        self._simulation.run({"writes": row_writes(matrix, self.core, to_b=to_b)}, {})

    def _result(self, plan: GemmPlan) -> Integers:
        """Return the sums, (words.a, words.c, lanes)."""
        return read_back(self._simulation, plan.words.a, plan.words.c, self.core)


def row_writes(matrix: Integers, core: GemmCore, *, to_b: int, base: int = 0) -> dict[str, Any]:
    """Return the items for a unit's port `writes` that store a matrix; each item is one row of a P x P block.

    Args:
        matrix: a matrix of whole blocks, as `plan.padded` returns it.
        to_b: 1 for the memory of B, 0 for that of A.
        base: number of the block at which the matrix begins.

    Returns:
        An array for each field of the port, such as `block`, `row` and `words`, with an entry for every item.
    """
    side = core.side
    rows, pitch = matrix.shape[0], matrix.shape[1] // side
    row, column = np.divmod(np.arange(rows * pitch), pitch)
    writes = {
        "to_b": np.full(rows * pitch, to_b),
        "block": base + row // side * pitch + column,
        "row": row % side,
        "words": matrix.reshape(rows * pitch, side),
    }
    if core.block_load:
        writes |= {"mask": np.full(rows * pitch, (1 << side) - 1), "next": np.zeros(rows * pitch, np.int64)}
    return writes


def read_back(
    model: simulation.Simulation,
    rows: int,
    columns: int,
    core: GemmCore,
    base: int = 0,
    ports: tuple[str, str] = ("reads", "rows"),
) -> Integers:
    """Read a product from a unit's memory and return its sums, (rows, columns, lanes).

    Args:
        model: the simulated unit.
        rows, columns: sizes of the product in words.
        base: number of the block at which the product begins.
        ports: names of the unit's ports for requests of rows and for the rows.
    """
    side = core.side
    pitch = blocks(columns, side)
    row, column = np.divmod(np.arange(rows * pitch), pitch)
    reads = {"block": base + row // side * pitch + column, "row": row % side}
    words = model.run({ports[0]: reads}, {ports[1]: len(row)}).outputs[ports[1]]
    return words.reshape(rows, pitch * side, core.lanes)[:, :columns]
