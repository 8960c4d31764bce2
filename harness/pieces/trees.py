"""Defines how the operations of the sum tree are timed, on a tree with as many leaves as the workload's replay."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from placerl.harness.mapping import Target
from placerl.harness.mapping.candidates import REFERENCE
from placerl.harness.measure.protocol import Case
from placerl.harness.pieces.base import PrimitiveCase, expect_equal, options_of, targets
from placerl.harness.pieces.work import Work, tree_work
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import Task
from placerl.primitives import sum_tree
from placerl.primitives.sum_tree import SumTree
from placerl.primitives.sum_tree.levels import levels_of

CHECKED_LEAVES = 4096
SIMULATED_LEAVES = 16_384


def sum_tree_cases(workload: Workload, batch_size: int) -> Iterator[PrimitiveCase]:
    """Yield the benchmark cases of the sum tree on every backend that runs here, including the reference.

    They are `sum_tree.sample` and `sum_tree.update` of a batch, and `sum_tree.insert`, the update of one leaf.

    Args:
        batch_size: leaves per call of sample and update.
    """
    for target in (Target(REFERENCE), *targets(sum_tree.backends(), "flat")):
        yield from tree_cases(workload, batch_size, target)


def tree_cases(
    workload: Task, batch_size: int, target: Target, banks: int = 1, inserted: int = 1
) -> Iterator[PrimitiveCase]:
    """Yield the benchmark cases of sampling, updating and inserting in the sum tree of one backend and device.

    Args:
        banks: sub-trees of the tree on a simulated FPGA; ignored by other backends.
        inserted: leaves per call of an insertion.
    """
    # One tree for the three: creating a tree with a million leaves takes longer than timing it.
    tree = cache(lambda: _filled_tree(workload, target, banks))
    yield _sample_case(tree, batch_size, target, lambda: tree_work(workload, batch_size, update=False))
    for primitive, items in (("sum_tree.update", batch_size), ("sum_tree.insert", inserted)):
        work = partial(tree_work, workload, items, update=True)
        yield _update_case(tree, items, target, primitive, work)


def _whole_priorities(rng: np.random.Generator, count: int) -> npt.NDArray[np.float32]:
    """Return small integers: their sums are exact in float32, so every backend must give the same answers."""
    return rng.integers(1, 8, count).astype(np.float32)


def _filled_tree(workload: Task, target: Target, banks: int) -> SumTree:
    capacity, fanout = workload.replay.capacity, workload.replay.fanout
    options: dict[str, Any] = dict(options_of(target))
    if target.backend == "fpga":
        # The simulated tree is the same on every FPGA except for the clock frequency, which does not change its
        # cycles. The cycles depend on the number of levels and not on the leaves in use, so only a part of the
        # leaves is filled.
        levels = levels_of(-(-capacity // banks), fanout)
        options = {"backend": target.backend, "levels": levels, "banks": banks, "contents": "software"}
        capacity = min(capacity, SIMULATED_LEAVES)
    tree = sum_tree.create(capacity, fanout=fanout, **options)
    tree.update(np.arange(capacity), _whole_priorities(np.random.default_rng(0), capacity))
    return tree


def _sample_case(
    tree: Callable[[], SumTree], batch_size: int, target: Target, work: Callable[[], Work]
) -> PrimitiveCase:
    def check(tree: SumTree) -> None:
        sums = np.cumsum(tree.get(np.arange(tree.capacity)), dtype=np.float64)
        expect_equal(tree.total, sums[-1], "total")
        prefix = np.random.default_rng(1).integers(0, int(sums[-1]), CHECKED_LEAVES) + 0.5
        expect_equal(tree.find(prefix), np.searchsorted(sums, prefix, side="right"), "find")
        if target.backend != "fpga":  # whose samples are slow to simulate; they are finds of drawn prefixes
            half = tree.capacity // 2
            share = (tree.sample(CHECKED_LEAVES, np.random.default_rng(1)) < half).mean()
            # The share of so many draws has a standard deviation below 0.01.
            np.testing.assert_allclose(share, sums[half - 1] / sums[-1], atol=0.1, err_msg="sample")

    return PrimitiveCase(
        "sum_tree.sample",
        target,
        batch_size,
        Case(
            name=f"sum_tree.sample {target}",
            setup=tree,
            synchronise=lambda: tree().synchronise(),
            check=check,
            inputs=lambda tree, rng: rng,
            call=lambda tree, rng: tree.sample(batch_size, rng),
            elsewhere=not target.on_host,
        ),
        work=work,
    )


def _update_case(
    tree: Callable[[], SumTree], batch_size: int, target: Target, primitive: str, work: Callable[[], Work]
) -> PrimitiveCase:
    def inputs(tree: SumTree, rng: np.random.Generator) -> tuple[npt.NDArray, npt.NDArray]:
        return rng.integers(0, tree.capacity, batch_size), _whole_priorities(rng, batch_size)

    def call(tree: SumTree, arguments: tuple[npt.NDArray, npt.NDArray]) -> None:
        tree.update(*arguments)
        tree.settle()  # a loop samples after its updates, which would pay for it there

    def check(tree: SumTree) -> None:
        leaves, rng = np.arange(tree.capacity), np.random.default_rng(2)
        expected = tree.get(leaves).copy()
        for _ in range(4):
            indices, priorities = inputs(tree, rng)
            tree.update(indices, priorities)
            expected[indices] = priorities
        expect_equal(tree.get(leaves), expected, "priorities")
        expect_equal(tree.total, expected.sum(dtype=np.float64), "total")

    return PrimitiveCase(
        primitive,
        target,
        batch_size,
        Case(
            name=f"{primitive} {target}",
            setup=tree,
            synchronise=lambda: tree().synchronise(),
            check=check,
            inputs=inputs,
            call=call,
            elsewhere=not target.on_host,
        ),
        work=work,
    )
