"""The native sum tree in tianshou 2.0.1's prioritised replay.

    from primitives.replay.adapters.tianshou_adapter import PrioritizedVectorReplayBuffer
    buffer = PrioritizedVectorReplayBuffer(20_000, buffer_num=8, alpha=0.6, beta=0.4)
    collector = Collector[CollectStats](algorithm, envs, buffer)

tianshou keeps its own storage, which its n-step returns and frame stacks need. Priorities are stored in this
project's tree instead of tianshou's segment tree, and indices are drawn in one native call. Importance weights
and priority updates are tianshou's own: its algorithms multiply `batch.weight` into their losses and send TD
errors to `update_weight`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from tianshou import data

from primitives.replay.adapters.segment_tree import SegmentTree


class _NativeTree:
    maxsize: int

    def __init__(self, *arguments: Any, fanout: int = 16, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.weight = SegmentTree(self.maxsize, fanout)
        self._rng = np.random.default_rng(options.get("random_seed", 42))

    def sample_indices(self, batch_size: int | None) -> npt.NDArray[np.int64]:
        if batch_size and batch_size > 0 and len(self) > 0:  # type: ignore[arg-type]
            return self.weight.tree.sample(batch_size, self._rng)
        return super().sample_indices(batch_size)  # type: ignore[misc]


class PrioritizedReplayBuffer(_NativeTree, data.PrioritizedReplayBuffer):
    """tianshou's `PrioritizedReplayBuffer`, for one environment, on this project's sum tree."""


class PrioritizedVectorReplayBuffer(_NativeTree, data.PrioritizedVectorReplayBuffer):
    """tianshou's `PrioritizedVectorReplayBuffer`, for several environments, on this project's sum tree."""
