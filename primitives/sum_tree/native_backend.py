"""The K-ary sum tree in C++: an array per level in cache-aligned groups, SIMD instructions, and batched descents.

A call takes the fast path when its arrays already have the types that the kernels read: contiguous int64
indices, float64 prefixes, float64 or float32 priorities. Other arrays go through the checks and conversions
of `SumTree`.
"""

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from placerl.primitives.interrupts import whole_imports
from placerl.primitives.sum_tree.base import SumTree, checked_integer
from placerl.primitives.sum_tree.extension import ExtensionSumTree
from placerl.primitives.sum_tree.own_process import OwnProcessSumTree
from placerl.primitives.sum_tree.running_sums import running_sums_max as measured

SIMD = ("", "avx512", "avx2", "portable")


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    try:
        with whole_imports():
            from placerl.primitives import _native  # noqa: F401
    except ImportError as error:
        return f"the native extension is not built: {error}"
    return ""


def create(
    capacity: int,
    fanout: int,
    *,
    dtype: DTypeLike = np.float32,
    simd: str = "",
    aligned: bool = True,
    running_sums_max: int | None = None,
    threads: int = 1,
) -> SumTree:
    """Create a `NativeSumTree`.

    Args:
        fanout: children of a node (K); 16 fills a cache line with float32.
        dtype: float32 or float64.
        simd: instruction set, "avx512", "avx2" or "portable"; empty for the widest one of this processor.
        aligned: whether groups of nodes start on cache lines (PAL IV-C4); False serves to measure the effect
            of alignment.
        threads: OpenMP threads that `find` and `sample` of a thousand items or more may use. More than 1
            slows down small batches, and stalls a call for milliseconds when other work occupies the cores. The tree
            then belongs to the process that created it: a copy made by a fork raises RuntimeError when it is used.
        running_sums_max: levels of the tree with at most this many values store running sums of a node's children,
            which makes a sample faster, but the first one after updates brings them up to date. By default the number
            with which a sample and an update together are fastest on this processor, measured at first use
            (`running_sums`). It does not change results.

    Raises:
        ValueError: a value is not allowed, or the processor lacks the instruction set.
    """
    tree = NativeSumTree if threads == 1 else ThreadedSumTree
    return tree(capacity, fanout, dtype, simd, aligned, running_sums_max, threads)


class NativeSumTree(ExtensionSumTree):
    """A sum tree in C++. Its calls hold the GIL, so that Python threads see each one as atomic.

    `update` computes every sum from the values below it, so that sums do not drift. It leaves only the running sums
    (`running_sums_max`) to the next `find` or `sample`, or to `settle`.

    Only `sample` releases the GIL, and only while it waits for the Generator's lock, before it reads the tree.

    `sample` seeds a vectorised xoshiro256++ with 128 bits from the Generator. The same Generator state gives the same
    random numbers on every instruction set, but not with another number of threads and not on other backends.
    """

    backend = "native"

    def __init__(
        self,
        capacity: int,
        fanout: int,
        dtype: DTypeLike,
        simd: str,
        aligned: bool,
        running_sums_max: int | None,
        threads: int,
    ) -> None:
        super().__init__(capacity, fanout, dtype)
        from placerl.primitives._native import sum_tree

        if simd not in SIMD:
            raise ValueError(
                f"simd: found {simd!r}; allowed: avx512, avx2, portable, or empty for the widest"
            )
        if running_sums_max is not None:
            checked_integer("running_sums_max", running_sums_max, 0, 2**62)
        checked_integer("threads", threads, 1, 256)
        if threads > 1 and not sum_tree.has_openmp():
            raise ValueError(f"threads: found {threads}; allowed: 1, as this build has no OpenMP")
        if running_sums_max is None:
            running_sums_max = measured(self.capacity, self.fanout, self.dtype.itemsize, simd)
        kind = sum_tree.Tree32 if self.dtype == np.float32 else sum_tree.Tree64
        self._tree = kind(
            self.capacity, self.fanout, self.priority_max, bool(aligned), running_sums_max, simd, threads
        )

    @property
    def simd(self) -> str:
        """The instruction set in use: "avx512", "avx2" or "portable"."""
        return str(self._tree.simd)

    @property
    def nbytes(self) -> int:
        """The number of bytes of memory that the tree occupies."""
        return int(self._tree.nbytes)

    def find(self, prefix: ArrayLike) -> NDArray[np.int64]:
        indices = self._tree.find(prefix)
        return super().find(prefix) if indices is None else indices

    def sample(
        self, batch_size: int, rng: np.random.Generator, stratified: bool = False
    ) -> NDArray[np.int64]:
        indices = self._tree.sample(batch_size, rng, stratified)
        return super().sample(batch_size, rng, stratified) if indices is None else indices

    def update(self, indices: ArrayLike, priorities: ArrayLike) -> None:
        if not self._tree.update(indices, priorities):
            super().update(indices, priorities)

    def settle(self) -> None:
        self._tree.settle()

    def get(self, indices: ArrayLike) -> NDArray[np.floating]:
        priorities = self._tree.get(indices)
        return super().get(indices) if priorities is None else priorities

    def _sample(self, batch_size: int, rng: np.random.Generator, stratified: bool) -> NDArray[np.int64]:
        indices: NDArray[np.int64] | None = self._tree.sample(batch_size, rng, stratified)
        while indices is None:  # another thread took the last priority during the wait for the Generator
            self._positive_total()
            indices = self._tree.sample(batch_size, rng, stratified)
        return indices


class ThreadedSumTree(OwnProcessSumTree, NativeSumTree):
    """A `NativeSumTree` with several threads, which a forked process does not have."""
