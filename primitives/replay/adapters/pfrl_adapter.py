"""The native sum tree in PFRL 0.4.0's prioritised replay.

    from placerl.primitives.replay.adapters.pfrl_adapter import PrioritizedReplayBuffer
    replay_buffer = PrioritizedReplayBuffer(10**6, alpha=0.6, beta0=0.4, betasteps=10**5)
    agent = pfrl.agents.DoubleDQN(q_function, optimizer, replay_buffer, gamma, explorer)

PFRL's agents keep their transitions as Python dictionaries, and this adapter stores them in a ring. Priorities,
draws and weights are computed natively. PFRL weighs its losses itself (`compute_weighted_value_loss`) and sends
TD errors to `update_errors`. Two things differ from PFRL's buffer: items are drawn with replacement (Schaul et
al. 2015), whereas PFRL takes an item out until its TD error comes back; and weights cannot be normalised over the
whole memory (`normalize_by_max="memory"`), which would need a second tree. Of PFRL's agents only DQN and its
descendants support priorities: with another one, the second `sample` raises AssertionError, as no TD errors came back.
PFRL raises it in the same places, without a message. `save` and `load` work as PFRL's: a loaded memory brings its
own capacity and tree, and its draws continue. A file that PFRL's own buffer saved is refused.
"""

import pickle
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from pfrl import replay_buffers

from placerl.primitives import sum_tree
from placerl.primitives.replay.adapters.segment_tree import drawable


def _global_seed() -> int:
    """Return a seed from NumPy's global state, which PFRL's `set_random_seed` seeds."""
    return int(np.random.randint(2**31))  # noqa: NPY002


class PriorityRing:
    """A ring of Python objects with priorities; replaces `pfrl.collections.prioritized.PrioritizedBuffer`.

    Calls of `sample` and `set_last_priority` take turns.

    Args:
        capacity: number of objects that fit; a new object then replaces the oldest.
        fanout: children of a node of the sum tree (K), 2 to 256.
        seed: seed of the draws; by default one drawn from NumPy's global generator, which PFRL seeds.
    """

    def __init__(self, capacity: int, fanout: int = 16, seed: int | None = None) -> None:
        self.capacity = capacity
        self.tree = sum_tree.create(capacity, fanout=fanout)
        self.data: list[Any] = []
        self.max_priority = 1.0
        self._cursor = 0
        self._sampled: npt.NDArray[np.int64] | None = None
        self._rng = np.random.default_rng(_global_seed() if seed is None else seed)

    def __len__(self) -> int:
        return len(self.data)

    def append(self, value: Any, priority: float | None = None) -> None:
        if len(self.data) < self.capacity:
            self.data.append(value)
        else:
            self.data[self._cursor] = value
        priority = self.max_priority if priority is None else priority
        self.tree.update(np.array([self._cursor]), np.array([priority]))
        self._cursor = (self._cursor + 1) % self.capacity

    def sample(self, n: int) -> tuple[list[Any], npt.NDArray[np.float64], None]:
        if self._sampled is not None:
            raise AssertionError(
                "sample: found no TD errors for the last sample; allowed: `update_errors` after each `sample`, as "
                "pfrl.agents.DQN and its descendants call it. Other agents take pfrl.replay_buffers.ReplayBuffer"
            )
        if not 1 <= n <= len(self):
            raise AssertionError(f"sample: found {n} of {len(self)} items; allowed: 1 to {len(self)}")
        self._sampled = self.tree.sample(n, self._rng)
        probabilities = self.tree.get(self._sampled).astype(np.float64) / self.tree.total
        return [self.data[row] for row in self._sampled.tolist()], probabilities, None

    def set_last_priority(self, priorities: npt.NDArray[np.float64]) -> None:
        if self._sampled is None:
            raise AssertionError(
                "update_errors: found no sample before it; allowed: one call after each `sample`"
            )
        if priorities.shape != self._sampled.shape or not (priorities > 0).all():
            raise AssertionError(
                f"update_errors: found priorities {priorities}; allowed: {len(self._sampled)} above 0"
            )
        self.tree.update(self._sampled, drawable(priorities))
        self._sampled = None
        self.max_priority = max(self.max_priority, float(priorities.max()))


class PrioritizedReplayBuffer(replay_buffers.PrioritizedReplayBuffer):
    """PFRL's `PrioritizedReplayBuffer` on this project's sum tree.

    It takes the arguments of PFRL's class, of which `capacity` is required here, and `fanout`, the number of children
    of a node of the tree.
    """

    beta: float

    def __init__(self, capacity: int, *arguments: Any, fanout: int = 16, **options: Any) -> None:
        if capacity is None:
            raise ValueError(
                "capacity: found None; allowed: a number of transitions, as the tree's size is fixed"
            )
        super().__init__(capacity, *arguments, **options)
        if self.normalize_by_max == "memory":
            raise ValueError("normalize_by_max: found 'memory'; allowed: True, 'batch', False")
        self.memory = PriorityRing(capacity, fanout)

    def load(self, filename: str | PathLike[str]) -> None:
        """Replace the memory by one that `save` wrote. Unpickling runs code: load only files that you trust.

        Raises:
            ValueError: a file of another kind of buffer; the memory is unchanged.
        """
        with open(filename, "rb") as file:
            memory = pickle.load(file)
        if not isinstance(memory, PriorityRing):
            raise ValueError(
                f"{filename}: found {type(memory).__name__}; allowed: a file that this class saved"
            )
        self.memory = memory

    def sample(self, n: int) -> list[Any]:
        # PFRL writes an item's weight into its dictionary, so two draws of one item need two dictionaries.
        return [[{**steps[0], "weight": weight}, *steps[1:]] for (steps, weight) in self._weighted(n)]

    def _weighted(self, n: int) -> zip:
        sampled, probabilities, _ = self.memory.sample(n)
        return zip(sampled, self.weights_from_probabilities(probabilities, None), strict=True)

    def weights_from_probabilities(
        self, probabilities: npt.NDArray[np.float64], min_probability: None
    ) -> list[float]:
        least = probabilities.min() if self.normalize_by_max else 1 / len(self.memory)
        weights = (probabilities / least) ** -self.beta
        self.beta = min(1.0, self.beta + self.beta_add)
        return weights.tolist()

    def priority_from_errors(self, errors: Any) -> npt.NDArray[np.float64]:
        least = -np.inf if self.error_min is None else self.error_min
        most = np.inf if self.error_max is None else self.error_max
        return (np.clip(np.asarray(errors, np.float64), least, most) + self.eps) ** self.alpha
