"""Finds what limits the native learner at a network and batch size, from a profile of its operations."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from placerl.harness.cli.bench.learner.cells import PERIOD, LearnerCell
from placerl.harness.pieces.learners import random_batch
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives import learner

PROFILED_S = 0.3  # seconds for the profile of a variant
KINDS = {
    "matmul": "matrix products",
    "elementwise": "element-wise groups",
    "reduce": "reductions",
    "im2col": "patches",
    "col2im": "patches",
}


@dataclass(frozen=True)
class Limits:
    """The time of the native learner's operations in one gradient step, averaged over the kinds of steps.

    Attributes:
        step_s: seconds of all operations together, each the minimum of many.
        parts_s: seconds of the operations of each kind, such as "matrix products".
        calls: number of operations.
        product_gflops: arithmetic of the matrix products divided by their time, GFLOP/s.
    """

    step_s: float
    parts_s: dict[str, float]
    calls: float
    product_gflops: float

    def note(self, call_s: float, peak_gflops: float) -> str:
        """Return a line of text that says on which operations a gradient step spends its time.

        Args:
            call_s: measured seconds of a gradient step, of which the shares are given.
            peak_gflops: peak arithmetic of all cores that the learner uses, GFLOP/s, which the matrix products are
                compared with.
        """
        parts = sorted(self.parts_s.items(), key=lambda part: -part[1])
        shares = ", ".join(f"{name} {seconds / call_s:.0%}" for name, seconds in parts)
        rest = max(0.0, 1 - self.step_s / call_s)
        return (
            f"{self.calls:.0f} operations; {shares}, the call, draws and cooled caches {rest:.0%}; "
            f"products at {self.product_gflops:.3g} GFLOP/s, {self.product_gflops / peak_gflops:.0%} of the peak"
        )


def limits(cell: LearnerCell, threads: int = 1) -> Limits:
    """Profile the native learner, with a number of threads, on a configuration of the learner benchmark."""
    item = cell.item
    algorithm = algorithm_of(item)
    native: Any = learner.create(algorithm, batch_size=cell.batch_size, backend="native", threads=threads)
    batch = random_batch(item, cell.batch_size, np.random.default_rng(0))
    turns = Counter(algorithm.variant(step) for step in range(PERIOD))
    parts: dict[str, float] = defaultdict(float)
    calls = 0.0
    for variant, count in turns.items():
        native.step(batch, variant=variant)
        (once,) = [sum(seconds for _, seconds in native.executable.profile(variant, 1))]
        for node, seconds in native.executable.profile(variant, max(3, int(PROFILED_S / once))):
            parts[KINDS.get(node.kind, "picks")] += seconds * count / PERIOD
            calls += count / PERIOD
    products_s = parts[KINDS["matmul"]]
    gflops = cell.flops / cell.steps / products_s * 1e-9
    return Limits(sum(parts.values()), dict(parts), calls, gflops)
