"""Checks of PAL VI-C, VI-E and VI-G: actors and learners against cores (Fig. 8, 10 and 12)."""

from typing import Any

import pandas as pd

from harness.compare.registry import RLLIB
from harness.core.provenance import Provenance
from harness.mapping.strategies.actors_learners import Allocation, allocate
from harness.papers.base import Finding, Outcome
from harness.papers.comparisons import gains
from harness.papers.evidence import detail, noisy, number, records, select
from harness.papers.number import Number, checked_baseline, from_text, merge_rows, ratio, shortfall
from harness.papers.pal import core_scaling
from harness.papers.pal.core_scaling import COLLECTION, CONSUMPTION, TRAINING

NEEDS_CURVES = "actor and learner throughput over cores (claim/PAL-F10, tier standard)"
NEEDS_CONVERGENCE = (
    "a CUDA device; returns over wall time beside RLlib's, on several numbers of cores: comparisons with RLlib give "
    "throughput on one core, `placerl learn` returns by environment steps"
)
LINEAR = 0.8
"""Cores count as used in proportion where they bring at least this share of what each core of one alone does."""
SATURATED = 1.15
"""More cores bring nothing where they bring less than this factor."""
REGRET_PERCENT = 5.0
"""Of the split that equation 5 finds, at most, where the fastest of those that were run is found."""


def _rows(frame: pd.DataFrame, workload: str, kind: str) -> list[Any]:
    chosen = select(frame, suite="claim", workload=workload, backend=kind)
    return [row for row in records(chosen) if detail(row, "experiment") == core_scaling.EXPERIMENT]


def _workloads(frame: pd.DataFrame) -> list[str]:
    return [name for name in core_scaling.WORKLOADS if _rows(frame, name, TRAINING)]


def _cores(row: Any) -> tuple[int, int]:
    return int(detail(row, "actor_cores")), int(detail(row, "learner_cores"))


def _found(frame: pd.DataFrame, workload: str, cores: int) -> Allocation:
    """What equation 5 finds from the measured curves."""
    curves = [core_scaling.curve(_rows(frame, workload, kind), kind) for kind in (COLLECTION, CONSUMPTION)]
    interval = int(detail(_rows(frame, workload, TRAINING)[0], "update_interval"))
    return allocate(curves[0], curves[1], cores, interval)


def _checked_alone(frame: pd.DataFrame, workload: str, alone: Number) -> Number:
    """The training in turns on one core, suspect where collection and consumption on one core imply a much higher rate.

    A gradient step in turns takes what its environment steps and itself take, one after the other.
    """
    rows = [row for kind in (COLLECTION, CONSUMPTION) for row in _rows(frame, workload, kind)]
    on_one = {row.backend: row.value for row in rows if sum(_cores(row)) == 1}
    if set(on_one) != {COLLECTION, CONSUMPTION}:
        return alone
    interval = int(detail(rows[0], "update_interval"))
    return checked_baseline(alone, interval / on_one[COLLECTION] + 1 / on_one[CONSUMPTION])


def convergence(frame: pd.DataFrame) -> Finding:
    """PAL Fig. 8: of faster convergence than RLlib, the throughput beside it."""
    ours = tuple(gain.ratio for gain in gains(frame, *RLLIB))
    return Finding(Outcome.NOT_RUN, ours, needs=NEEDS_CONVERGENCE)


def scaling(frame: pd.DataFrame) -> Finding:
    """PAL Fig. 10: throughput over cores, against one core that does all in turns."""
    linear_below, saturated_above = (
        int(n.value) for n in from_text("PAL.linear_scaling_below", "PAL.saturation_above")
    )
    ours: list[Number] = []
    linear: list[Number] = []  # each against the share of proportion that counts as linear
    last: list[Number] = []  # of the most cores over those at which PAL's saturate
    most = 0
    for name in _workloads(frame):
        rows = {_cores(row): row for row in _rows(frame, name, TRAINING)}
        alone = _checked_alone(frame, name, number(rows[0, 1], f"{name}, 1 core"))
        rates = {1: alone}
        for cores in sorted({sum(split) for split in rows} - {1}):
            split = _found(frame, name, cores)
            row = rows.get((split.actor_cores, split.learner_cores))
            if row is None:
                continue
            words = f"{name}, {cores} cores ({split.actor_cores} for actors): throughput over 1 core"
            rates[cores] = number(row, words)
            gain = ratio(words, rates[cores], alone, at_most=cores)
            ours.append(gain)
            if cores < linear_below:
                linear.append(ratio(f"{words}, over proportion", gain, _exactly(LINEAR * cores)))
        most = max(most, *rates)
        if max(rates) > saturated_above:
            before = max(cores for cores in rates if cores <= saturated_above)
            words = f"{name}: throughput on {max(rates)} cores over {before}"
            last.append(ratio(words, rates[max(rates)], rates[before], at_most=max(rates) / before))
    if not ours:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_CURVES)
    if most <= saturated_above:
        needs = f"more than {saturated_above} cores, where this machine has {most}"
        return Finding(Outcome.NOT_RUN, tuple(ours), needs=needs)
    ours += last
    explanation = (
        f"Linear: below {linear_below} cores at least {LINEAR:.0%} of proportion; saturated: above {saturated_above} "
        f"cores less than {SATURATED:g} times as fast. The learners are this machine's cores, where PAL's gradients "
        "came from one GPU."
    )
    if noisy(select(frame, suite="claim").loc[[label for n in ours for label in n.rows]]):
        return Finding(Outcome.NO_VERDICT, tuple(ours), f"{explanation} Some rows are too noisy.")
    if any(n.below(1) for n in linear) or any(n.above(SATURATED) for n in last):
        return Finding(Outcome.NOT_REPRODUCED, tuple(ours), explanation)
    holds = all(n.above(1) for n in linear) and all(n.below(SATURATED) for n in last)
    return Finding(Outcome.IN_KIND if holds else Outcome.NO_VERDICT, tuple(ours), explanation)


def _exactly(value: float) -> Number:
    return Number("limit", value, "ratio", Provenance.MEASURED, low=value, high=value)


def split_of_cores(frame: pd.DataFrame) -> Finding:
    """PAL Fig. 12: the split that equation 5 finds, against the fastest of all that were run."""
    ours: list[Number] = []
    losses: list[Number] = []
    for name in _workloads(frame):
        rows = {_cores(row): row for row in _rows(frame, name, TRAINING)}
        cores = max(sum(split) for split in rows)
        tried = {split: row for split, row in rows.items() if sum(split) == cores and split[0]}
        found = _found(frame, name, cores) if cores >= 2 else None
        if found is None:
            continue
        split = found.actor_cores, found.learner_cores
        words = f"{name}, {split[0]} cores for actors, {split[1]} for learners"
        source = "equation 5 on the measured curves"
        ours.append(
            Number(f"{words}: predicted", found.gradient_steps_per_s, "1/s", Provenance.MODELLED, source)
        )
        if split in rows:
            achieved = number(rows[split], f"{words}: achieved")
            ours.append(achieved)
            rivals = [number(row, f"{words}: another") for place, row in tried.items() if place != split]
            losses += [shortfall(f"{name}: slower than another split", achieved, rival) for rival in rivals]
    if not ours:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_CURVES)
    if not losses:
        return Finding(Outcome.NOT_RUN, tuple(ours), needs="more than 2 cores: there is one split of two")
    worst = max(losses, key=lambda loss: loss.value)
    ours.append(worst)
    explanation = f"At most {max(0.0, worst.value):.1f}% slower than the fastest split that was run."
    if noisy(frame.loc[list(merge_rows(losses))]):
        return Finding(Outcome.NO_VERDICT, tuple(ours), f"{explanation} Some rows are too noisy.")
    if all(loss.below(REGRET_PERCENT) for loss in losses):
        return Finding(Outcome.IN_KIND, tuple(ours), explanation)
    if any(loss.above(REGRET_PERCENT) for loss in losses):
        return Finding(Outcome.NOT_REPRODUCED, tuple(ours), explanation)
    explanation += f" Its interval, or another's, holds {REGRET_PERCENT:g}%, or there is none."
    return Finding(Outcome.NO_VERDICT, tuple(ours), explanation)
