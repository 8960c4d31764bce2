"""The native sum tree in tianshou 2.0.1's prioritised replay.

    from placerl.primitives.replay.adapters.tianshou_adapter import PrioritizedVectorReplayBuffer
    buffer = PrioritizedVectorReplayBuffer(20_000, buffer_num=8, alpha=0.6, beta=0.4)
    collector = Collector[CollectStats](algorithm, envs, buffer)

tianshou keeps its own storage, which its n-step returns and frame stacks need. Priorities are stored in this
project's tree instead of tianshou's segment tree, and indices are drawn in one native call. Importance weights
and priority updates are tianshou's own: its algorithms multiply `batch.weight` into their losses and send TD
errors to `update_weight`. An algorithm that never does so gets a warning.

Draws come from NumPy's global generator, as those of tianshou's prioritised buffer: `np.random.seed` seeds them. With
the option `random_seed` the buffer has a generator of its own.

Every method works as tianshou's, except where tianshou's gives results of other items or leaves an argument unused:
`reset` takes the priorities of the items too, so that none of them is drawn later; the vector buffer's `set_beta` and
`weight_norm` have their effect; `dropnull`, which would leave priorities at the rows of other items, raises
NotImplementedError. `load_hdf5` also reads what tianshou's own buffer saved.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from tianshou import data

from placerl.primitives.replay.adapters.segment_tree import SegmentTree
from placerl.primitives.replay.adapters.unanswered import WarnsUnanswered


class _NativeTree(WarnsUnanswered):
    answer, unprioritised = "update_weight", "tianshou.data.ReplayBuffer"
    maxsize: int
    weight: SegmentTree
    _beta: float

    def __init__(self, *arguments: Any, fanout: int = 16, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.weight = SegmentTree(self.maxsize, fanout)
        seed = options.get("random_seed")
        self._own_rng = None if seed is None else np.random.default_rng(seed)
        if "weight_norm" in options:
            self._weight_norm = options["weight_norm"]  # which tianshou's vector buffer leaves out

    def __setstate__(self, state: dict[str, Any]) -> None:
        weight = state["weight"]
        if not isinstance(weight, SegmentTree):  # saved by tianshou's own buffer
            rows = np.arange(len(weight))
            state["weight"] = SegmentTree(len(weight))
            state["weight"][rows] = weight[rows]
        state.setdefault("_own_rng", state.pop("_rng", None))  # the name in files of earlier versions
        super().__setstate__(state)  # type: ignore[misc]

    @property
    def _rng(self) -> np.random.Generator:
        # Not an attribute: a pickle would hold a copy of the global generator, which no seed would reach.
        return self._own_rng or np.random.Generator(np.random.get_bit_generator())  # type: ignore[attr-defined]

    def sample_indices(self, batch_size: int | None) -> npt.NDArray[np.int64]:
        if batch_size and batch_size > 0 and len(self) > 0:  # type: ignore[arg-type]
            return self.weight.tree.sample(batch_size, self._rng)
        return super().sample_indices(batch_size)  # type: ignore[misc]

    def sample(self, batch_size: int | None) -> Any:
        self._sampled()
        return super().sample(batch_size)  # type: ignore[misc]

    def update_weight(self, index: npt.NDArray, new_weight: Any) -> None:
        self._answered()
        super().update_weight(index, new_weight)  # type: ignore[misc]

    def reset(self, keep_statistics: bool = False) -> None:
        super().reset(keep_statistics)  # type: ignore[misc]
        self.weight[np.arange(self.maxsize)] = 0.0

    def set_beta(self, beta: float) -> None:
        super().set_beta(beta)  # type: ignore[misc]
        self._beta = beta  # which tianshou's vector buffer sets only in its parts

    def dropnull(self) -> None:
        raise NotImplementedError(
            f"dropnull: found a {type(self).__name__}; allowed: tianshou.data.ReplayBuffer, as priorities stay at "
            "their rows"
        )


class PrioritizedReplayBuffer(_NativeTree, data.PrioritizedReplayBuffer):
    """tianshou's `PrioritizedReplayBuffer`, for one environment, on this project's sum tree."""


class PrioritizedVectorReplayBuffer(_NativeTree, data.PrioritizedVectorReplayBuffer):
    """tianshou's `PrioritizedVectorReplayBuffer`, for several environments, on this project's sum tree."""
