"""Simulates products and weight updates on two compute units at the same time, with data (PPO 3.3).

pair = SimulatedTrainingPair(side=4)
pair.load(0, weights, base=0)
pair.load(0, inputs, base=0, to_b=True)
steps = [PairProduct(GemmShape(...), dataflow="NS", ...), ...]
pair.run(steps, [])
pair.result(0, steps[0])
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.compute_unit.matrix_rows import read_back, row_writes
from placerl.primitives.fpga.compute_unit.unit import compute_unit
from placerl.primitives.fpga.gemm.plan import (
    GemmShape,
    Integers,
    blocks,
    check_streamed,
    checked_operand,
    command_fields,
    padded,
)
from placerl.primitives.fpga.simulation.ports import columns
from tests.primitives.fpga.interpreter import Start
from tests.primitives.fpga.pair.training import TrainingPair


@dataclass(frozen=True)
class PairProduct:
    """A product of matrices in a unit's memories, and the use of its result.

    Attributes:
        shape: sizes of the product.
        dataflow: NS, WS or IS.
        base_a, base_b, base_c: first blocks of the operands and of the result.
        transposed_a: A is stored as its transpose.
        updates: whether the product is the gradient of the weights at block `weights` of A's memory and changes
            them.
        shared: whether the other unit's gradient is added as well and both units' weights change.
    """

    shape: GemmShape
    dataflow: str = "NS"
    base_a: int = 0
    base_b: int = 0
    base_c: int = 0
    transposed_a: bool = False
    updates: bool = False
    shared: bool = False
    weights: int = 0

    def command(self, side: int) -> dict[str, Any]:
        """Return the fields of a command of `TrainingPair`."""
        product = {
            "gemm": command_fields(self.shape, side=side, dataflow=self.dataflow),
            "pitch_a": blocks(self.shape.a if self.transposed_a else self.shape.b, side),
            "pitch_b": blocks(self.shape.c, side),
            "transposed_a": int(self.transposed_a),
            **{name: getattr(self, name) for name in ("base_a", "base_b", "base_c")},
        }
        flags = {name: int(getattr(self, name)) for name in ("updates", "shared", "weights")}
        return {"product": product, **flags}


class SimulatedTrainingPair:
    """Two simulated compute units and the weight update that they share.

    Args:
        shift: the learning rate is 2 ** -shift.
        start: starts a simulation of a design.
        options: options of `compute_unit`; `side` is required. Sums have at most 64 bits here.
    """

    def __init__(
        self,
        *,
        shift: int = 0,
        start: Start = simulation.compiled,
        **options: Any,
    ):
        units = [compute_unit(**options) for _ in range(2)]
        self.core = units[0].core
        self._blocks = {
            "a": units[0].operand_blocks,
            "b": units[0].operand_blocks,
            "c": units[0].result_blocks,
        }
        self._simulation = start(TrainingPair(units, shift=shift))

    def load(self, unit: int, matrix: NDArray[np.integer], *, base: int, to_b: bool = False) -> None:
        """Write a matrix of integers into the memory of A, or of B, of unit 0 or 1, from block `base` on.

        Raises:
            ValueError: it is not a matrix of the unit's words, or does not fit.
        """
        whole = padded(checked_operand("matrix", matrix, self.core.width), self.core.side)
        self._check("b" if to_b else "a", base, whole.size // self.core.side**2)
        writes = row_writes(whole, self.core, to_b=to_b, base=base)
        self._simulation.run({f"writes_{unit}": writes}, {})

    def run(self, first: Sequence[PairProduct], second: Sequence[PairProduct]) -> int:
        """Run both units' products, offered as early as possible; returns the cycles.

        Raises:
            ValueError: a product does not fit, or the units do not share equally many gradients.
        """
        meetings = [sum(each.updates and each.shared for each in steps) for steps in (first, second)]
        if meetings[0] != meetings[1]:
            raise ValueError(f"shared: found {meetings[0]} and {meetings[1]} gradients; allowed: as many")
        for each in (*first, *second):
            check_streamed(each.shape, each.dataflow, self.core.accumulator_depth)
            side, shape = self.core.side, each.shape
            of_c = blocks(shape.a, side) * blocks(shape.c, side)
            self._check("a", each.base_a, blocks(shape.a, side) * blocks(shape.b, side))
            self._check("b", each.base_b, blocks(shape.b, side) * blocks(shape.c, side))
            self._check("c", each.base_c, of_c)
            if each.updates:
                self._check("a", each.weights, of_c)
        of_units = {k: steps for k, steps in enumerate((first, second)) if steps}
        commands = {
            f"commands_{k}": columns([each.command(self.core.side) for each in steps])
            for k, steps in of_units.items()
        }
        wanted: dict[str | tuple[str, ...], int] = {f"finished_{k}": len(s) for k, s in of_units.items()}
        run = self._simulation.run(commands, wanted)
        begin = min(int(cycles[0]) for cycles in run.input_cycles.values())
        return max(int(cycles[-1]) for cycles in run.output_cycles.values()) + 1 - begin

    def result(self, unit: int, step: PairProduct) -> Integers:
        """Return the product of that unit, (a, c) int64, as stored in the memory of C."""
        names = (f"reads_{unit}", f"rows_{unit}")
        shape = step.shape
        return read_back(self._simulation, shape.a, shape.c, self.core, step.base_c, ports=names)[:, :, 0]

    def _check(self, memory: str, base: int, count: int) -> None:
        if base < 0 or base + count > self._blocks[memory]:
            raise ValueError(
                f"{memory}: found blocks {base} to {base + count - 1}; allowed: 0 to {self._blocks[memory] - 1}"
            )
