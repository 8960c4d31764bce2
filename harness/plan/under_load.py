"""Predictions as a CPU quota and the processes that run beside them leave them."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from placerl.harness.core.row import HowTimed, Row
from placerl.harness.loop.schedule import Loop
from placerl.harness.mapping import VALIDATED, Mapping, predict
from placerl.harness.measure.conditions import shared_conditions, usable_cores
from placerl.harness.measure.cpu_quota import cpu_quota
from placerl.harness.measure.noise import last_noise
from placerl.harness.store.rows import PieceTime, PredictedRate

BUSY_THREADS = {Loop.OVERLAPPED: 2, Loop.RELAXED: 3, Loop.CONCURRENT: 3}
"""Threads that are busy at the same time in a loop; one in the others. Each has a core in a prediction."""
SPARED = 0.1
"""Of the cores that a prediction assumes, those that others may use: it is then off by 10% at most."""


def under_these_conditions(rows: Sequence[Row]) -> Sequence[Row]:
    """Return predictions that state the CPU quota and the noise under which they were made."""
    shared = HowTimed(conditions=shared_conditions())
    return [replace(row, timed=shared) for row in rows]


def beside_others(row: PredictedRate, share: float = 1.0) -> PredictedRate:
    """Return a prediction as a CPU quota and the processes that run now leave it.

    It is too noisy if these leave fewer cores than the loop of its strategy keeps busy: what they take from which
    thread, no prediction knows.

    Args:
        share: share of a core's time that a quota leaves to a thread.
    """
    noise, cores = last_noise(), len(usable_cores())
    if noise is None:
        return predict.under_load(row, share, "")
    needed = min(cores, BUSY_THREADS.get(VALIDATED[row.strategy].loop, 1))
    lacks = cores - (noise.busy_cores or 0.0) < needed - SPARED
    return predict.under_load(row, share, noise.warning() if lacks else "")


def beside_added(
    predicting: Callable[[Sequence[PieceTime]], Sequence[PredictedRate]],
    times: Sequence[PieceTime],
    added: Collection[str],
) -> list[PredictedRate]:
    """Return predictions for this machine with added devices, as a CPU quota and the processes that run now leave them.

    A quota stops this machine's threads, not a device that is added to it. The machine's own mappings are multiplied
    by the quota, as without the devices. Those with a part on such a device are predicted from times of this machine
    that are as much longer, and the strategies choose among these rates.

    Args:
        predicting: returns the predictions from times.
        times: of this machine and of the added devices.
        added: names of the devices, such as "fpga:u200".
    """
    share, whole = cpu_quota().share, predicting(times)
    if share == 1:
        return [beside_others(row) for row in whole]
    own = {
        (row.strategy, row.mapping): row
        for row in whole
        if row.value is not None and not Mapping.parse(row.mapping).devices & set(added)
    }
    slowed = [row if row.device in added else _longer(row, 1 / share) for row in times]
    rows = []
    for row in predicting(slowed):
        alone = own.get((row.strategy, row.mapping))
        if alone is None:
            rows.append(beside_others(row))
        else:
            chosen = replace(alone, chosen=row.chosen, slow_chosen=row.slow_chosen)
            rows.append(beside_others(chosen, share))
    return rows


def _longer(row: PieceTime, factor: float) -> PieceTime:
    ends = {
        name: end * factor for name in ("value", "low", "high") if (end := getattr(row, name)) is not None
    }
    return replace(row, **ends)
