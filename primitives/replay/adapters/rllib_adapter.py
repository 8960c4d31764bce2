"""The native sum tree in RLlib 2.60's prioritised episode replay (new API stack).

    from primitives.replay.adapters.rllib_adapter import PrioritizedEpisodeReplayBuffer
    algorithm = SACConfig().environment("Pendulum-v1").build_algo()
    algorithm.local_replay_buffer = PrioritizedEpisodeReplayBuffer(50_000, alpha=0.6)

The buffer is set after the algorithm is built, because SAC's configuration accepts only RLlib's own class; beta
stays in the configuration. RLlib keeps its episodes and cuts them into transitions when it samples. Priorities
are stored in this project's tree, and a batch's priorities are updated in one call. RLlib weighs its losses
itself and sends TD errors back. One thing differs: importance weights are normalised by the largest weight of the
batch (Schaul et al. 2015), not by the largest of the whole buffer, for which RLlib keeps a second tree of minima.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from ray.rllib.utils.replay_buffers import prioritized_episode_buffer

from primitives.replay.adapters.segment_tree import SegmentTree

PRIORITY_MIN = 1e-12
"""The smallest |TD error| that RLlib uses; smaller ones are raised to it."""


class _SumTree(SegmentTree):
    """The methods of `SumSegmentTree` that RLlib calls."""

    @property
    def capacity(self) -> int:
        return self.tree.capacity

    def sum(self) -> float:
        return self.reduce()

    def find_prefixsum_idx(self, prefix: float) -> int:
        return int(self.get_prefix_sum_idx(np.array([prefix]))[0])

    def get_state(self) -> dict[str, Any]:
        return {"priorities": self.tree.get(np.arange(self.capacity))}

    def set_state(self, state: dict[str, Any]) -> None:
        self.tree.update(np.arange(self.capacity), state["priorities"])


class _NoMinima:
    """Replaces RLlib's `MinSegmentTree`; its return value leaves RLlib's weights without normalisation."""

    def __init__(self, buffer: "PrioritizedEpisodeReplayBuffer") -> None:
        self._buffer = buffer

    def __setitem__(self, index: int, priority: float) -> None:
        pass

    def min(self) -> float:
        return self._buffer._sum_segment.sum() / self._buffer.get_num_timesteps()

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        pass


class PrioritizedEpisodeReplayBuffer(prioritized_episode_buffer.PrioritizedEpisodeReplayBuffer):
    """RLlib's `PrioritizedEpisodeReplayBuffer` on this project's sum tree.

    It takes the arguments of RLlib's class, and `fanout`, the number of children of a node of the tree.
    """

    _max_priority: float
    _sum_segment: _SumTree

    def __init__(self, *arguments: Any, fanout: int = 16, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._sum_segment = _SumTree(self._sum_segment.capacity, fanout)
        self._min_segment = _NoMinima(self)

    def sample(self, *arguments: Any, **options: Any) -> Any:
        episodes = super().sample(*arguments, **options)
        weights = [episode.extra_model_outputs["weights"].data for episode in episodes]
        largest = max(weight[0] for weight in weights)
        for weight in weights:
            weight[0] /= largest
        return episodes

    def update_priorities(self, priorities: npt.NDArray, module_id: str | None = None) -> None:
        rows = np.array(self._last_sampled_indices)
        if len(priorities) != len(rows):
            raise ValueError(f"priorities: found {len(priorities)}; allowed: {len(rows)}, as many as sampled")
        values = np.maximum(np.asarray(priorities, np.float64), PRIORITY_MIN)
        self._sum_segment[rows] = values**self._alpha
        self._max_priority = max(self._max_priority, float(values.max()))
        self._last_sampled_indices.clear()
