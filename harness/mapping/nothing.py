"""Parts of a training that do nothing, to time the loop itself."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.mapping.loop import Units


class Nothing:
    """Actors and their plan, storage, replay, learner and fused steps that do nothing.

    Args:
        rows: transitions that the actors return per call.
    """

    environment_steps, environment_s, inference_s, gather_s, write_s = 0, 0.0, 0.0, 0.0, 0.0
    capacity, nbytes = 1, 0

    def __init__(self, rows: int = 1) -> None:
        self._transitions = {"reward": np.zeros(rows)}
        indices, weights = np.zeros(1, np.int64), np.ones(1, np.float32)
        self._sample = SimpleNamespace(indices=indices, weights=weights, batch={})
        self._outcome = SimpleNamespace(td_errors=np.zeros(1), losses={"none": 0.0})

    @property
    def units(self) -> Units:
        """Return all units of a loop."""
        return Units(self, self, self, self)

    def build(self) -> "Nothing":
        """Return the actors of this plan."""
        return self

    def submit(self, *_: Any) -> None:
        """Request no vector steps."""

    def result(self) -> dict[str, npt.NDArray]:
        """Return the same transitions each time."""
        return self._transitions

    def collect(self, *_: Any) -> dict[str, npt.NDArray]:
        """Return the same transitions each time."""
        return self._transitions

    def publish(self) -> None:
        """Hand over no weights."""

    def take_episodes(self) -> list[Any]:
        """Return no episodes."""
        return []

    def insert(self, _: Any) -> None:
        """Store nothing."""

    def sample(self, *_: Any, out: Any = None) -> Any:
        """Return the same sample each time."""
        return self._sample

    def update_priorities(self, *_: Any) -> None:
        """Store nothing."""

    def step(self, *_: Any) -> Any:
        """Learn nothing."""
        return self._outcome

    def run(self, *_: Any) -> None:
        """Take no gradient steps."""

    def explore(self, *_: Any) -> None:
        """Choose no actions."""

    def close(self) -> None:
        """Do nothing: nothing was started."""
