"""The K-ary sum tree in C++: implicit arrays in cache-aligned node groups, SIMD selection, batched descents.

A call takes its fast path when the arrays are already what the kernels read: contiguous int64 indices,
float64 prefixes, float64 or float32 priorities. Anything else goes through the checks and conversions of
`SumTree`.
"""

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from primitives.sum_tree.base import SumTree, checked_integer
from primitives.sum_tree.extension import ExtensionSumTree

SIMD = ("", "avx512", "avx2", "portable")


def unavailable_reason() -> str:
    """Why this backend cannot be used here; empty when it can."""
    try:
        from primitives import _native  # noqa: F401
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
    running_sums_max: int = 65536,
    threads: int = 1,
) -> SumTree:
    """A `NativeSumTree`.

    Args:
        capacity: number of leaves.
        fanout: children of a node (K); 16 fills a cache line with float32.
        dtype: float32 or float64.
        simd: instruction set, "avx512", "avx2" or "portable"; empty for the widest that this processor has.
        aligned: start node groups on cache lines (PAL IV-C4); False is there to measure what that brings.
        threads: that `find` and `sample` of a thousand items or more may use, through OpenMP. More than 1 slow
            small batches down, and stall a call for milliseconds where the cores are taken.
        running_sums_max: levels of at most this many values keep running sums in their nodes.

    Raises:
        ValueError: a value is not allowed, or the processor lacks the instruction set.
    """
    return NativeSumTree(capacity, fanout, dtype, simd, aligned, running_sums_max, threads)


class NativeSumTree(ExtensionSumTree):
    """A sum tree whose calls are atomic under the GIL, which they hold throughout.

    `sample` seeds a vectorised xoshiro256++ with 128 bits from the Generator: the same Generator state gives
    the same prefixes on every instruction set, though not with other `threads`, nor those of another backend.
    """

    backend = "native"

    def __init__(
        self,
        capacity: int,
        fanout: int,
        dtype: DTypeLike,
        simd: str,
        aligned: bool,
        running_sums_max: int,
        threads: int,
    ) -> None:
        super().__init__(capacity, fanout, dtype)
        from primitives._native import sum_tree

        if simd not in SIMD:
            raise ValueError(
                f"simd: found {simd!r}; allowed: avx512, avx2, portable, or empty for the widest"
            )
        checked_integer("running_sums_max", running_sums_max, 0, 2**62)
        checked_integer("threads", threads, 1, 256)
        if threads > 1 and not sum_tree.has_openmp():
            raise ValueError(f"threads: found {threads}; allowed: 1, as this build has no OpenMP")
        kind = sum_tree.Tree32 if self.dtype == np.float32 else sum_tree.Tree64
        self._tree = kind(
            self.capacity, self.fanout, self.priority_max, bool(aligned), running_sums_max, simd, threads
        )

    @property
    def simd(self) -> str:
        """The instruction set in use."""
        return str(self._tree.simd)

    @property
    def nbytes(self) -> int:
        """Memory that the tree occupies."""
        return int(self._tree.nbytes)

    def load_paths(self, indices: NDArray[np.int64], *, dependent: bool) -> float:
        """Loads what descents to some leaves load, without their work: the memory's share of their time.

        Args:
            indices: (B,) contiguous int64 in [0, capacity).
            dependent: each load waits for the one above it, as in a descent; else none waits.

        Returns:
            A number without meaning, there so that nothing is left out.

        Raises:
            ValueError: `indices` is something else.
        """
        return float(self._tree.load_paths(indices, dependent))

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

    def get(self, indices: ArrayLike) -> NDArray[np.floating]:
        priorities = self._tree.get(indices)
        return super().get(indices) if priorities is None else priorities

    def _sample(self, batch_size: int, rng: np.random.Generator, stratified: bool) -> NDArray[np.int64]:
        indices: NDArray[np.int64] = self._tree.sample(batch_size, rng, stratified)
        return indices
