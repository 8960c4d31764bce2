"""Stand-ins for the parts of a training that do nothing, so that the time of the loop itself can be measured."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from placerl.harness.loop.training_loop import Units


class Nothing:
    """An object that stands in for every part of a training: actors, their plan, storage, replay, learner, fused steps.

    Its methods do nothing, or return the same small result each time.

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
        """Return the parts that a training loop calls: actors, storage, replay and learner, all of them this object."""
        return Units(self, self, self, self)

    def build(self) -> "Nothing":
        """Return this object, which stands in for the plan of the actors and for the actors themselves."""
        return self

    def submit(self, *_: Any) -> None:
        """Ignore a request for vector steps."""

    def result(self) -> dict[str, npt.NDArray]:
        """Return the same transitions each time, instead of those of the vector steps that were requested."""
        return self._transitions

    def collect(self, *_: Any) -> dict[str, npt.NDArray]:
        """Return the same transitions each time, instead of stepping environments."""
        return self._transitions

    def publish(self) -> None:
        """Do nothing instead of handing over weights."""

    def take_episodes(self) -> list[Any]:
        """Return an empty list, because no episode ends."""
        return []

    def insert(self, _: Any) -> None:
        """Do nothing instead of storing transitions."""

    def sample(self, *_: Any, out: Any = None) -> Any:
        """Return the same sample of one transition each time, instead of sampling from a replay."""
        return self._sample

    def release(self, _: Any) -> None:
        """Do nothing instead of noting that a batch will not be read again."""

    def update_priorities(self, *_: Any) -> None:
        """Do nothing instead of updating priorities."""

    def step(self, *_: Any) -> Any:
        """Return the same outcome (TD errors and losses) each time, instead of taking a gradient step."""
        return self._outcome

    def run(self, *_: Any) -> None:
        """Do nothing instead of taking gradient steps."""

    def explore(self, *_: Any) -> None:
        """Do nothing instead of choosing actions."""

    def close(self) -> None:
        """Do nothing: nothing was started."""
