"""Formulas of the replay pipeline's cycles that the tests compare with its RTL."""

from placerl.primitives.fpga.cycles.replay import LevelTiming, fill_cycles


def banked_cycles_at_least(loads: list[int], *, levels: int, timing: LevelTiming) -> int:
    """Return the fewest cycles in which several banks can process a batch.

    A bank is a sub-tree with its own pipeline. The batch takes longer if a request waits for a busy bank and delays
    the requests behind it.
    """
    return max(loads) * timing.interval + fill_cycles(levels=levels, timing=timing, banks=len(loads))
