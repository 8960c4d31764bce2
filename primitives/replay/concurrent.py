"""Prioritised replay for many threads, in C++ (PAL IV-D)."""

import os
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from placerl.primitives.interrupts import whole_imports
from placerl.primitives.replay.base import Contents, Replay, Sample, as_td_errors
from placerl.primitives.replay.prioritized import (
    Normalisation,
    checked_beta,
    checked_options,
    checked_priority_state,
    item_priorities,
    padded,
    value_at,
)
from placerl.primitives.replay.schedule import LinearSchedule, Schedule
from placerl.primitives.replay.storage import Storage, as_indices
from placerl.primitives.sum_tree.base import (
    FANOUT_MAX,
    FANOUT_MIN,
    checked_flag,
    checked_generator,
    checked_integer,
)
from placerl.primitives.sum_tree.running_sums import running_sums_max

RELEASE_FROM_LINES = 1024
"""A call that moves at least this many cache lines releases the GIL. For fewer lines, releasing the GIL costs more
than the call itself.
"""


_NOTHING = (None, None, None)  # indices, weights and columns that the extension makes


class ConcurrentReplay(Replay):
    """`PrioritizedReplay` for any number of threads, with its own native sum tree.

    Threads may insert, sample, gather (copy items by row) and update priorities at the same time. An item is sampled
    or gathered only when it is completely written, and the weights belong to the items returned, with their priorities
    at that moment; `concurrent_replay.hpp` explains how. A priority update of a row that is being replaced is dropped.
    If a row was replaced after it was sampled, `update_priorities` gives the priority to the new item, which PAL IV-D3
    accepts; gradient steps in one native call (`FusedSteps`, relaxed steps) leave the new item as it is. Each thread
    brings its own Generator.

    `sample` with `out` is the fast path: draw, gather and weights in one native call, into existing arrays. Small
    calls hold the GIL and large ones release it (`RELEASE_FROM_LINES`).

    Attributes:
        storage: the data. Only this object may use it from now on; the storage's own `size` stays 0.
        alpha: exponent on priorities; 0 samples uniformly.
        epsilon: number added to |TD error|, in the units of the TD error.
        normalisation: how importance weights are normalised, "batch" or "none" (`importance_weights`).
    """

    _kind = "prioritised"

    def __init__(
        self,
        storage: Storage,
        *,
        fanout: int = 16,
        alpha: float = 0.6,
        beta: float | Schedule = 0.4,
        epsilon: float = 1e-6,
        normalisation: Normalisation = "batch",
        release_from_lines: int = RELEASE_FROM_LINES,
    ) -> None:
        """Create the replay over an empty storage.

        Args:
            storage: where items go; empty, and on the host.
            fanout: children of a node of the sum tree (K), 2 to 256.
            alpha: in [0, inf).
            beta: a constant, or a schedule over calls of `sample` (one a gradient step).
            epsilon: positive.
            normalisation: "batch" or "none".
            release_from_lines: a call that moves at least this many cache lines releases the GIL; 0 or more.

        Raises:
            ImportError: the native extension is not built.
            TypeError: an argument of another type, or a storage in a device's memory.
            ValueError: an argument out of its range, or a storage that is not empty.
        """
        alpha, beta, epsilon = checked_options(alpha, beta, epsilon, normalisation)
        if not storage.on_host:
            raise TypeError(f"storage: found {type(storage).__name__}; allowed: one on the host")
        if storage.size:
            raise ValueError(f"storage: found {storage.size} items; allowed: an empty one")
        fanout = checked_integer("fanout", fanout, FANOUT_MIN, FANOUT_MAX)
        release_from_lines = checked_integer("release_from_lines", release_from_lines, 0, 2**62)
        super().__init__(storage)
        self.alpha = alpha
        self.epsilon = epsilon
        self.normalisation: Normalisation = normalisation
        self._beta = beta
        # The sum of `capacity` priorities must not overflow.
        self._priority_max = float(np.finfo(np.float32).max) / (2 * storage.capacity)
        self._fanout = fanout
        self._release_from_lines = release_from_lines
        self._native = self._created()

    def _created(self) -> Any:
        """Return a native replay without items, over the storage's columns."""
        try:
            with whole_imports():
                from placerl.primitives._native import replay as native
        except ImportError as error:
            raise ImportError(f"ConcurrentReplay: the native extension is not built: {error}") from error

        return native.Replay(
            self.storage.columns,
            self.storage.capacity,
            self._fanout,
            self.alpha,
            self.epsilon,
            self.normalisation == "batch",
            self._priority_max,
            self._release_from_lines,
            running_sums_max(self.storage.capacity, self._fanout),
        )

    def __getstate__(self) -> dict[str, Any]:
        self._check_process()  # before the lock, as in `save`
        self._native.freeze()
        try:
            contents = self._contents()
            copies = {name: column.copy() for name, column in contents.columns.items()}
        finally:
            self._native.thaw()
        return super().__getstate__() | {"_native": contents._replace(columns=copies)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        contents: Contents = state["_native"]
        self._native = self._created()
        self.storage.restore_columns(contents.columns)
        self._restore(contents.size, contents.cursor, contents.state, contents.arrays)

    def __len__(self) -> int:
        """Number of completely written items."""
        return int(self._native.size)

    @property
    def samples_drawn(self) -> int:
        """The number of calls of `sample` so far, which is the step of the beta schedule."""
        return int(self._native.samples_drawn)

    @property
    def beta(self) -> float:
        """The exponent of the importance weights that the next `sample` uses."""
        return value_at(self._beta, self.samples_drawn)

    def betas(self, count: int) -> list[float]:
        """Return the exponents of the importance weights (beta) that the next `count` calls of `sample` use."""
        beta, drawn = self._beta, self._native.samples_drawn
        if not callable(beta):
            return [beta] * count
        if isinstance(beta, LinearSchedule):  # between two values that are allowed, all are
            values = beta.values(drawn, count)
            for end in (values[0], values[-1]):
                checked_beta(end)
            return values
        return [checked_beta(beta(step)) for step in range(drawn, drawn + count)]

    @property
    def max_priority(self) -> float:
        """The priority that a new item takes."""
        return float(self._native.max_priority)

    def insert(
        self, batch: Mapping[str, npt.ArrayLike], td_errors: npt.ArrayLike | None = None
    ) -> npt.NDArray[np.int64]:
        """Insert items, replacing the oldest ones when the storage is full.

        Args:
            td_errors: (n,) TD errors that the actor computed; if None, items get the maximum priority so far.
        """
        self._check_process()
        rows: npt.NDArray[np.int64] | None = self._native.insert(batch, td_errors)
        if rows is None:
            arrays = {name: np.ascontiguousarray(a) for name, a in self.storage.checked(batch).items()}
            n = len(next(iter(arrays.values())))
            rows = self._native.insert(arrays, None if td_errors is None else self._checked(td_errors, n))
            if rows is None:
                raise self._too_large()
        return rows

    def sample(
        self,
        batch_size: int,
        rng: np.random.Generator,
        *,
        stratified: bool = False,
        out: Sample | None = None,
    ) -> Sample:
        self._check_process()
        beta = checked_beta(self.beta)
        drawn = None
        if out is None or isinstance(out, Sample):
            drawn = self._native.sample(batch_size, rng, stratified, beta, *(out or _NOTHING))
        if drawn is None:
            drawn = self._sample_checked(batch_size, rng, stratified, beta, out)
        return Sample(*drawn) if out is None else out

    def _sample_checked(
        self, batch_size: int, rng: np.random.Generator, stratified: bool, beta: float, out: Sample | None
    ) -> Any:
        size = checked_integer("batch_size", batch_size, 1, sys.maxsize)
        checked_generator(rng)
        in_parts = checked_flag("stratified", stratified)
        filled: tuple[Any, Any, Any] = _NOTHING
        if out is not None:
            self._checked_out(out, size)
            indices, weights = np.asarray(out.indices), np.asarray(out.weights)
            filled = indices.view(np.int64), weights.view(np.float32), _plain(out.batch)
        drawn = self._native.sample(size, rng, in_parts, beta, *filled)
        if drawn is None:
            raise TypeError(f"out: found {out}; allowed: arrays that `allocate` returns")
        return drawn

    def gather(
        self, indices: npt.ArrayLike, out: Mapping[str, npt.NDArray] | None = None
    ) -> dict[str, npt.NDArray]:
        """Return copies of the items at the given rows, each completely written."""
        self._check_process()
        rows = as_indices(indices, self._native.taken)
        if out is not None:
            self.storage.check_out(out, len(rows))
            out = dict(out)
        gathered: dict[str, npt.NDArray] | None = self._native.gather(rows, out)
        if gathered is None:
            gathered = self._native.gather(np.array(rows, np.int64), None if out is None else _plain(out))
            if gathered is None:
                raise TypeError(f"out: found {out}; allowed: arrays that `storage.allocate` returns")
        return gathered if out is None else out

    def priorities(self, indices: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the current priorities of rows (PAL IV-A3, priority retrieval); 0 for a row that is being written.

        Args:
            indices: (B,) integers; the rows must have been written before.

        Returns:
            (B,) float64.
        """
        self._check_process()
        rows = as_indices(indices, self._native.taken)
        priorities: npt.NDArray[np.float64] | None = self._native.priorities(rows)
        if priorities is None:  # not aligned, or C's other integer of 64 bits
            priorities = self._native.priorities(np.array(rows, np.int64))
            assert priorities is not None
        return priorities

    def update_priorities(self, indices: npt.ArrayLike, td_errors: npt.ArrayLike) -> None:
        self._check_process()
        if not self._native.update(indices, td_errors):
            rows = np.array(as_indices(indices, self._native.taken), np.int64)
            if not self._native.update(rows, self._checked(td_errors, len(rows))):
                raise self._too_large()

    def _checked(self, td_errors: npt.ArrayLike, batch_size: int) -> npt.NDArray[np.float64]:
        array = np.array(as_td_errors(td_errors, batch_size))  # a copy is contiguous and aligned
        largest = float(np.abs(array).max(initial=0.0))
        if not item_priorities(np.array(largest), self.alpha, self.epsilon) <= self._priority_max:
            raise ValueError(
                f"td_errors: found {largest}; allowed: a priority of at most {self._priority_max:.4g}"
            )
        return array

    def _too_large(self) -> ValueError:
        return ValueError(f"td_errors: found a priority above the largest, {self._priority_max:.4g}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write items and state to a file, atomically.

        Insertions by other threads wait until the file is written; their samples and updates continue.
        """
        self._check_process()  # before the lock, which a thread of the other process may have held
        self._native.freeze()
        try:
            super().save(path)
        finally:
            self._native.thaw()

    def clear(self) -> None:
        """Remove every item. New items get priority 1 again; the beta schedule goes on.

        No other thread may use the replay during the call.
        """
        self._check_process()
        self._native.restore(0, 0, 1.0, self.samples_drawn, np.zeros(self.storage.capacity))

    def _position(self) -> tuple[int, int]:
        return len(self), int(self._native.cursor)

    def _configuration(self) -> dict[str, Any]:
        return super()._configuration() | {"alpha": self.alpha}

    def _state(self) -> dict[str, Any]:
        return {"max_priority": self.max_priority, "samples_drawn": self.samples_drawn}

    def _held_arrays(self, size: int) -> dict[str, npt.NDArray]:
        return {"priority": self._native.priorities(np.arange(size))}

    def _restore(self, size: int, cursor: int, state: Any, arrays: Mapping[str, npt.NDArray]) -> None:
        max_priority, samples_drawn = checked_priority_state(state)
        priorities = padded(arrays["priority"], self.storage.capacity)
        if not self._native.restore(size, cursor, max_priority, samples_drawn, priorities):
            raise ValueError(f"priority: found NaN or out of range; allowed: 0 to {self._priority_max:.4g}")


def _plain(columns: Mapping[str, npt.NDArray]) -> dict[str, npt.NDArray]:
    """Return the same memory as the native calls take it: an exact dict of exact ndarrays."""
    return {name: np.asarray(column) for name, column in columns.items()}
