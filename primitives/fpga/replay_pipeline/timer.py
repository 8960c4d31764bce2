"""Counts the cycles of batches of requests on a simulated replay pipeline whose sub-trees are cut down to one level.

Requests wait for each other in front of the sub-trees: in the crossbar, the queues and the arbiters of `banked`, and
until the phase of the other kind ends. All of this is simulated. A further level is ready whenever the level before
it gives it a request, so that it only adds its latency (`cycles.replay.level_timing`), and so do more children in the
wide form. Their latency is added to the simulated cycles. So one simulation serves trees of all depths, and in the wide
form of all fanouts; one of eight sub-trees is built in seconds rather than minutes.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from amaranth.utils import ceil_log2
from numpy.typing import NDArray

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.cycles import replay
from placerl.primitives.fpga.replay_pipeline.banked import BankedPipeline
from placerl.primitives.fpga.replay_pipeline.layout import BankedLayout, Form, Operation, PipelineLayout
from placerl.primitives.fpga.replay_pipeline.pipeline import ReplayPipeline


def smallest(banks: int, fanout: int = 2, form: Form = Form.WIDE) -> ReplayPipeline | BankedPipeline:
    """Return a pipeline whose sub-trees have one level, of `fanout` leaves each."""
    bank = PipelineLayout(fanout, levels=1, leaf_bits=1, tag_bits=1)
    if banks == 1:
        return ReplayPipeline(bank, form)
    return BankedPipeline(BankedLayout(banks, bank), form)


@cache
def _library(banks: int, fanout: int, form: Form) -> Any:
    """Return the library of a pipeline of one level, from which simulations start."""
    return simulation.built(smallest(banks, fanout, form))


class SimulatedReplayTimer:
    """Counts the cycles of batches of requests to a replay pipeline, without answering them.

    The state that decides how long requests wait, such as which lane has priority, is kept from batch to batch.
    `cycles.replay_timer.ReplayTimer` counts the same in software, for the wide form.

    Args:
        banks: S, sub-trees with a pipeline each, 1 to 64. Each has a lane, which is an input for requests.
        levels, fanout: levels of a sub-tree, and children of a node.
        start: starts a simulation of `smallest`, with two leaves a sub-tree in the wide form and `fanout` in the narrow
            one; by default Verilator builds it.
        form: of the pipeline. Reads are samples in the narrow form; in the wide form all reads take the same cycles.
    """

    def __init__(
        self,
        banks: int,
        levels: int,
        fanout: int,
        start: Callable[[], Any] | None = None,
        form: Form = Form.WIDE,
    ) -> None:
        self.banks = banks
        narrow = form is Form.NARROW
        children = fanout if narrow else 2

        def further(writes: bool) -> int:
            """Return the cycles by which a whole tree answers later than the simulated one."""
            simulated, whole = (
                replay.level_timing(fanout=count, narrow=narrow, samples=not writes).latency
                for count in (children, fanout)
            )
            return levels * whole - simulated

        self._further_cycles = {writes: further(writes) for writes in (False, True)}
        self._path_bits = ceil_log2(children)
        self._read: Any = Operation.SAMPLE if narrow else Operation.GET
        self._simulation = (start or _library(banks, children, form).start)()
        if narrow:  # the first leaf of each sub-tree gets 1, so that prefix sum b is in sub-tree b
            self.cycles(np.arange(banks), np.arange(banks), writes=True)

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
        operation: Any = Operation.UPDATE if writes else self._read
        zeros = np.zeros(count, np.int64)
        fields = {
            "operation": np.full(count, operation.value),
            "tag": zeros,
            "path": banks << self._path_bits,  # the first leaf of the sub-tree
            "value": np.ones(count, np.int64) if writes else banks,  # a sample's prefix sum
        }
        further = self._further_cycles[writes]
        if self.banks == 1:
            requests = {"requests": fields | {"remembered": zeros}}
            return self._simulation.run(requests, {"responses": count}).cycles + further
        requests = {
            f"requests_{lane}": {name: field[lanes == lane] for name, field in fields.items()}
            for lane in range(self.banks)
        }
        responses = tuple(f"responses_{bank}" for bank in range(self.banks))
        run = self._simulation.run(requests, {responses: count})
        # The whole tree's clock also runs while the last responses pass the further levels and the sums settle.
        self._simulation.step(further + replay.SETTLING_CYCLES)
        return run.cycles + further
