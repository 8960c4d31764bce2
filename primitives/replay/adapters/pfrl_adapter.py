"""The native sum tree in PFRL 0.4.0's prioritised replay.

    from primitives.replay.adapters.pfrl_adapter import PrioritizedReplayBuffer
    replay_buffer = PrioritizedReplayBuffer(10**6, alpha=0.6, beta0=0.4, betasteps=10**5)
    agent = pfrl.agents.DoubleDQN(q_function, optimizer, replay_buffer, gamma, explorer)

PFRL's agents keep their transitions as Python dictionaries, and this adapter stores them in a ring. Priorities,
draws and weights are computed natively. PFRL weighs its losses itself (`compute_weighted_value_loss`) and sends
TD errors to `update_errors`. Two things differ from PFRL's buffer: items are drawn with replacement (Schaul et
al. 2015), whereas PFRL takes an item out until its TD error comes back; and weights cannot be normalised over the
whole memory (`normalize_by_max="memory"`), which would need a second tree. Of PFRL's agents only DQN and its
descendants support priorities.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from pfrl import replay_buffers

from primitives import sum_tree


def _global_seed() -> int:
    """Return a seed from NumPy's global state, which PFRL's `set_random_seed` seeds."""
    return int(np.random.randint(2**31))  # noqa: NPY002


class PriorityRing:
    """A ring of Python objects with priorities; replaces `pfrl.collections.prioritized.PrioritizedBuffer`.

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
        self._sampled = self.tree.sample(n, self._rng)
        probabilities = self.tree.get(self._sampled).astype(np.float64) / self.tree.total
        return [self.data[row] for row in self._sampled.tolist()], probabilities, None

    def set_last_priority(self, priorities: npt.NDArray[np.float64]) -> None:
        self.tree.update(self._sampled, priorities)
        self.max_priority = max(self.max_priority, float(priorities.max()))


class PrioritizedReplayBuffer(replay_buffers.PrioritizedReplayBuffer):
    """PFRL's `PrioritizedReplayBuffer` on this project's sum tree.

    It takes the arguments of PFRL's class, of which `capacity` is required here, and `fanout`, the number of children
    of a node of the tree.
    """

    beta: float

    def __init__(self, capacity: int, *arguments: Any, fanout: int = 16, **options: Any) -> None:
        super().__init__(capacity, *arguments, **options)
        if self.normalize_by_max == "memory":
            raise ValueError("normalize_by_max: found 'memory'; allowed: True, 'batch', False")
        self.memory = PriorityRing(capacity, fanout)

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
        clipped = np.clip(np.asarray(errors, np.float64), self.error_min, self.error_max)
        return (clipped + self.eps) ** self.alpha
