"""Wraps cpprb's prioritised replay buffer, which `baselines/replay_worker.py` times."""

import numpy as np
from cpprb import PrioritizedReplayBuffer

PACKAGES = ("cpprb",)
NOTE = ""
STALE_BATCHES = 0


class Buffer:
    """A replay in cpprb's buffer, with settings that favour cpprb.

    The columns are declared with shape and dtype, so that they are stored without conversion, and transitions are
    added in bulk.
    """

    def __init__(self, workload, batch_size, seed):
        replay, environment = workload["replay"], workload["environment"]
        shape = tuple(environment["observation_shape"])
        pixels = np.uint8 if len(shape) > 1 else np.float32
        action = {"shape": environment["action_size"], "dtype": np.float32}
        if environment["action_kind"] == "discrete":
            action = {"dtype": np.int64}
        columns = {
            "observation": {"shape": shape, "dtype": pixels},
            "action": action,
            "reward": {"dtype": np.float32},
            "next_observation": {"shape": shape, "dtype": pixels},
            "terminated": {"dtype": np.bool_},
        }
        self._beta = replay["beta_initial"]
        self._columns = tuple(columns)
        self._buffer = PrioritizedReplayBuffer(
            replay["capacity"], columns, alpha=replay["alpha"], eps=replay["epsilon"]
        )

    def insert(self, columns):
        """Store the N transitions of `columns`, (N, ...) each."""
        self._buffer.add(**columns)

    def sample(self, batch_size):
        """Return a batch drawn by priority: indices of the items, importance weights, and columns by name."""
        drawn = self._buffer.sample(batch_size, self._beta)
        return drawn["indexes"], drawn["weights"], drawn

    def update(self, keys, td_errors):
        """Set the priorities of the items with indices `keys` from their (B,) TD errors."""
        self._buffer.update_priorities(keys, td_errors)


create = Buffer
