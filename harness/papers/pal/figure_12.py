"""Compares PAL Equation 5's split of cores between actors and learners with all splits that were run (VI-G, Fig. 12).

The measurements are those of Fig. 10 (`figure_10_runs`).
"""

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers import charts
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.charts import Panel, Panels
from placerl.harness.papers.evidence import number
from placerl.harness.papers.number import Number, from_text, shortfall
from placerl.harness.papers.pal import figure_10, figure_10_runs
from placerl.harness.papers.pal.figure_10 import (
    MODELLED,
    NEEDS_CURVES,
    cores_of,
    equation_split,
    modelled,
    rows_of,
    workloads_of,
)
from placerl.harness.papers.pal.figure_10_runs import TRAINING

REGRET_PERCENT = 5.0
"""Largest percentage by which Equation 5's split may be slower than another and still count as the fastest."""


class EquationSplitsCores(Claim):
    """Checks PAL Fig. 12: the split of cores between actors and learners that Equation 5 gives is the fastest one.

    It is compared with every other split of as many cores that was run. For every workload at least one of them has to
    be slower by more than 5% (`REGRET_PERCENT`): otherwise any choice would have passed.
    """

    key, place, position = "PAL-F12", "VI-G, Fig. 12", 11
    statement = "Equation 5 finds the split of cores between actors and learners"
    published = from_text("PAL.update_interval")
    needs = figure_10.NEEDS_CURVES
    measured_by = (figure_10_runs.cells,)

    def judge(self, frame: pd.DataFrame) -> Finding:
        ours: list[Number] = []
        losses: dict[str, list[Number]] = {}  # of Equation 5's split against each other one
        gains: dict[str, list[Number]] = {}  # of each other split, likewise the loss against Equation 5's
        for name in workloads_of(frame):
            rows = {cores_of(row): row for row in rows_of(frame, name, TRAINING)}
            cores = max(sum(split) for split in rows)
            tried = {split: row for split, row in rows.items() if sum(split) == cores and split[0]}
            allocation = equation_split(frame, name, cores) if cores >= 2 else None
            if allocation is None:
                continue
            split = allocation.actor_cores, allocation.learner_cores
            words = f"{name}, {split[0]} cores for actors, {split[1]} for learners"
            source = "equation 5 on the measured curves"
            ours.append(
                Number(
                    f"{words}: predicted", allocation.gradient_steps_per_s, "1/s", Provenance.MODELLED, source
                )
            )
            losses[name], gains[name] = [], []
            if split in rows:
                achieved = number(rows[split], f"{words}: achieved")
                ours.append(achieved)
                rivals = [number(row, f"{words}: another") for place, row in tried.items() if place != split]
                losses[name] = [
                    shortfall(f"{name}: slower than another split", achieved, rival) for rival in rivals
                ]
                gains[name] = [shortfall(f"{name}: another split", rival, achieved) for rival in rivals]
            ours += [
                Number(
                    f"{name}, {one.actor_cores} cores for actors, {one.learner_cores} for learners: predicted",
                    one.gradient_steps_per_s,
                    "1/s",
                    Provenance.MODELLED,
                    MODELLED,
                )
                for one in modelled(frame, name)
            ]
        if not ours:
            return Finding(Outcome.NOT_RUN, needs=NEEDS_CURVES)
        every = [loss for some in losses.values() for loss in some]
        if not every:
            return Finding(
                Outcome.NOT_RUN, tuple(ours), needs="more than 2 cores, of which several splits were run"
            )
        worst = max(every, key=lambda loss: loss.value)
        ours.append(worst)
        counts = ", ".join(f"{name} {len(some)}" for name, some in losses.items())
        explanation = (
            f"At most {max(0.0, worst.value):.1f}% slower than the fastest split that was run. Other splits of as many "
            f"cores: {counts}."
        )
        if any(loss.above(REGRET_PERCENT) for loss in every):
            return Finding(Outcome.NOT_REPRODUCED, tuple(ours), explanation)
        if not all(loss.below(REGRET_PERCENT) for loss in every):
            explanation += f" An interval holds {REGRET_PERCENT:g}%, or there is none."
            return Finding(Outcome.NO_VERDICT, tuple(ours), explanation)
        # A choice among splits that are all as fast could not have been wrong.
        undecided = [
            name for name, some in gains.items() if not any(gain.above(REGRET_PERCENT) for gain in some)
        ]
        if undecided:
            explanation += (
                f" For {', '.join(undecided)} no other split was run that is slower by more than {REGRET_PERCENT:g}%, "
                "so that the choice could not have been wrong."
            )
            return Finding(Outcome.NO_VERDICT, tuple(ours), explanation)
        return Finding(Outcome.IN_KIND, tuple(ours), explanation)

    def panels(self, frame: pd.DataFrame) -> Panels:
        panels = []
        for name in workloads_of(frame):
            rows = {cores_of(row): row for row in rows_of(frame, name, TRAINING)}
            cores = max(map(sum, rows))
            if cores < 2:
                continue
            tried = sorted((split, row) for split, row in rows.items() if sum(split) == cores and split[0])
            allocation = equation_split(frame, name, cores)
            predicted = Number(
                "predicted", allocation.gradient_steps_per_s, "1/s", Provenance.MODELLED, "equation 5"
            )
            panels.append(
                Panel(
                    "cores of actors + cores of learners",
                    "gradient steps (1/s)",
                    [
                        charts.line("run", [(f"{a} + {b}", number(row, "run")) for (a, b), row in tried]),
                        charts.line(
                            "equation 5",
                            [(f"{allocation.actor_cores} + {allocation.learner_cores}", predicted)],
                        ),
                    ],
                    name,
                )
            )
        return panels
