"""Cycles of a batch on the replay pipeline: MAP's formulas (IV-C4, VI-A2), and `fpga.replay_pipeline`.

MAP's formulas are B / S x F cycles for B samples and B / S for B updates, with S pipelines and fanout F. The RTL
differs as follows (`difference_terms`):

- fill and drain: the formulas assume a full pipeline. A request passes the front end in 3 cycles, and a level in
  1 cycle more than its interval (a memory answers in the cycle after the request).
- lanes and crossbar: with S > 1, a request is held for one cycle before its bank takes it.
- phase change: lanes that wrote before take one cycle more to begin with reads, and the reverse.
- imbalance: the batch is done when its fullest bank is. MAP's B / S is the mean.
- blocked lanes: a lane whose next request waits for a busy bank delays the requests after it. This depends on the
  order of the requests, and is the rest of a simulated run after the terms above: never negative.

The wide form reads a node in one cycle, so that samples also take B / S: MAP's formula for an update.
"""

FRONT_END_CYCLES = 3
CROSSBAR_CYCLES = 1
PHASE_CHANGE_CYCLES = 1


def map_sample_cycles(batch_size: int, *, fanout: int, banks: int = 1) -> float:
    """Return MAP's formula for samples (VI-A2): B / S x F cycles."""
    return batch_size / banks * fanout


def map_update_cycles(batch_size: int, *, banks: int = 1) -> float:
    """Return MAP's formula for updates (VI-A2): B / S cycles."""
    return batch_size / banks


def interval_cycles(*, fanout: int, narrow_samples: bool) -> int:
    """Return the cycles between two requests at a level: K for samples of the narrow form, else 1."""
    return fanout if narrow_samples else 1


def fill_cycles(*, levels: int, interval: int, banks: int = 1) -> int:
    """Return the cycles of a batch beyond `interval` per request, from the first request offered to the last
    response.
    """
    crossbar = CROSSBAR_CYCLES if banks > 1 else 0
    return FRONT_END_CYCLES + crossbar + levels * (interval + 1) + 1 - interval


def pipeline_cycles(batch_size: int, *, levels: int, interval: int) -> int:
    """Return the exact cycles of a batch of one kind on one pipeline."""
    return batch_size * interval + fill_cycles(levels=levels, interval=interval)


def banked_cycles_at_least(loads: list[int], *, levels: int, interval: int) -> int:
    """Return the cycles of a batch with `loads[b]` requests for bank b if no lane is ever blocked."""
    return max(loads) * interval + fill_cycles(levels=levels, interval=interval, banks=len(loads))


def difference_terms(
    simulated: int, loads: list[int], *, levels: int, interval: int, phase_changed: bool = False
) -> dict[str, float]:
    """Return a simulated batch's cycles beyond `interval` x B / S, by reason; they add up to the difference.

    Args:
        simulated: cycles counted.
        loads: number of requests for each bank; one number for a single pipeline.
        levels: levels of a bank.
        interval: the result of `interval_cycles`.
        phase_changed: whether the previous batch was of the other kind; ignored for a single pipeline.
    """
    fill = fill_cycles(levels=levels, interval=interval, banks=len(loads))
    phase = PHASE_CHANGE_CYCLES if phase_changed and len(loads) > 1 else 0
    return {
        "fill and drain": fill,
        "phase change": phase,
        "imbalance": (max(loads) - sum(loads) / len(loads)) * interval,
        "blocked lanes": simulated - fill - phase - max(loads) * interval,
    }
