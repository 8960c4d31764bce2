"""Counts the cycles of batches of requests to a replay pipeline in software, cycle by cycle, without simulating it.

How long requests wait for each other depends on the order in which they come, and so on the data. This is the golden
model of `replay_pipeline.banked`'s crossbar in the wide form: the lanes, the queues, the arbiters, whose turn it is and
the phases, but no datapath. Its cycles are those of the simulated hardware. The cycles of recorded batches
(`blocks.replay`) are in the table of cycles, and tests compare them with this model's, batch by batch.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga.cycles import replay

FIRST_CHANGE_CYCLES = 3
"""Cycles of the change to the writing phase right after a reset, when the sums have not settled yet."""


class ReplayTimer:
    """Counts the cycles of batches of requests to a replay pipeline in the wide form, without answering them.

    The state that decides how long requests wait, such as which lane has priority, is kept from batch to batch.

    Args:
        banks: S, sub-trees with a pipeline each, 1 to 64. Each has a lane, which is an input for requests.
    """

    def __init__(self, banks: int, levels: int, fanout: int) -> None:
        self.banks = banks
        timing = replay.level_timing(fanout=fanout, narrow=False, samples=False)
        # From the cycle in which a bank takes a request to that of its response.
        self._latency = replay.FRONT_END_CYCLES + levels * timing.latency
        self._started = self._writing = False
        self._last = [banks - 1] * banks  # the lane from which each bank took its last request

    def cycles(self, banks: NDArray[np.int64], lanes: NDArray[np.int64], *, writes: bool) -> int:
        """Return the clock cycles of a batch, from the first request offered to the last response.

        Args:
            banks: (B,) the sub-tree that each request goes to.
            lanes: (B,) the lane on which it is offered; those of one lane are offered in their order.
            writes: whether all requests are updates; otherwise all are samples or reads.
        """
        if not len(banks):
            return 0
        if self.banks == 1:
            return len(banks) + self._latency
        begin = self._change_cycles(writes)
        self._started = True
        return self._last_taken(banks, lanes, begin) + self._latency + 1

    def _change_cycles(self, writes: bool) -> int:
        """Return the cycles until the lanes are open for this kind of request."""
        change = 0
        if writes is not self._writing:
            change = replay.PHASE_CHANGE_CYCLES if self._started else FIRST_CHANGE_CYCLES
        self._writing = writes
        return change

    def _last_taken(self, banks: NDArray[np.int64], lanes: NDArray[np.int64], begin: int) -> int:
        """Return the cycle in which a bank takes the last request, if the lanes open in cycle `begin`."""
        offered = [iter(banks[lanes == lane].tolist()) for lane in range(self.banks)]
        held = [next(requests, -1) for requests in offered]  # the bank of the request that each lane holds
        queued = [[0] * self.banks for _ in range(self.banks)]  # by bank and lane
        left, cycle = len(banks), begin + replay.CROSSBAR_CYCLES - 1
        self._put(held, queued, offered)
        while left:
            cycle += 1
            taken = list(map(self._selected, queued, self._last))
            self._put(held, queued, offered)
            for bank, lane in enumerate(taken):
                if lane >= 0:
                    queued[bank][lane] -= 1
                    self._last[bank] = lane
                    left -= 1
        return cycle

    def _selected(self, queue: list[int], last: int) -> int:
        """Return the lane from which a bank takes its next request, the first one behind `last`; -1 if none has any."""
        order = (*range(last + 1, self.banks), *range(last + 1))
        return next((lane for lane in order if queue[lane]), -1)

    def _put(self, held: list[int], queued: list[list[int]], offered: list[Iterator[int]]) -> None:
        """Put the request that each lane holds into its queue if that has room, and let the lane hold its next."""
        for lane, bank in enumerate(held):
            if bank >= 0 and queued[bank][lane] < replay.QUEUE_DEPTH:
                queued[bank][lane] += 1
                held[lane] = next(offered[lane], -1)
