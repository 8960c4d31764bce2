"""Cycles of a batch on the replay pipeline: MAP's formulas (IV-C4, VI-A2), and the hardware, `fpga.replay_pipeline`.

The tree is divided into S banks. A bank is a sub-tree with its own pipeline. A lane is one of the S inputs for
requests; a crossbar passes each request from its lane to its bank. The interval is the number of cycles between
two requests at a level of a pipeline. With K children per node (MAP's F), MAP's formulas are B K / S cycles for B
samples and B / S cycles for B updates. The hardware differs as follows (`difference_terms`):

- fill and drain: the formulas assume a full pipeline. A request takes `FRONT_END_CYCLES` to reach the first level, and
  at each level the cycles of `level_timing`: a node is read in two, and its children are added, compared with the
  prefix sum and selected in cycles of their own, so that no cycle has more than one addition. With S > 1, a request
  also takes `CROSSBAR_CYCLES` to reach its bank.
- phase change: with S > 1, all lanes read or all lanes write. A change between the two takes one cycle.
- imbalance: the batch ends when the bank with the most requests has answered them. MAP's B / S is the mean.
- blocked lanes: a lane whose next request waits for a full queue of a busy bank also delays the requests behind it,
  and a bank may find no request in its queues while some are still to come. This depends on the order of the requests,
  so it is what a simulated run takes beyond the terms above; it is never negative.

In the wide form (`Form.WIDE`) a level reads all children of a node in one cycle. Then B samples also take B / S
cycles, as MAP's formula for updates.
"""

from dataclasses import dataclass

FRONT_END_CYCLES = 6
CROSSBAR_CYCLES = 2
QUEUE_DEPTH = 16
"""Requests of a lane that wait for a bank. The look-up tables that hold one as memory have room for 32."""
PHASE_CHANGE_CYCLES = 1
SETTLING_CYCLES = 2
"""Cycles after a batch until the sum over the banks is current; a host that reads it waits for them."""


def map_update_cycles(batch_size: int, *, banks: int = 1) -> float:
    """Return the cycles of a batch of priority updates by MAP's formula (VI-A2), B / S.

    Args:
        banks: S, number of sub-trees, each with its own pipeline.
    """
    return batch_size / banks


@dataclass(frozen=True)
class LevelTiming:
    """How long a level of a pipeline works on a request.

    Attributes:
        interval: cycles between two requests.
        latency: cycles from the request at this level to the same request at the next.
    """

    interval: int
    latency: int


def level_timing(*, fanout: int, narrow: bool, samples: bool) -> LevelTiming:
    """Return the timing of a level.

    Args:
        narrow: whether a level reads one child of a sample's node per cycle; otherwise it reads all in one.
        samples: whether the requests are samples; otherwise they name their leaf.
    """
    if narrow:
        interval = fanout if samples else 1
        return LevelTiming(interval, interval + 2)
    additions = (fanout - 2).bit_length()  # cycles for the sums of the first 1, 2, ..., K - 1 children
    return LevelTiming(1, 4 + additions)


def fill_cycles(*, levels: int, timing: LevelTiming, banks: int = 1) -> int:
    """Return the cycles that a batch takes beyond the interval for each request, to fill and drain the pipeline.

    A batch lasts from the first request offered to the last response.

    Args:
        banks: S; with more than 1 there is a crossbar.
    """
    crossbar = CROSSBAR_CYCLES if banks > 1 else 0
    return FRONT_END_CYCLES + crossbar + levels * timing.latency + 1 - timing.interval


def pipeline_cycles(batch_size: int, *, levels: int, timing: LevelTiming) -> int:
    """Return the exact cycles of a batch on one pipeline, if all its requests have the same timing."""
    return batch_size * timing.interval + fill_cycles(levels=levels, timing=timing)


def difference_terms(
    simulated: int, loads: list[int], *, levels: int, timing: LevelTiming, phase_changed: bool = False
) -> dict[str, float]:
    """Return a simulated batch's cycles beyond B / S times the interval, by reason; they add up to the difference.

    B is the number of requests, S that of banks. A bank is a sub-tree with its own pipeline.

    Args:
        simulated: cycles of the batch in a simulation.
        loads: number of requests for each bank; one number for a single pipeline.
        phase_changed: whether the batch before it wrote and this one reads, or the reverse; ignored for a single
            pipeline.

    Returns:
        The cycles for "fill and drain" (of the pipelines), "phase change", "imbalance" (of the banks' loads) and
        "blocked lanes" (requests behind one that waits for a busy bank). The top of this module explains them.
    """
    fill = fill_cycles(levels=levels, timing=timing, banks=len(loads))
    phase = PHASE_CHANGE_CYCLES if phase_changed and len(loads) > 1 else 0
    return {
        "fill and drain": fill,
        "phase change": phase,
        "imbalance": (max(loads) - sum(loads) / len(loads)) * timing.interval,
        "blocked lanes": simulated - fill - phase - max(loads) * timing.interval,
    }
