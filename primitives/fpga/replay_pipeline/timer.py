"""Counts the cycles of a replay pipeline without its data: a simulated pipeline whose sub-trees have two leaves.

The crossbar, the arbiters and the phases are those of `banked`, so requests wait for each other as they do in the whole
tree. In the wide form each further level, and more children, only delay a response (`cycles.replay.level_timing`), so
they are not simulated. A simulation of eight sub-trees is built in seconds rather than minutes, and
serves trees of every size.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.cycles import replay
from placerl.primitives.fpga.replay_pipeline.banked import BankedPipeline
from placerl.primitives.fpga.replay_pipeline.layout import BankedLayout, Form, Operation, PipelineLayout
from placerl.primitives.fpga.replay_pipeline.pipeline import ReplayPipeline

_BANK = PipelineLayout(fanout=2, levels=1, leaf_bits=1, tag_bits=1)


def smallest(banks: int) -> ReplayPipeline | BankedPipeline:
    """Return a pipeline in the wide form whose sub-trees have two leaves each."""
    if banks == 1:
        return ReplayPipeline(_BANK, Form.WIDE)
    return BankedPipeline(BankedLayout(banks, _BANK), Form.WIDE)


@cache
def _library(banks: int) -> Any:
    return simulation.built(smallest(banks))


class SimulatedReplayTimer:
    """Counts the cycles of batches of requests to a replay pipeline in the wide form, without answering them.

    The state that decides how long requests wait, such as which lane has priority, is kept from batch to batch.
    `cycles.replay_timer.ReplayTimer` counts the same in software.

    Args:
        banks: S, sub-trees with a pipeline each, 1 to 64. Each has a lane, which is an input for requests.
        start: starts a simulation of `smallest(banks)`; by default one is built with Verilator.
    """

    def __init__(self, banks: int, levels: int, fanout: int, start: Callable[[], Any] | None = None) -> None:
        self.banks = banks
        simulated, wanted = (
            count * replay.level_timing(fanout=children, narrow=False, samples=False).latency
            for count, children in ((_BANK.levels, _BANK.fanout), (levels, fanout))
        )
        self._further_cycles = wanted - simulated
        self._simulation = (start or _library(banks).start)()

    def cycles(self, banks: NDArray[np.int64], lanes: NDArray[np.int64], *, writes: bool) -> int:
        """Return the clock cycles of a batch, from the first request offered to the last response.

        Args:
            banks: (B,) the sub-tree that each request goes to.
            lanes: (B,) the lane on which it is offered; those of one lane are offered in their order.
            writes: whether all requests are updates; otherwise all are samples or reads.
        """
        count = len(banks)
        if not count:
            return 0
        kind: Any = Operation.UPDATE if writes else Operation.GET
        zeros = np.zeros(count, np.int64)
        fields = {"operation": np.full(count, kind.value), "tag": zeros, "value": zeros}
        if self.banks == 1:
            requests = {"requests": fields | {"remembered": zeros, "path": zeros}}
            return self._simulation.run(requests, {"responses": count}).cycles + self._further_cycles
        fields["path"] = banks << _BANK.path_bits
        requests = {
            f"requests_{lane}": {name: field[lanes == lane] for name, field in fields.items()}
            for lane in range(self.banks)
        }
        responses = tuple(f"responses_{bank}" for bank in range(self.banks))
        run = self._simulation.run(requests, {responses: count})
        # The whole tree's clock also ran while the last responses came through the further levels.
        self._simulation.step(self._further_cycles + replay.SETTLING_CYCLES)
        return run.cycles + self._further_cycles
