"""Cycles of a batch on the replay pipeline: MAP's formulas (IV-C4, VI-A2), and `fpga.replay_pipeline`.

MAP charges B / S x F cycles for B samples and B / S for B updates, with S pipelines and fanout F. Where the RTL
differs (`difference_terms`):

- fill and drain: the formulas count a pipeline that is full. A request passes the front end in 3 cycles, a level in
  1 cycle more than its interval (a memory answers in the cycle after it is asked).
- lanes and crossbar: with S > 1, a request is held for a cycle before its bank takes it.
- phase change: lanes that wrote before take a cycle more to begin with reads, and the other way round.
- imbalance: the batch is done when its fullest bank is. MAP's B / S is the mean.
- blocked lanes: a lane whose next request waits for a busy bank holds up those behind it. It depends on the order in
  which requests come, and is what is left of a simulated run after the terms above: never below 0.

The wide form reads a node in one cycle, so that samples, too, cost B / S: what MAP charges for an update.
"""

FRONT_END_CYCLES = 3
CROSSBAR_CYCLES = 1
PHASE_CHANGE_CYCLES = 1


def map_sample_cycles(batch_size: int, *, fanout: int, banks: int = 1) -> float:
    """MAP VI-A2: B / S x F."""
    return batch_size / banks * fanout


def map_update_cycles(batch_size: int, *, banks: int = 1) -> float:
    """MAP VI-A2: B / S."""
    return batch_size / banks


def interval_cycles(*, fanout: int, narrow_samples: bool) -> int:
    """Cycles between one request and the next at a level: K for samples of the narrow form, else 1."""
    return fanout if narrow_samples else 1


def fill_cycles(*, levels: int, interval: int, banks: int = 1) -> int:
    """Cycles of a batch beyond `interval` a request, from the first offered to the end of the last response."""
    crossbar = CROSSBAR_CYCLES if banks > 1 else 0
    return FRONT_END_CYCLES + crossbar + levels * (interval + 1) + 1 - interval


def pipeline_cycles(batch_size: int, *, levels: int, interval: int) -> int:
    """Cycles of a batch of one kind on one pipeline, to the cycle."""
    return batch_size * interval + fill_cycles(levels=levels, interval=interval)


def banked_cycles_at_least(loads: list[int], *, levels: int, interval: int) -> int:
    """Cycles of a batch that brings `loads[b]` requests to bank b when no lane is ever blocked."""
    return max(loads) * interval + fill_cycles(levels=levels, interval=interval, banks=len(loads))


def difference_terms(
    simulated: int, loads: list[int], *, levels: int, interval: int, phase_changed: bool = False
) -> dict[str, float]:
    """A simulated batch's cycles beyond `interval` x B / S by reason; they add up to the difference.

    Args:
        simulated: cycles counted.
        loads: how many requests each bank got; one number for a single pipeline.
        levels: levels of a bank.
        interval: of `interval_cycles`.
        phase_changed: whether the batch before was of the other kind; no matter to a single pipeline.
    """
    fill = fill_cycles(levels=levels, interval=interval, banks=len(loads))
    phase = PHASE_CHANGE_CYCLES if phase_changed and len(loads) > 1 else 0
    return {
        "fill and drain": fill,
        "phase change": phase,
        "imbalance": (max(loads) - sum(loads) / len(loads)) * interval,
        "blocked lanes": simulated - fill - phase - max(loads) * interval,
    }
