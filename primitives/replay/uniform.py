"""Uniform replay: every item is equally likely."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from placerl.primitives.replay.base import Replay, Sample, as_td_errors
from placerl.primitives.replay.storage import as_indices


class UniformReplay(Replay):
    """A replay buffer that samples uniformly, with replacement; all importance weights are 1."""

    _kind = "uniform"

    def insert(self, batch: Mapping[str, npt.ArrayLike]) -> npt.NDArray[np.int64]:
        self._check_process()
        return self.storage.insert(batch)

    def sample(
        self,
        batch_size: int,
        rng: np.random.Generator,
        *,
        stratified: bool = False,
        out: Sample | None = None,
    ) -> Sample:
        batch_size, stratified = self._checked_sampling(batch_size, rng, stratified)
        out = self._checked_out(out, batch_size)
        if stratified:
            strata = (np.arange(batch_size) + rng.random(batch_size)) / batch_size
            # strata may round up to 1.0
            out.indices[:] = np.minimum((strata * len(self)).astype(np.int64), len(self) - 1)
        else:
            out.indices[:] = rng.integers(len(self), size=batch_size)
        out.weights.fill(1)
        self.storage.gather(out.indices, out.batch)
        return out

    def update_priorities(self, indices: npt.ArrayLike, td_errors: npt.ArrayLike) -> None:
        """Check the arguments as prioritised replay does, and change nothing, because there are no priorities."""
        self._check_process()
        as_td_errors(td_errors, len(as_indices(indices, len(self))))

    def _state(self) -> dict[str, Any]:
        return {}

    def _held_arrays(self, size: int) -> dict[str, npt.NDArray]:
        return {}

    def _restore(self, size: int, cursor: int, state: Any, arrays: Mapping[str, npt.NDArray]) -> None:
        self.storage.size, self.storage.cursor = size, cursor
