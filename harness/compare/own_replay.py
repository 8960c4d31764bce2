"""Lets this project's prioritised replay be timed without training, by the worker that times other libraries' replays.

The worker loads this file: `baselines/replay_worker.py own_replay.py`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from placerl.primitives import sum_tree
from placerl.primitives.replay.prioritized import PrioritizedReplay
from placerl.primitives.replay.storage import FieldSpec, Storage, transition_fields

PACKAGES = ("placerl",)
NOTE = ""
STALE_BATCHES = 0

Columns = dict[str, npt.NDArray[Any]]


class OwnReplay:
    """This project's prioritised replay in the form that the worker times.

    It has the native sum tree, and the transitions in host memory. Each sampled batch is written to the same arrays.

    Args:
        workload: the workload's tables, as in its TOML file.
    """

    def __init__(self, workload: dict[str, Any], batch_size: int, seed: int) -> None:
        replay, environment = workload["replay"], workload["environment"]
        shape = tuple(environment["observation_shape"])
        observation = FieldSpec(shape, np.uint8 if len(shape) > 1 else np.float32)
        action = FieldSpec((environment["action_size"],), np.float32)
        if environment["action_kind"] == "discrete":
            action = FieldSpec((), np.int64)
        self._replay = PrioritizedReplay(
            Storage(replay["capacity"], transition_fields(observation, action)),
            sum_tree.create(replay["capacity"], backend="native", fanout=replay["fanout"]),
            alpha=replay["alpha"],
            beta=replay["beta_initial"],
            epsilon=replay["epsilon"],
        )
        self._rng = np.random.default_rng(seed)
        self._out = self._replay.allocate(batch_size)
        self.insert = self._replay.insert
        self.update = self._replay.update_priorities

    def sample(self, batch_size: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32], Columns]:
        """Sample a batch of `batch_size` transitions with probabilities given by their priorities.

        Returns:
            The positions of the samples (B,), their importance weights (B,) and the columns of the batch by name.
        """
        drawn = self._replay.sample(batch_size, self._rng, out=self._out)
        return drawn.indices, drawn.weights, dict(drawn.batch)


create = OwnReplay
