"""Simulates layers on FIXAR's adaptive array and returns the exact products and their cycles (FIX V-B).

Python takes the part of the control unit: it decides what enters the array in each cycle. The array itself is the
hardware of `adaptive_array.array`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from amaranth.sim import Simulator
from numpy.typing import NDArray

from placerl.primitives.fpga.adaptive_array.array import AdaptiveArray
from placerl.primitives.fpga.cycles.fixar import pass_cycles
from placerl.primitives.fpga.gemm.plan import Integers, blocks, checked_operand, packed
from placerl.primitives.fpga.gemm.simulation import GemmOutcome

MODES = ("inference", "training")


@dataclass
class ArrayCycle:
    """The inputs of an `AdaptiveArray` in one cycle; by default nothing enters.

    Attributes:
        load: the row of weights to store, as the ports `load_core`, `load_row` and `weights`; empty for none.
        control: the fields of the port `control` for the vectors, such as {"valid": 1}; empty without vectors.
        activations: a vector for each core, (N, P); None for none.
    """

    load: dict[str, Any] = field(default_factory=dict)  # load_core, load_row, weights
    control: dict[str, int] = field(default_factory=dict)
    activations: Integers | None = None  # (N, P)


def schedule(matrix: Integers, words: Integers, *, mode: str, cores: int, side: int) -> Iterator[ArrayCycle]:
    """Yield the array's inputs in each cycle of a product, from the first row of weights to the last vector.

    Args:
        matrix: the layer's weights, (outputs, inputs).
        words: the input vectors: (inputs, vectors) in inference, (inputs, cores, vectors of each core) in training.
        mode: "inference" (the cores share the layer) or "training" (they share the vectors).
        cores: N, number of cores.
        side: P, rows and columns of a core.
    """
    inference = mode == "inference"
    inputs = blocks(matrix.shape[1], cores) if inference else matrix.shape[1]  # per core
    in_blocks, out_blocks = blocks(inputs, side), blocks(matrix.shape[0], side)
    holders = cores if inference else 1  # cores with different weights
    # (core, input, output): in inference core n has inputs n, n + N, ...
    weights = np.zeros((holders, in_blocks * side, out_blocks * side), np.int64)
    count = words.shape[-1]
    vectors = np.zeros((cores, in_blocks * side, count), np.int64)
    for n in range(cores):
        if inference:
            weights[n, : len(range(n, matrix.shape[1], cores)), : matrix.shape[0]] = matrix.T[n::cores]
            vectors[n, : len(range(n, matrix.shape[1], cores))] = words[n::cores]
        else:
            vectors[n, : matrix.shape[1]] = words[:, n]
    if not inference:
        weights[0, : matrix.shape[1], : matrix.shape[0]] = matrix.T

    turns = [(o, k) for o in range(out_blocks) for k in range(in_blocks)]
    steps = pass_cycles(count, cores=cores, side=side, inference=inference)

    def loads(turn: int) -> list[dict[str, Any]]:
        if turn == len(turns):
            return []
        out_block, in_block = turns[turn]
        columns = slice(out_block * side, (out_block + 1) * side)
        return [
            {"load_core": n, "load_row": i, "weights": weights[n, in_block * side + i, columns].tolist()}
            for n in range(holders)
            for i in range(side)
        ]

    for row in loads(0):
        yield ArrayCycle(load=row)
    for turn, (_, in_block) in enumerate(turns):
        coming = loads(turn + 1)
        for step in range(steps if coming else count):
            cycle = ArrayCycle(load=coming[step] if step < len(coming) else {})
            if step < count:
                cycle.control = {
                    "valid": 1,
                    "first": int(step == 0),
                    "restart": int(in_block == 0),
                    "last": int(in_block == in_blocks - 1),
                }
                cycle.activations = vectors[:, in_block * side : (in_block + 1) * side, step]
            yield cycle


class SimulatedAdaptiveArray:
    """An adaptive array in Amaranth's own simulator, for small cases.

    Args:
        cores: N, number of cores.
        side: P, rows and columns of a core.
        width: bits of a word.
        accumulator_depth: most words that stream in a pass, which is the use of one block of weights.
    """

    def __init__(self, *, cores: int, side: int, width: int = 32, accumulator_depth: int = 64):
        self.array = AdaptiveArray(cores=cores, side=side, width=width, accumulator_depth=accumulator_depth)
        self.width = width
        self._job: Any = None
        self._simulator = Simulator(self.array)
        self._simulator.add_clock(1e-8)
        self._simulator.add_testbench(self._run)
        self._simulator.run()  # without a job it ends at once

    def multiply(
        self, matrix: NDArray[np.integer], vectors: NDArray[np.integer], *, mode: str, halves: bool = False
    ) -> GemmOutcome:
        """Multiply a layer's weights by vectors on the simulated array.

        Args:
            matrix: integers, (outputs, inputs).
            vectors: integers, (inputs, count).
            mode: "inference" (the cores share the layer) or "training" (they share the vectors).
            halves: whether the vectors hold integers of half the width, two per word.

        Returns:
            The product (outputs, count), int64, and the cycles from the first row of weights to the last sum.

        Raises:
            ValueError: the array does not take these operands or this mode.
        """
        if mode not in MODES:
            raise ValueError(f"mode: found {mode!r}; allowed: {', '.join(MODES)}")
        matrix = checked_operand("matrix", matrix, self.width)
        vectors = checked_operand("vectors", vectors, self.width // 2 if halves else self.width)
        if matrix.shape[1] != vectors.shape[0]:
            raise ValueError(f"vectors: found {vectors.shape[0]} rows; allowed: {matrix.shape[1]}")
        cores, count, lanes = self.array.cores, vectors.shape[1], 2 if halves else 1
        if mode == "training":  # to each core its share, padded with zeros to whole words
            share = blocks(blocks(count, cores), lanes) * lanes
            whole = np.zeros((len(vectors), cores * share), np.int64)
            whole[:, :count] = vectors
            vectors = whole.reshape(len(vectors), cores, share)
        words = packed(vectors, vectors.ndim - 1, self.width) if halves else vectors
        self._job = matrix, words, mode, halves
        self._simulator.reset()  # starts `_run` again
        self._simulator.run()
        sums, cycles = self._job  # (word, core, output, lane)
        if mode == "inference":
            product = sums[:, 0, :, :lanes].transpose(1, 0, 2).reshape(sums.shape[2], -1)
        else:
            product = sums[..., :lanes].transpose(2, 1, 0, 3).reshape(sums.shape[2], -1)
        return GemmOutcome(product[: len(matrix), :count], cycles)

    async def _run(self, ctx: Any) -> None:
        if self._job is None:
            return
        array, (matrix, words, mode, halves) = self.array, self._job
        ctx.set(array.inference, int(mode == "inference"))
        ctx.set(array.halves, int(halves))
        count, side = words.shape[-1], array.side
        plan = schedule(matrix, words, mode=mode, cores=array.cores, side=side)
        expected = blocks(len(matrix), side) * count
        found: list[Any] = []
        cycle, last = 0, 0
        while len(found) < expected:
            now = next(plan, ArrayCycle())
            for name, value in {"load": int(bool(now.load)), **now.load}.items():
                ctx.set(getattr(array, name), value)
            ctx.set(
                array.control,
                {name: now.control.get(name, 0) for name in ("valid", "first", "restart", "last")},
            )
            if now.activations is not None:
                ctx.set(array.activations, now.activations.tolist())
            await ctx.tick()
            cycle += 1
            if ctx.get(array.valid):
                found.append([[list(output) for output in core] for core in ctx.get(array.sums)])
                last = cycle
        values = np.array(found, np.int64).reshape(
            -1, count, array.cores, side, 2
        )  # (block, word, core, output, lane)
        sums = values.transpose(1, 2, 0, 3, 4).reshape(count, array.cores, -1, 2)
        self._job = sums, last
