"""The sum tree that every backend implements, and the checks that they share."""

import operator
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from placerl.primitives import backend as _backend

_PACKAGE = "placerl.primitives.sum_tree"
FANOUT_MIN = 2
FANOUT_MAX = 256


def checked_integer(name: str, value: SupportsIndex, low: int, high: int | None = None) -> int:
    """Return `value` as an int, after checking that it is in [low, high].

    Raises:
        TypeError: the value is not an integer.
        ValueError: the value is out of range.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: found {value!r}; allowed: an integer") from None
    if number < low or (high is not None and number > high):
        allowed = f"at least {low}" if high is None else f"{low} to {high}"
        raise ValueError(f"{name}: found {number}; allowed: {allowed}")
    return number


def checked_flag(name: str, value: bool | np.bool_) -> bool:
    """Return a truth value as a bool; a text such as "False" would count as True.

    Raises:
        TypeError: the value is neither True nor False.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise TypeError(f"{name}: found {value!r}; allowed: True, False")


def checked_generator(rng: np.random.Generator) -> np.random.Generator:
    """Return `rng`, after checking that it is a Generator.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng: found {type(rng).__name__}; allowed: numpy.random.Generator")
    return rng


def _vector(name: str, values: ArrayLike, kinds: str, allowed: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name}: found shape {array.shape}; allowed: one dimension, (B,)")
    if array.dtype.kind not in kinds and array.size:
        raise TypeError(f"{name}: found dtype {array.dtype}; allowed: {allowed}")
    return array


def checked_vector(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return `values` as a (B,) float64 array, after checking them.

    Raises:
        TypeError, ValueError: `values` is not a vector of real numbers.
    """
    return np.ascontiguousarray(_vector(name, values, "fiu", "real numbers"), dtype=np.float64)


def checked_indices(values: ArrayLike, capacity: int) -> NDArray[np.int64]:
    """Return `values` as a (B,) int64 array, after checking that all are indices of leaves.

    Raises:
        TypeError, ValueError: `values` is not a vector of integers in [0, capacity).
    """
    array = _vector("indices", values, "iu", "integers")
    outside = (array < 0) | (array >= capacity) if array.size else np.zeros(0, dtype=bool)
    if outside.any():
        raise ValueError(f"indices: found {array[outside][0]}; allowed: 0 to {capacity - 1}")
    return np.ascontiguousarray(array, dtype=np.int64)


def fractions(batch_size: int, rng: np.random.Generator, stratified: bool) -> NDArray[np.float64]:
    """Draw the fractions of the total at which leaves are sampled.

    Args:
        stratified: draw one fraction from each of B equal parts, in ascending order.

    Returns:
        (B,) in [0, 1]; 1 only by rounding.
    """
    uniform = rng.random(batch_size)
    return (uniform + np.arange(batch_size)) / batch_size if stratified else uniform


class SumTree(ABC):
    """A sum tree: holds the priorities P[0..capacity-1], all 0 at first, and their sums (MAP IV-C, PAL IV-C).

    A call with a wrong argument raises and leaves the tree as it was. Calls from several threads must be
    serialised by the caller unless a backend says otherwise.

    `pickle`, `copy.deepcopy` and `copy.copy` make an independent tree of the same backend, options and priorities,
    which draws the same leaves from the same random numbers. Unpickling raises BackendUnavailableError where the
    backend cannot be used.

    Args:
        capacity: number of leaves, at least 1.
        fanout: children of a node (K), 2 to 256.
        dtype: floating-point type in which priorities and sums are kept.
    """

    backend: ClassVar[str]
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        tree = super().__new__(cls)
        tree._arguments = arguments, options  # for `__reduce__`
        return tree

    def __init__(self, capacity: int, fanout: int, dtype: DTypeLike) -> None:
        self._capacity = checked_integer("capacity", capacity, 1)
        self._fanout = checked_integer("fanout", fanout, FANOUT_MIN, FANOUT_MAX)
        self._dtype = np.dtype(dtype)
        if self._dtype.kind != "f" or self._dtype.itemsize not in (4, 8):
            raise ValueError(f"dtype: found {self._dtype}; allowed: float32, float64")
        self._priority_max = float(np.finfo(self._dtype).max) / (2.0 * self._capacity)

    @property
    def capacity(self) -> int:
        """The number of leaves."""
        return self._capacity

    @property
    def fanout(self) -> int:
        """The number of children of a node (K)."""
        return self._fanout

    @property
    def dtype(self) -> np.dtype:
        """The floating-point type of priorities and sums; priorities below its smallest number round to 0."""
        return self._dtype

    @property
    def priority_max(self) -> float:
        """The largest priority allowed: with it, the sum of `capacity` priorities cannot overflow."""
        return self._priority_max

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return self._total()

    def find(self, prefix: ArrayLike) -> NDArray[np.int64]:
        """Return the prefix sum index of each prefix: the smallest i with P[0] + ... + P[i] > prefix (MAP
        Equation 1).

        Sums are rounded to `dtype`, so near the boundary between two leaves either leaf may be returned. A
        leaf of priority 0 is never returned.

        Args:
            prefix: (B,) real, each in [0, total).

        Returns:
            (B,) int64 leaf indices.

        Raises:
            ValueError: wrong shape, a prefix out of range, or a total of 0.
            TypeError: not real numbers.
        """
        values = checked_vector("prefix", prefix)
        if values.size:
            total = self._positive_total()
            outside = ~((values >= 0) & (values < total))
            if outside.any():
                raise ValueError(
                    f"prefix: found {values[outside][0]}; allowed: 0 to below the total, {total}"
                )
        return self._find(values)

    def sample(
        self, batch_size: int, rng: np.random.Generator, stratified: bool = False
    ) -> NDArray[np.int64]:
        """Draw leaves with replacement, each with probability P[i] / total (PAL IV-A2).

        Args:
            batch_size: B, at least 1.
            rng: source of the random numbers; the same state gives the same leaves.
            stratified: draw one prefix from each of B equal parts of [0, total), in ascending order.

        Returns:
            (B,) int64 leaf indices, never one of priority 0.

        Raises:
            ValueError: `batch_size` below 1, or a total of 0.
            TypeError: `batch_size` is not an integer, `rng` not a Generator, or `stratified` neither True nor False.
        """
        size = checked_integer("batch_size", batch_size, 1, sys.maxsize)
        checked_generator(rng)
        in_parts = checked_flag("stratified", stratified)
        self._positive_total()
        return self._sample(size, rng, in_parts)

    def update(self, indices: ArrayLike, priorities: ArrayLike) -> None:
        """Set P[indices[b]] = priorities[b]; if an index is repeated, its last priority is kept (PAL IV-A4).

        Args:
            indices: (B,) integers in [0, capacity).
            priorities: (B,) real, each in [0, priority_max].

        Raises:
            ValueError: shapes differ, an index out of range, or a priority that is NaN, infinite, negative
                or above `priority_max`. The tree is unchanged.
            TypeError: wrong kind of numbers. The tree is unchanged.
        """
        leaves = checked_indices(indices, self._capacity)
        values = checked_vector("priorities", priorities)
        if leaves.shape != values.shape:
            raise ValueError(
                f"priorities: found shape {values.shape}; allowed: that of indices, {leaves.shape}"
            )
        outside = ~((values >= 0) & (values <= self._priority_max))
        if outside.any():
            raise ValueError(
                f"priorities: found {values[outside][0]}; allowed: 0 to {self._priority_max:.4g}"
            )
        if leaves.size:
            self._update(leaves, values)

    def get(self, indices: ArrayLike) -> NDArray[np.floating]:
        """Return the priorities of the given leaves, as stored.

        Args:
            indices: (B,) integers in [0, capacity).

        Returns:
            (B,) of `dtype`.

        Raises:
            ValueError: wrong shape or an index out of range.
            TypeError: not integers.
        """
        return self._get(checked_indices(indices, self._capacity))

    def synchronise(self) -> None:  # noqa: B027 - most backends are done when a call returns
        """Wait until all operations are done. On a device, `update` may return before the tree is updated."""

    def settle(self) -> None:  # noqa: B027 - most backends leave nothing
        """Do the part of past updates that a backend leaves to the next `find` or `sample`.

        It changes no result; a timing of updates that a sample will follow includes it.
        """

    def __reduce__(self) -> tuple[Callable, tuple, dict[str, Any]]:
        if self.backend not in _backend.names(_PACKAGE):
            raise TypeError(
                f"{type(self).__name__}: found a tree that no backend creates, so its sums may not follow from its "
                f"priorities; allowed in a copy or a pickle: trees of {', '.join(_backend.names(_PACKAGE))}"
            )
        return _empty_tree, (type(self), *self._arguments), self.__getstate__()

    def __getstate__(self) -> dict[str, Any]:
        self.synchronise()
        return {"priorities": self.get(np.arange(self._capacity))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A stored priority may have been rounded up, to just above the largest that `update` takes.
        self.update(
            np.arange(self._capacity), np.minimum(np.float64(state["priorities"]), self._priority_max)
        )

    def _positive_total(self) -> float:
        total = self._total()
        if total <= 0:
            raise ValueError(
                "total: found 0; allowed: at least one positive priority before leaves are drawn"
            )
        return total

    def _sample(self, batch_size: int, rng: np.random.Generator, stratified: bool) -> NDArray[np.int64]:
        """Implement `sample`; the arguments are already checked."""
        total = self._total()
        places = fractions(batch_size, rng, stratified) * total
        return self._find(np.minimum(places, np.nextafter(total, 0.0)))

    @abstractmethod
    def _total(self) -> float: ...

    @abstractmethod
    def _find(self, prefix: NDArray[np.float64]) -> NDArray[np.int64]:
        """Implement `find`; the prefixes are already checked."""

    @abstractmethod
    def _update(self, indices: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
        """Implement `update`; the arguments are already checked."""

    @abstractmethod
    def _get(self, indices: NDArray[np.int64]) -> NDArray[np.floating]:
        """Implement `get`; the indices are already checked."""


def _empty_tree(kind: type[SumTree], arguments: tuple[Any, ...], options: dict[str, Any]) -> SumTree:
    """Create a tree for a pickle or a copy to fill.

    Raises:
        BackendUnavailableError: the backend cannot be used on this machine.
    """
    _backend.load(_PACKAGE, kind.backend)
    return kind(*arguments, **options)
