"""Prioritised replay that works with any sum tree (MAP II-A3, PAL II-A and Algorithm 1; Schaul et al. 2015)."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from placerl.primitives.replay.base import PriorityTree, Replay, Sample, as_td_errors
from placerl.primitives.replay.checks import number
from placerl.primitives.replay.schedule import Schedule
from placerl.primitives.replay.storage import Storage, as_indices

Normalisation = Literal["batch", "none"]

PRIORITY_MIN = float(np.finfo(np.float32).tiny)
"""The smallest priority of an item, the smallest normal float32: one that rounds to 0 could never be drawn."""
_EPSILON_USUAL = (1e-30, 1e30)
"""With such an epsilon and an alpha of at most 1, no priority overflows or is below `PRIORITY_MIN`."""


def item_priorities(
    td_errors: npt.NDArray[np.float64], alpha: float, epsilon: float
) -> npt.NDArray[np.float64]:
    """Compute the priorities of items, (|TD error| + epsilon) ** alpha, but at least `PRIORITY_MIN`.

    Args:
        td_errors: (B,) finite.
        alpha: exponent, at least 0.
        epsilon: number added to |TD error|, above 0.

    Returns:
        (B,), infinite where the power overflows.
    """
    if alpha <= 1 and _EPSILON_USUAL[0] <= epsilon <= _EPSILON_USUAL[1]:
        return (np.abs(td_errors) + epsilon) ** alpha
    with np.errstate(over="ignore"):
        return np.maximum((np.abs(td_errors) + epsilon) ** alpha, PRIORITY_MIN)


def importance_weights(
    priorities: npt.NDArray[np.floating],
    total: float,
    items: int,
    beta: float,
    normalisation: Normalisation = "batch",
) -> npt.NDArray[np.float32]:
    """Compute the importance weights of sampled items.

    w(i) = (1/N * sum(P) / P(i)) ** beta (PAL Algorithm 1, line 15), then divided by the largest w of the batch when
    `normalisation` is "batch", so that weights only scale a gradient down (Schaul et al. 2015, section 3.4 and
    Algorithm 1, line 12): that is (min(P) / P(i)) ** beta, which no beta makes overflow. With "none" the weights are
    PAL's own, not normalised; one above the largest float32 is infinite, which every learner refuses.

    Args:
        priorities: (B,) P(i) as they were when the items were sampled, all positive.
        total: sum of all priorities at that time.
        items: N, items in the buffer at that time.
        beta: exponent; 0 corrects nothing, 1 corrects the whole bias.
        normalisation: "batch" or "none".

    Returns:
        (B,) float32.
    """
    values = np.asarray(priorities, np.float64)
    if normalisation == "batch":
        return ((values.min() / values) ** beta).astype(np.float32)
    with np.errstate(over="ignore"):
        return ((total / items / values) ** beta).astype(np.float32)


def value_at(schedule: float | Schedule, step: int) -> float:
    """Return the value of a schedule at a step; a constant is returned unchanged."""
    return schedule(step) if callable(schedule) else schedule


def checked_beta(beta: float) -> float:
    """Return `beta`, the exponent of the importance weights, after checking it.

    Raises:
        TypeError: it is not a number.
        ValueError: it is negative, infinite or NaN.
    """
    beta = number("beta", beta, "a number of 0 or more")
    if not 0 <= beta < np.inf:
        raise ValueError(f"beta: found {beta}; allowed: 0 or more")
    return beta


def checked_options(
    alpha: float, beta: float | Schedule, epsilon: float, normalisation: str
) -> tuple[float, float | Schedule, float]:
    """Return the options that every prioritised replay takes, after checking them.

    Returns:
        alpha, beta and epsilon, numbers as floats.

    Raises:
        TypeError: an option is not a number, or a schedule does not return one.
        ValueError: an option is out of its range.
    """
    alpha, epsilon = (
        number("alpha", alpha, "a number of 0 or more"),
        number("epsilon", epsilon, "a number above 0"),
    )
    if not 0 <= alpha < np.inf:
        raise ValueError(f"alpha: found {alpha}; allowed: 0 or more")
    first = checked_beta(value_at(beta, 0))
    if not 0 < epsilon < np.inf:
        raise ValueError(f"epsilon: found {epsilon}; allowed: more than 0")
    if normalisation not in ("batch", "none"):
        raise ValueError(f"normalisation: found {normalisation!r}; allowed: 'batch', 'none'")
    return alpha, beta if callable(beta) else first, epsilon


class PrioritizedReplay(Replay):
    """A replay buffer that samples by priority.

    Item i is drawn with probability P(i) / sum(P), where P(i) = (|TD error| + epsilon) ** alpha, but at least
    `PRIORITY_MIN` (`item_priorities`), so that every item can be drawn. A new item takes the maximum priority that any
    item has had so far (1 before the first update), so that it is soon sampled (Schaul et al. 2015, Algorithm 1, line
    6; PAL IV-D2), unless its own TD error is given (MAP II-A1: actors compute the initial priority). Importance weights
    are `importance_weights` of the priorities as they are when the batch is drawn.

    Not thread-safe: `primitives.replay.concurrent.ConcurrentReplay` is.

    Attributes:
        storage: the data.
        tree: the sum tree of priorities, one leaf for each row of the storage.
        alpha: exponent on priorities; 0 samples uniformly.
        epsilon: number added to |TD error|, in the units of the TD error, so that no item's priority is 0.
        normalisation: how importance weights are normalised, "batch" or "none".
        samples_drawn: calls of `sample` so far, which is the step that the beta schedule sees.
        max_priority: the priority that a new item takes.
    """

    _kind = "prioritised"

    def __init__(
        self,
        storage: Storage,
        tree: PriorityTree,
        *,
        alpha: float = 0.6,
        beta: float | Schedule = 0.4,
        epsilon: float = 1e-6,
        normalisation: Normalisation = "batch",
    ) -> None:
        """Create the replay from an empty storage and an empty sum tree.

        Args:
            storage: where items go; empty.
            tree: sum tree with at least the storage's capacity, all priorities 0.
            alpha: in [0, inf).
            beta: a constant, or a schedule over calls of `sample` (one a gradient step).
            epsilon: positive.
            normalisation: "batch" or "none".

        Raises:
            ValueError: an argument out of its range, or a storage or tree that is not empty.
        """
        if tree.capacity < storage.capacity:
            raise ValueError(f"tree: found capacity {tree.capacity}; allowed: at least {storage.capacity}")
        if storage.size or tree.total:
            raise ValueError("storage, tree: found items or priorities; allowed: both empty")
        alpha, beta, epsilon = checked_options(alpha, beta, epsilon, normalisation)
        super().__init__(storage)
        self.tree = tree
        self.alpha = alpha
        self.epsilon = epsilon
        self.normalisation: Normalisation = normalisation
        self.samples_drawn = 0
        self.max_priority = 1.0
        self._beta = beta

    @property
    def beta(self) -> float:
        """The exponent of the importance weights that the next `sample` uses."""
        return value_at(self._beta, self.samples_drawn)

    def _priorities(self, td_errors: npt.ArrayLike, batch_size: int) -> npt.NDArray[np.float64]:
        return item_priorities(as_td_errors(td_errors, batch_size), self.alpha, self.epsilon)

    def insert(
        self, batch: Mapping[str, npt.ArrayLike], td_errors: npt.ArrayLike | None = None
    ) -> npt.NDArray[np.int64]:
        """Insert items, replacing the oldest ones when the storage is full.

        Args:
            td_errors: (n,) TD errors that the actor computed; if None, items get the maximum priority so far.

        Raises:
            TypeError, ValueError: a batch that does not fit the storage (`Storage.checked`), or TD errors
                that are not n finite numbers; state unchanged.
        """
        self._check_process()
        arrays = self.storage.checked(batch)
        n = len(next(iter(arrays.values())))
        priorities = np.full(n, self.max_priority) if td_errors is None else self._priorities(td_errors, n)
        # The tree is updated first: it may refuse a priority outside its float range, and then nothing is
        # written.
        rows = self.storage.next_rows(n)
        self._set_priorities(rows, priorities)
        return self.storage.write(arrays, rows)

    def sample(
        self,
        batch_size: int,
        rng: np.random.Generator,
        *,
        stratified: bool = False,
        out: Sample | None = None,
    ) -> Sample:
        batch_size, stratified = self._checked_sampling(batch_size, rng, stratified)
        beta = checked_beta(self.beta)
        out = self._checked_out(out, batch_size)
        out.indices[:] = self.tree.sample(batch_size, rng, stratified)
        out.weights[:] = importance_weights(
            self.tree.get(out.indices), float(self.tree.total), len(self), beta, self.normalisation
        )
        self.samples_drawn += 1
        self.storage.gather(out.indices, out.batch)
        return out

    def update_priorities(self, indices: npt.ArrayLike, td_errors: npt.ArrayLike) -> None:
        self._check_process()
        rows = as_indices(indices, len(self))
        priorities = self._priorities(td_errors, len(rows))
        if len(rows):
            self._set_priorities(rows, priorities)

    def _set_priorities(self, indices: npt.NDArray[np.int64], priorities: npt.NDArray[np.float64]) -> None:
        self.tree.update(indices, priorities)
        self.max_priority = max(self.max_priority, float(priorities.max()))

    def _configuration(self) -> dict[str, Any]:
        return super()._configuration() | {"alpha": self.alpha}

    def _state(self) -> dict[str, Any]:
        return {"max_priority": self.max_priority, "samples_drawn": self.samples_drawn}

    def _held_arrays(self, size: int) -> dict[str, npt.NDArray]:
        return {"priority": np.asarray(self.tree.get(np.arange(size)), np.float64)}

    def _restore(self, size: int, cursor: int, state: Any, arrays: Mapping[str, npt.NDArray]) -> None:
        max_priority, samples_drawn = checked_priority_state(state)
        self.tree.update(np.arange(self.storage.capacity), padded(arrays["priority"], self.storage.capacity))
        self.storage.size, self.storage.cursor = size, cursor
        self.max_priority, self.samples_drawn = max_priority, samples_drawn


def padded(priorities: npt.NDArray[np.float64], capacity: int) -> npt.NDArray[np.float64]:
    """Return a priority for every row of a storage, 0 for rows without an item.

    Args:
        priorities: (n,) priorities of the first n rows, which hold items.
    """
    return np.concatenate([priorities, np.zeros(capacity - len(priorities))])


def checked_priority_state(state: Any) -> tuple[float, int]:
    """Return the maximum priority and the number of calls of `sample` from a snapshot's state, after checking them.

    Args:
        state: the state of a prioritised replay, with the keys "max_priority" and "samples_drawn".

    Raises:
        ValueError: a value is missing or not allowed.
    """
    match state:
        case {"max_priority": float(max_priority), "samples_drawn": int(samples_drawn)}:
            if 0 < max_priority < np.inf and samples_drawn >= 0:
                return max_priority, samples_drawn
    raise ValueError(f"state: found {state!r}; allowed: a positive max_priority and a count samples_drawn")
