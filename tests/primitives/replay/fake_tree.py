"""The smallest thing with a sum tree's interface, so that replay is tested apart from any backend."""

import numpy as np
import numpy.typing as npt


class FakeTree:
    """A flat array of priorities."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.priorities = np.zeros(capacity)

    @property
    def total(self) -> float:
        return float(self.priorities.sum())

    def find(self, prefix: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        return np.searchsorted(np.cumsum(self.priorities), prefix, side="right")

    def sample(
        self, batch_size: int, rng: np.random.Generator, stratified: bool = False
    ) -> npt.NDArray[np.int64]:
        draws = rng.random(batch_size)
        if stratified:
            draws = (np.arange(batch_size) + draws) / batch_size
        return self.find(draws * self.total * (1 - 1e-12))

    def update(self, indices: npt.NDArray[np.int64], priorities: npt.NDArray[np.floating]) -> None:
        if not (np.isfinite(priorities).all() and (priorities >= 0).all()):
            raise ValueError("priorities: found NaN, infinity or less than 0")
        self.priorities[indices] = priorities

    def get(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return self.priorities[indices]
