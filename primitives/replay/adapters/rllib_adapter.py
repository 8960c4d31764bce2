"""The native sum tree in RLlib 2.60's prioritised episode replay (new API stack).

    from placerl.primitives.replay.adapters.rllib_adapter import PrioritizedEpisodeReplayBuffer
    algorithm = SACConfig().environment("Pendulum-v1").build_algo()
    algorithm.local_replay_buffer = PrioritizedEpisodeReplayBuffer(50_000, alpha=0.6)

The buffer is set after the algorithm is built, because SAC's configuration accepts only RLlib's own class; beta
stays in the configuration. DQN's accepts the class by its name:

    DQNConfig().training(replay_buffer_config={
        "type": "placerl.primitives.replay.adapters.rllib_adapter.PrioritizedEpisodeReplayBuffer",
        "capacity": 50_000, "alpha": 0.6, "beta": 0.4})

RLlib keeps its episodes and cuts them into transitions when it samples. Priorities are stored in this project's
tree, and a batch's priorities are updated in one call. RLlib weighs its losses itself, and its DQN and SAC send TD
errors back; an algorithm that never does so gets a warning.

`pickle`, `copy.deepcopy`, `get_state` and `set_state` work as RLlib's, and each reads the other's state. What differs:

- Importance weights are normalised by the largest weight of the batch (Schaul et al. 2015), not by the largest of
  the whole buffer, for which RLlib keeps a second tree of minima. No beta makes them overflow.
- A state holds the random generator too, so that draws continue, and does not change when the buffer goes on.
  `set_state` replaces what the buffer holds; RLlib's keeps the old episodes under the new indices.
- An update that comes when its timestep was already evicted is dropped; RLlib's own buffer then draws a timestep that
  does not exist, or gives the priority to another.
- Arguments that RLlib takes and does not use are refused: options that it does not know, sequences
  (`batch_length_T`, `lookback`, `min_batch_length_T`), a batch of 0, which it takes for the default.
  So are episodes of several agents, priorities that are NaN or 0, and an `n_step` that no episode is long enough
  for, which RLlib would look for endlessly.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers import prioritized_episode_buffer

from placerl.primitives.replay.adapters.segment_tree import SegmentTree
from placerl.primitives.replay.adapters.unanswered import WarnsUnanswered
from placerl.primitives.replay.base import EMPTY
from placerl.primitives.replay.prioritized import PRIORITY_MIN, checked_beta, importance_weights
from placerl.primitives.sum_tree.base import checked_integer

TD_ERROR_MIN = 1e-12
"""The smallest |TD error| that RLlib uses; smaller ones are raised to it."""
_BATCH_SIZE_MAX = 2**31


class _SumTree(SegmentTree):
    """The methods of `SumSegmentTree` that RLlib calls."""

    @property
    def capacity(self) -> int:
        return self.tree.capacity

    @property
    def leaves(self) -> npt.NDArray[np.float64]:
        return self[np.arange(self.capacity)].astype(np.float64)

    def sum(self) -> float:
        return self.reduce()

    def find_prefixsum_idx(self, prefix: float) -> int:
        return int(self.get_prefix_sum_idx(np.array([prefix]))[0])

    def get_state(self) -> npt.NDArray[np.float64]:
        return _levels(self.leaves, np.add)

    def set_state(self, state: npt.ArrayLike) -> None:
        self[np.arange(self.capacity)] = np.asarray(state)[self.capacity :]


class _NoMinima:
    """Replaces RLlib's `MinSegmentTree`, whose minimum serves only to normalise weights over the whole buffer."""

    def __init__(self, sums: _SumTree) -> None:
        self._sums = sums

    def __setitem__(self, index: int, priority: float) -> None:
        pass

    def min(self) -> float:
        return 1.0

    def get_state(self) -> npt.NDArray[np.float64]:
        leaves = self._sums.leaves
        return _levels(np.where(leaves > 0, leaves, np.inf), np.minimum)

    def set_state(self, state: npt.ArrayLike) -> None:
        pass


def _levels(
    leaves: npt.NDArray[np.float64], combine: Callable[..., npt.NDArray[np.float64]]
) -> npt.NDArray[np.float64]:
    """Return a binary tree over `leaves`, (2 * leaves,), as RLlib stores one: unused, root, ..., leaves."""
    levels = [leaves]
    while len(levels[0]) > 1:
        levels.insert(0, combine(levels[0][::2], levels[0][1::2]))
    return np.concatenate([[0.0], *levels])


def _copied(state: Any) -> Any:
    """Return a state whose lists and dicts are copies; its arrays are shared, which RLlib never writes into."""
    if isinstance(state, dict):
        return {key: _copied(value) for key, value in state.items()}
    return [_copied(value) for value in state] if isinstance(state, list) else state


class PrioritizedEpisodeReplayBuffer(
    WarnsUnanswered, prioritized_episode_buffer.PrioritizedEpisodeReplayBuffer
):
    """RLlib's `PrioritizedEpisodeReplayBuffer` on this project's sum tree."""

    answer, unprioritised = "update_priorities", "ray.rllib.utils.replay_buffers.EpisodeReplayBuffer"
    capacity: int
    batch_size_B: int
    rng: np.random.Generator
    _alpha: float
    _awaiting: set[int]
    _last_sampled_indices: list[int]
    _max_priority: float
    _sum_segment: _SumTree

    def __init__(
        self,
        capacity: int = 10_000,
        *,
        batch_size_B: int = 16,
        batch_length_T: int = 1,
        alpha: float = 1.0,
        beta: float = 0.0,
        metrics_num_episodes_for_smoothing: int = 100,
        fanout: int = 16,
        seed: int | None = None,
    ) -> None:
        """Create an empty buffer.

        Args:
            capacity: timesteps that fit; the oldest episodes are then evicted.
            batch_size_B: transitions in a sample for which no other number is given.
            batch_length_T: 1; this buffer draws no sequences.
            alpha: exponent on priorities, at least 0.
            beta: not used here, but part of RLlib's configuration of a buffer, from which its algorithms give it
                to `sample`.
            metrics_num_episodes_for_smoothing: window of RLlib's metrics.
            fanout: children of a node of the tree (K), 2 to 256.
            seed: seed of the draws; None takes one from the operating system, as RLlib does.

        Raises:
            TypeError, ValueError: an argument of another type or out of its range.
        """
        checked_integer("capacity", capacity, 1)
        checked_beta(beta)
        if not 0 <= alpha < np.inf:
            raise ValueError(f"alpha: found {alpha}; allowed: 0 or more")
        super().__init__(
            capacity,
            batch_size_B=checked_integer("batch_size_B", batch_size_B, 1, _BATCH_SIZE_MAX),
            batch_length_T=_transitions_alone("batch_length_T", batch_length_T, (1,)),
            alpha=alpha,
            metrics_num_episodes_for_smoothing=metrics_num_episodes_for_smoothing,
        )
        self._sum_segment = _SumTree(self._sum_segment.capacity, fanout)
        self._min_segment = _NoMinima(self._sum_segment)
        self.rng = np.random.default_rng(seed)
        # The nodes that still hold what was sampled last: those of evicted timesteps are the first to be used again.
        self._awaiting = set()

    def add(self, episodes: Any, weight: float | None = None) -> None:
        """Add episodes, or what follows in episodes that the buffer holds.

        Args:
            episodes: a `SingleAgentEpisode` or a list of them.
            weight: priority of their timesteps before the exponent alpha; the largest so far if None.

        Raises:
            TypeError: something else than episodes of one agent; the buffer is unchanged.
            ValueError: a weight that is not above 0 or that the tree cannot hold, and the buffer is unchanged; or
                an episode that is longer than the buffer has room for, after which the buffer cannot be used.
        """
        for episode in episodes if isinstance(episodes, list | tuple) else [episodes]:
            if not isinstance(episode, SingleAgentEpisode):
                raise TypeError(
                    f"episodes: found {type(episode).__name__}; allowed: SingleAgentEpisode. Several agents take "
                    "ray.rllib.utils.replay_buffers.MultiAgentPrioritizedEpisodeReplayBuffer"
                )
        if weight is not None and not 0 < self._priority(weight) <= self._priority_max:
            raise ValueError(
                f"weight: found {weight}; allowed: above 0, and with the exponent alpha ({self._alpha}) at most "
                f"{self._priority_max:.4g}"
            )
        super().add(episodes, weight)

    @property
    def _priority_max(self) -> float:
        return self._sum_segment.tree.priority_max

    def _priority(self, td_error: npt.ArrayLike) -> npt.NDArray[np.float64]:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return np.asarray(td_error, np.float64) ** self._alpha

    def _get_free_node_and_assign(self, sample_index: int, weight: float = 1.0) -> int:
        if not self._free_nodes:
            raise ValueError(
                f"capacity: found {self.capacity} for an episode of more than {self._sum_segment.capacity} "
                "timesteps; allowed: at least the length of the longest episode"
            )
        node = super()._get_free_node_and_assign(sample_index, weight)
        self._awaiting.discard(node)
        return node

    def sample(  # noqa: PLR0913 (as many as RLlib calls it with)
        self,
        num_items: int | None = None,
        *,
        batch_size_B: int | None = None,
        batch_length_T: int | None = None,
        n_step: int | tuple[int, int] | None = None,
        beta: float = 0.0,
        gamma: float = 0.99,
        include_infos: bool = False,
        include_extra_model_outputs: bool = False,
        to_numpy: bool = False,
        sample_episodes: bool = True,
        lookback: int = 0,
        min_batch_length_T: int = 0,
    ) -> Any:
        """Draw transitions by their priorities, each an episode of one step, as RLlib's class describes it.

        Raises:
            TypeError, ValueError: an argument of another type or out of its range, an empty buffer, or an
                `n_step` that is longer than every episode.
        """
        size = batch_size_B if num_items is None else num_items
        if size is not None:
            checked_integer("batch_size_B" if num_items is None else "num_items", size, 1, _BATCH_SIZE_MAX)
        if num_items is not None and batch_size_B is not None:
            raise ValueError("num_items, batch_size_B: found both; allowed: one of them")
        _transitions_alone("batch_length_T", batch_length_T, (None, 0, 1))
        _transitions_alone("lookback", lookback, (0,))
        _transitions_alone("min_batch_length_T", min_batch_length_T, (0,))
        if not sample_episodes:
            raise ValueError(f"sample_episodes: found {sample_episodes}; allowed: True")
        beta = checked_beta(beta)
        self._check_lengths(n_step)
        self._sampled()
        episodes = super().sample(
            size,
            n_step=n_step,
            beta=0.0,
            gamma=gamma,
            include_infos=include_infos,
            include_extra_model_outputs=include_extra_model_outputs,
            to_numpy=to_numpy,
        )
        self._awaiting = set(self._last_sampled_indices)
        priorities = self._sum_segment[np.array(self._last_sampled_indices)]
        weights = importance_weights(priorities, self._sum_segment.sum(), len(self), beta)
        for episode, weight in zip(episodes, weights.tolist(), strict=True):
            episode.extra_model_outputs["weights"].data[0] = weight
        return episodes

    def _check_lengths(self, n_step: Any) -> None:
        """Check that a transition of `n_step` steps can be drawn."""
        if not len(self):
            raise ValueError(EMPTY)
        if isinstance(n_step, tuple) and len(n_step) == 2 and n_step[0] < n_step[1]:
            least = n_step[0]
        else:
            least = 1 if n_step is None else n_step
        if not isinstance(least, int | np.integer) or isinstance(least, bool) or least < 1:
            raise ValueError(
                f"n_step: found {n_step}; allowed: None, an integer of at least 1, (least, most + 1)"
            )
        if not any(len(episode) >= least for episode in self.episodes):
            longest = max(len(episode) for episode in self.episodes)
            raise ValueError(f"n_step: found {n_step}; allowed: up to {longest}, the longest episode held")

    def update_priorities(self, priorities: npt.NDArray, module_id: str | None = None) -> None:
        """Set the priorities of the last sample, in its order, from its TD errors.

        Args:
            priorities: (B,) |TD error|; those below `TD_ERROR_MIN` are raised to it.
            module_id: not used, as in RLlib's class: all timesteps belong to one module.

        Raises:
            ValueError: another number of priorities than were sampled, or one that the tree cannot hold; the buffer
                is unchanged.
        """
        values = np.maximum(np.asarray(priorities, np.float64), TD_ERROR_MIN)
        rows = np.array(self._last_sampled_indices, np.int64)
        if values.shape != rows.shape:
            raise ValueError(
                f"priorities: found shape {values.shape}; allowed: {rows.shape}, as many as were sampled"
            )
        self._answered()
        if not rows.size:
            return
        nodes = self._awaiting & self._tree_idx_to_sample_idx.keys()
        held = np.array([row in nodes for row in rows.tolist()])
        self._sum_segment[rows[held]] = np.maximum(self._priority(values[held]), PRIORITY_MIN)
        self._max_priority = max(self._max_priority, float(values.max()))
        self._last_sampled_indices.clear()

    def get_state(self) -> dict[str, Any]:
        """Return a copy of everything that the buffer holds, in the format of RLlib's class with two names more."""
        own = {"rng": self.rng.bit_generator.state, "_awaiting": sorted(self._awaiting)}
        return _copied(super().get_state()) | own

    def set_state(self, state: dict[str, Any]) -> None:
        """Replace what the buffer holds by a state of this class or of RLlib's.

        Raises:
            ValueError: the state of a buffer of another capacity; the buffer is unchanged.
        """
        found, allowed = len(state["_sum_segment"]) // 2, self._sum_segment.capacity
        if found != allowed:
            raise ValueError(
                f"state: found a tree of {found} leaves; allowed: {allowed}, as a capacity of {self.capacity} gives"
            )
        if "rng" in state:
            self.rng.bit_generator.state = state["rng"]
        self.episodes.clear()
        super().set_state(_copied(state))
        self._awaiting = set(state.get("_awaiting", self._last_sampled_indices))


def _transitions_alone(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """Return an argument that RLlib has for sequences, which its prioritised buffer does not draw, after checking it.

    Raises:
        ValueError: a value that would ask for sequences.
    """
    if value not in allowed:
        raise ValueError(
            f"{name}: found {value}; allowed: {', '.join(map(str, allowed))}, as this buffer draws single "
            "transitions. Sequences take ray.rllib.utils.replay_buffers.EpisodeReplayBuffer"
        )
    return value
