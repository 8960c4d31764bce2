"""Computes the regret of each performance model's choice: the throughput lost compared with the best mapping.

A mapping says where learner, replay management and storage run; a validation runs all mappings.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.mapping import Loop
from placerl.harness.mapping import Mapping as Placement
from placerl.harness.mapping.metrics import regret
from placerl.harness.measure import statistics
from placerl.harness.store.rows import PredictedRate, Regret
from placerl.harness.validate.narrowing import Dropped
from placerl.harness.validate.rows import HERE, SUITE, WITH_SIMULATED, Achieved, Rounds, under

_OF_ONE_MAPPING = (Loop.CONCURRENT, Loop.RESIDENT)


def regrets(
    predicted: Sequence[PredictedRate], ran: Mapping[tuple[str, Loop], Achieved], dropped: Dropped
) -> list[Regret]:
    """Return one or two rows of regret per strategy: the fraction of the best throughput that its choice loses.

    A strategy is a performance model that chooses a mapping: where learner, replay management and storage run. The
    first row is of its choice among this machine's devices. The second is of its choice if it may also use the
    simulated FPGA, and exists only if the FPGA was validated.

    A choice is compared with the best mapping in the strategy's loop (the order of calls that it predicts): of those
    that the race of this loop and these devices did not drop, the one with the best median. A dropped mapping has few
    rounds, and its median may be better only because the machine was faster in them. The loss and its interval are
    those of the ratio in the rounds that timed both, also for a choice that was dropped. If the interval contains 0
    although another mapping is the best, the difference is within the noise, and the verdict is "no verdict", as it is
    for a choice that shared fewer than 5 rounds with the best. A strategy that chose nothing, or whose choice has not
    run in its loop, is "not_run".

    MAP states no latency for its link, so runs with the simulated FPGA have none, and `slow_chosen` says
    whether the strategy would make the same choice with the assumed latency, `slow_link_us` microseconds. If not,
    the verdict holds for fast links only.

    Args:
        ran: measured throughput by (mapping as text, loop).
    """
    rows = []
    for devices in (HERE, WITH_SIMULATED):
        choices = {row.strategy: row for row in predicted if devices in (row.chosen_among or ())}
        if not choices and devices == WITH_SIMULATED:
            continue
        # Of one mapping there is no choice: the concurrent loop has one, and the resident loop one on each device.
        for strategy in dict.fromkeys(row.strategy for row in predicted if row.loop not in _OF_ONE_MAPPING):
            if strategy in choices:
                rows.append(_of_choice(choices[strategy], devices, ran, dropped))
                continue
            mine = [row for row in predicted if row.strategy == strategy]
            unable = [row.reason for row in mine if row.value is None]
            reason = unable[0] if unable else f"needs: a mapping chosen among those {devices}"
            rows.append(_not_run(replace(mine[0], mapping=""), devices, reason))
    return rows


def _of_choice(
    row: PredictedRate, devices: str, ran: Mapping[tuple[str, Loop], Achieved], dropped: Dropped
) -> Regret:
    loop = Loop(row.loop or "")
    chosen = under(loop, row.mapping, ran)
    if chosen is None or chosen.row.value is None:
        why = f": {chosen.row.reason}" if chosen else ""
        return _not_run(row, devices, f"needs: {row.mapping}, which it chose, run under the {loop} loop{why}")
    mappings = dict.fromkeys(mapping for mapping, _ in ran)
    others = [one for mapping in mappings if (one := under(loop, mapping, ran))]
    return _regret(row, chosen, others, devices, dropped.get((loop, devices), ()))


def _not_run(row: PredictedRate, devices: str, reason: str) -> Regret:
    return Regret(
        **_fields(row), provenance=Provenance.MEASURED, status="not_run", reason=reason, devices=devices
    )


def _fields(row: PredictedRate) -> dict[str, Any]:
    return {
        "suite": SUITE,
        "workload": row.workload,
        "primitive": "training",
        "strategy": row.strategy,
        "mapping": row.mapping,
        "loop": row.loop,
        "batch_size": row.batch_size,
        "quantity": "regret",
    }


def _regret(
    row: PredictedRate,
    chosen: Achieved,
    others: Iterable[Achieved],
    devices: str,
    dropped: Collection[Placement],
) -> Regret:
    every = devices == WITH_SIMULATED
    rivals = [one for one in others if one.row.value is not None and (every or one.measured)]
    best = max(rivals, key=lambda one: (one.mapping not in dropped, one.row.value or 0.0))
    lost = loss_of_best(chosen.rounds) if best.mapping == chosen.mapping else loss(chosen.rounds, best.rounds)
    return Regret(
        **_fields(row),
        provenance=weakest(chosen.row.provenance, best.row.provenance),
        value=lost.value,
        low=lost.low,
        high=lost.high,
        best=str(best.mapping),
        ran=str(chosen.loop),
        devices=devices,
        verdict=lost.verdict,
        why_no_verdict=lost.reason,
        slow_link_us=row.slow_link_us if every else None,
        slow_chosen=row.slow_chosen if every else None,
    )


class Loss(NamedTuple):
    """The share of throughput that a choice loses against the best one, compared round by round.

    Attributes:
        value: the median loss over the rounds that timed both; 0 if the choice was the faster one.
        low, high: the 95% interval of the loss; None with too few rounds, or if the choice is the best one.
        verdict: "best", "lost" or "no verdict".
        reason: why there is no verdict; empty otherwise.
    """

    value: float
    low: float | None
    high: float | None
    verdict: str
    reason: str


BEST = Loss(0.0, None, None, "best", "")


def loss_of_best(rounds: Rounds) -> Loss:
    """Return the loss of a choice that has the best median; too few rounds do not show that it is the best.

    Args:
        rounds: gradient steps per second of the choice, by number of the round in which they were timed.
    """
    if len(rounds) < statistics.FEWEST_SAMPLES:
        return Loss(0.0, None, None, "no verdict", f"{len(rounds)} rounds")
    return BEST


def loss(chosen: Rounds, best: Rounds) -> Loss:
    """Return the share of throughput that a choice loses against the best one.

    It is the loss in the rounds that timed both, because the machine's speed changes from round to round. If no round
    did, it is computed from the two medians.

    Args:
        chosen, best: gradient steps per second of the two, by number of the round in which they were timed.
    """
    shared = sorted(set(best) & set(chosen))
    ratios = [chosen[number] / best[number] for number in shared]
    reached = median(ratios) if ratios else median(chosen.values()) / median(best.values())
    value = regret(reached, [1.0])
    if len(shared) < statistics.FEWEST_SAMPLES:
        return Loss(value, None, None, "no verdict", f"{len(shared)} rounds with both")
    low, high = statistics.interval([1 - ratio for ratio in ratios], in_order=True)
    if low > 0:
        return Loss(value, low, high, "lost", "")
    why = "holds 0" if high >= 0 else "is below 0"
    return Loss(value, low, high, "no verdict", f"the interval, {low:.1%} to {high:.1%}, {why}")
