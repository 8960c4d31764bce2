"""The base class of the sum trees that a forked process cannot use."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placerl.primitives.one_caller import OwnProcess
from placerl.primitives.sum_tree.base import SumTree


class OwnProcessSumTree(OwnProcess, SumTree):
    """A sum tree that has threads, locks or a device's memory, and therefore belongs to the process that created it.

    A class of its own, so that trees without them check nothing. Its methods are those of the next class.

    Raises:
        RuntimeError: another process created the tree, by any call.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__()
        super(OwnProcess, self).__init__(*arguments)

    @property
    def total(self) -> float:
        self._check_process()
        return super().total

    def find(self, prefix: ArrayLike) -> NDArray[np.int64]:
        self._check_process()
        return super().find(prefix)

    def sample(
        self, batch_size: int, rng: np.random.Generator, stratified: bool = False
    ) -> NDArray[np.int64]:
        self._check_process()
        return super().sample(batch_size, rng, stratified)

    def update(self, indices: ArrayLike, priorities: ArrayLike) -> None:
        self._check_process()
        super().update(indices, priorities)

    def get(self, indices: ArrayLike) -> NDArray[np.floating]:
        self._check_process()
        return super().get(indices)

    def synchronise(self) -> None:
        self._check_process()
        super().synchronise()

    def settle(self) -> None:
        self._check_process()
        super().settle()
