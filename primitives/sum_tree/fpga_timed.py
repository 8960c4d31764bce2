"""The sum tree of `fpga_backend` in software: its priorities, and how long requests wait for each other.

Virtual time and the profile use it: it gives the indices and the cycles of the simulated hardware with data, with any
number of sub-trees, and simulates nothing. Where cycles are simulated (`cycles.timed_block`), a simulation without
memories counts them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.sum_tree import reference_backend
from placerl.primitives.sum_tree.fpga_tree import FpgaSumTree, lanes_of


class TimedSumTree(FpgaSumTree):
    """A sum tree whose calls take the cycles of the simulated hardware, and give its results.

    Whether a path comes from the request or from the buffer of the samples' paths changes no cycle: it has no buffer.
    The software's sums of quanta are exact: 2^53 quanta fit a float64, more than a tree's priorities add up to.

    Raises:
        ValueError: the form is not "wide", the only one whose cycles are the same without memories, or the sum of all
            priorities may exceed 2^53 quanta.
    """

    def _start(self, bank: Any, form: str) -> None:
        if form != "wide":
            raise ValueError(f"form: found {form!r}; allowed with contents in software: wide")
        if self.capacity * self.priority_max / self._quantum > 2**53:
            raise ValueError(
                f"capacity: found {self.capacity}; allowed with contents in software: a sum below 2^53 quanta"
            )
        self._contents = reference_backend.create(self.capacity, self.fanout)
        self._timer = _timer(self.banks, self.levels, self.fanout)

    def _total(self) -> float:
        return self._contents.total

    def _find(self, prefix: NDArray[np.float64]) -> NDArray[np.int64]:
        leaves = self.last_found = self._contents.find(self._fixed(prefix) * self._quantum)
        self._time(leaves, writes=False)
        return leaves.copy()

    def _update(self, indices: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
        self._contents.update(indices, self._rounded(priorities) * self._quantum)
        self._time(indices, writes=True)

    def _get(self, indices: NDArray[np.int64]) -> NDArray[np.floating]:
        self._time(indices, writes=False)
        return self._contents.get(indices)

    def _time(self, leaves: NDArray[np.int64], *, writes: bool) -> None:
        """Count the cycles of a batch with one request per leaf."""
        lanes = lanes_of(leaves, self.banks, writes=writes)
        self.last_call_cycles = self._timer.cycles(leaves // self.bank_leaves, lanes, writes=writes)
        self.cycles += self.last_call_cycles


def _timer(banks: int, levels: int, fanout: int) -> Any:
    """Return what counts the cycles of batches.

    Raises:
        MissingCyclesError: the table of cycles has not the recorded batches that software was compared with.
    """
    from placerl.primitives.fpga.cycles.replay_timer import ReplayTimer
    from placerl.primitives.fpga.cycles.timed_block import simulating

    if simulating():
        from placerl.primitives.fpga.replay_pipeline.timer import SimulatedReplayTimer

        return SimulatedReplayTimer(banks, levels, fanout)
    from placerl.primitives.fpga.cycles.blocks import replay

    replay.BLOCK.results(
        [banks], replay.SIZES
    )  # raises an error if the software was never compared with the design
    return ReplayTimer(banks, levels, fanout)
