"""Judges how throughput grows with the cores (PAL VI-E, Fig. 10), from the rows of `figure_10_runs`.

Numbers for more cores than the machine has are modelled, and marked so: each curve continues with the contention that
was measured on it (`extrapolated`), Equation 5 splits the cores, and the result is scaled by the ratio of the largest
training that was run to what Equation 5 predicts for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping.strategies.actors_learners import CoreAllocation, allocate
from placerl.harness.papers import charts, evidence
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.charts import Panel, Panels
from placerl.harness.papers.evidence import number
from placerl.harness.papers.number import Number, checked_baseline, from_text, ratio
from placerl.harness.papers.pal import figure_10_runs
from placerl.harness.papers.pal.figure_10_runs import (
    COLLECTION,
    CONSUMPTION,
    CORES,
    EXPERIMENT,
    TRAINING,
    WORKLOADS,
    curve,
)

NEEDS_CURVES = "actor and learner throughput over cores (claim/PAL-F10, tier standard)"
MODELLED = "equation 5 on curves that go on with the contention measured on fewer cores"
FORMER = "cartpole-dqn"
"""What earlier runs measured in place of PAL's LunarLander, which had no native environment."""
LINEAR = 0.8
"""Throughput on n cores is linear if it is at least this share of n times one core's throughput."""
SATURATED = 1.15
"""Throughput is saturated if more cores raise it by less than this factor."""


def rows_of(frame: pd.DataFrame, workload: str, kind: str) -> list[Any]:
    """Return the stored measurements of one workload and one kind of configuration, as named tuples.

    Args:
        kind: `COLLECTION` (actors alone), `CONSUMPTION` (learners alone) or `TRAINING` (both).
    """
    return evidence.rows_of(frame, EXPERIMENT, workload=workload, backend=kind)


def workloads_of(frame: pd.DataFrame) -> list[str]:
    return [name for name in (*WORKLOADS, FORMER) if rows_of(frame, name, TRAINING)]


def cores_of(row: Any) -> tuple[int, int]:
    return row.parameters.actor_cores, row.parameters.learner_cores


def equation_split(frame: pd.DataFrame, workload: str, cores: int) -> CoreAllocation:
    """Return the division of cores between actors and learners that PAL's Equation 5 gives for measured throughputs."""
    curves = [curve(rows_of(frame, workload, kind), kind) for kind in (COLLECTION, CONSUMPTION)]
    interval = rows_of(frame, workload, TRAINING)[0].parameters.update_interval
    return allocate(curves[0], curves[1], cores, interval)


def extrapolated(measured: Sequence[tuple[int, float]]) -> Callable[[int], float]:
    """Return a curve of throughput over cores that continues beyond the measured numbers of cores.

    Beyond them it is f(n) = n f(1) / (1 + s (n - 1)), where s >= 0, the contention, is such that the curve meets the
    last measured point (Gunther 2007, "Guerrilla Capacity Planning", chapter 4, without coherence). Between measured
    points it is linear.

    Args:
        measured: (cores, throughput) of at least two numbers of cores, one core among them, ascending.
    """
    xs, ys = zip(*measured, strict=True)
    most, last = xs[-1], ys[-1]
    serial = max(0.0, (most * ys[0] / last - 1) / (most - 1))

    def at(cores: int) -> float:
        if cores <= most:
            return float(np.interp(cores, xs, ys))
        return cores * ys[0] / (1 + serial * (cores - 1))

    return at


def modelled(frame: pd.DataFrame, name: str) -> list[CoreAllocation]:
    """Return the predicted training throughput on PAL's numbers of cores beyond those of this machine.

    PAL's Equation 5 divides the cores between actors and learners by curves that are extrapolated from measurements.
    Its throughput is then scaled by the ratio of measured to predicted throughput on the most cores that were run,
    because actors and learners together are slower than each alone.

    Returns:
        For each number of cores the division and its throughput; empty if the measurements are not sufficient.
    """
    rows = {cores_of(row): row for row in rows_of(frame, name, TRAINING)}
    curves = [
        extrapolated(points)
        for kind in (COLLECTION, CONSUMPTION)
        if len(points := sorted((sum(cores_of(row)), row.value) for row in rows_of(frame, name, kind))) > 1
    ]
    most = max(map(sum, rows))
    if len(curves) < 2 or most < 2:
        return []
    interval = rows_of(frame, name, TRAINING)[0].parameters.update_interval
    seen = equation_split(frame, name, most)
    ran = rows.get((seen.actor_cores, seen.learner_cores))
    if ran is None:
        return []
    scale = ran.value / seen.gradient_steps_per_s
    allocations = [allocate(curves[0], curves[1], cores, interval) for cores in CORES if cores > most]
    return [replace(one, gradient_steps_per_s=scale * one.gradient_steps_per_s) for one in allocations]


def _checked_alone(frame: pd.DataFrame, workload: str, alone: Number) -> Number:
    """Return the training in turns on one core, suspect if collection and consumption imply a much higher rate.

    A gradient step in turns takes the time of its environment steps plus its own.
    """
    rows = [row for kind in (COLLECTION, CONSUMPTION) for row in rows_of(frame, workload, kind)]
    on_one = {row.backend: row.value for row in rows if sum(cores_of(row)) == 1}
    if set(on_one) != {COLLECTION, CONSUMPTION}:
        return alone
    interval = rows[0].parameters.update_interval
    return checked_baseline(alone, interval / on_one[COLLECTION] + 1 / on_one[CONSUMPTION])


def _divides_in_proportion(frame: pd.DataFrame, workload: str, cores: int) -> bool:
    """Return whether so many whole cores, divided between actors and learners, could be linear at all.

    The best division is that of threads that scale perfectly, from both rates on one core, over their training in
    turns there. If one side takes nearly all of the time, a core for the other one is idle, whatever scales how.
    """
    collected, consumed = (
        curve(rows_of(frame, workload, kind), kind)(1) for kind in (COLLECTION, CONSUMPTION)
    )
    collected /= rows_of(frame, workload, TRAINING)[0].parameters.update_interval
    best = max(min(actors * collected, (cores - actors) * consumed) for actors in range(1, cores))
    return best * (1 / collected + 1 / consumed) >= LINEAR * cores


def _exactly(value: float) -> Number:
    return Number("limit", value, "ratio", Provenance.MEASURED, low=value, high=value)


class ThroughputIsLinearInCores(Claim):
    """Checks PAL Fig. 10: throughput is linear in the cores, and then saturates.

    The reference is a training on one core, where actor and learner take turns. Saturation is judged by what more
    cores than the published number bring over exactly that number. PAL's saturates because one GPU takes every
    gradient; learners on cores have no such bottleneck, so throughput that goes on growing refutes nothing.
    """

    key, place, position = "PAL-F10", "VI-E, Fig. 10", 8
    statement = "Throughput is linear in the cores, then saturates"
    published = from_text("PAL.linear_scaling_below", "PAL.saturation_above")
    needs = NEEDS_CURVES
    measured_by = (figure_10_runs.cells,)

    def judge(self, frame: pd.DataFrame) -> Finding:
        linear_below, saturated_above = (int(n.value) for n in self.published)
        ours: list[Number] = []
        linear: dict[str, list[Number]] = {}  # each compared with the share that counts as linear
        last: dict[str, Number] = {}  # of the most cores over the number at which PAL's saturate
        most, refuted = 0, False
        for name in workloads_of(frame):
            rows = {cores_of(row): row for row in rows_of(frame, name, TRAINING)}
            alone = _checked_alone(frame, name, number(rows[0, 1], f"{name}, 1 core"))
            rates = {1: alone}
            linear[name] = []
            most = max(most, *map(sum, rows))
            for cores in (count for count in CORES if 1 < count <= max(map(sum, rows))):
                split = equation_split(frame, name, cores)
                row = rows.get((split.actor_cores, split.learner_cores))
                if row is None:
                    continue
                words = f"{name}, {cores} cores ({split.actor_cores} for actors): throughput over 1 core"
                rates[cores] = number(row, words)
                gain = ratio(words, rates[cores], alone, at_most=cores)
                ours.append(gain)
                if cores < linear_below and _divides_in_proportion(frame, name, cores):
                    share = ratio(f"{words}, over proportion", gain, _exactly(LINEAR * cores))
                    linear[name].append(share)
                    refuted |= share.below(1) and split.learner_cores == 1
            ours += [
                Number(
                    f"{name}, {one.actor_cores + one.learner_cores} cores ({one.actor_cores} for actors): throughput "
                    "over 1 core",
                    one.gradient_steps_per_s / alone.value,
                    "ratio",
                    Provenance.MODELLED,
                    MODELLED,
                )
                for one in modelled(frame, name)
            ]
            if max(rates) > saturated_above and saturated_above in rates:
                words = f"{name}: throughput on {max(rates)} cores over {saturated_above}"
                before = rates[saturated_above]
                last[name] = ratio(words, rates[max(rates)], before, at_most=max(rates) / saturated_above)
        if not ours:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        if not last:
            needs = f"trainings on {saturated_above} and on more cores; the most here have {most}"
            return Finding(Outcome.NOT_RUN, tuple(ours), needs=needs)
        ours += last.values()
        explanation = (
            f"Linear: below {linear_below} cores at least {LINEAR:.0%} of proportion; saturated: above "
            f"{saturated_above} cores less than {SATURATED:g} times as fast as on {saturated_above}. The learners are "
            "this machine's cores, where PAL's gradients came from one GPU, its reason for the saturation: growth that "
            "goes on refutes nothing. Several learners divide a batch here, where PAL's sample one each (V-B): "
            "their rate below proportion refutes nothing either."
        )
        if uneven := [name for name, gains in linear.items() if not gains]:
            explanation += (
                f" For {', '.join(uneven)} fewer than {linear_below} whole cores cannot be divided so that actors and "
                "learners are both busy: whether it is linear is not shown."
            )
        if refuted:
            return Finding(Outcome.NOT_REPRODUCED, tuple(ours), explanation)
        holds = all(
            linear[name]
            and all(n.above(1) for n in linear[name])
            and name in last
            and last[name].below(SATURATED)
            for name in linear
        )
        return Finding(Outcome.IN_KIND if holds else Outcome.NO_VERDICT, tuple(ours), explanation)

    def panels(self, frame: pd.DataFrame) -> Panels:
        linear, saturated = (n.value for n in self.published)
        panels = []
        for name in workloads_of(frame):
            rows = {cores_of(row): row for row in rows_of(frame, name, TRAINING)}
            beyond = [
                (
                    one.actor_cores + one.learner_cores,
                    Number("modelled", one.gradient_steps_per_s, "1/s", Provenance.MODELLED, MODELLED),
                )
                for one in modelled(frame, name)
            ]
            trained = [(1, rows[0, 1])] if (0, 1) in rows else []
            for cores in (count for count in CORES if 1 < count <= max(map(sum, rows))):
                split = equation_split(frame, name, cores)
                if (row := rows.get((split.actor_cores, split.learner_cores))) is not None:
                    trained.append((cores, row))
            curves = {
                kind: sorted((sum(cores_of(row)), row) for row in rows_of(frame, name, kind))
                for kind in (COLLECTION, CONSUMPTION)
            }
            panels.append(
                Panel(
                    "cores",
                    "gradient or environment steps (1/s)",
                    [
                        charts.line(label, [(cores, number(row, label)) for cores, row in some])
                        for label, some in (
                            ("training, gradient steps", trained),
                            ("collection alone, environment steps", curves[COLLECTION]),
                            ("consumption alone, gradient steps", curves[CONSUMPTION]),
                        )
                    ]
                    + ([charts.line("training beyond this machine", beyond)] if beyond else []),
                    name,
                    log_y=True,
                    published_x=[
                        ("linear below (published)", linear),
                        ("saturated above (published)", saturated),
                    ],
                )
            )
        return panels
