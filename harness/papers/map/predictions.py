"""Checks MAP Equation 3 (VI-B, VII-D): predicted and optimal throughput against trainings with the relaxed loop.

In the relaxed loop, batches are sampled ahead. The equation takes the minimum throughput of learner and replay
management, which run in parallel on D pre-sampled batches (MAP V-A). It does not apply to loops in which the two take
turns (D = 0), whatever the actors do meanwhile, nor to a training in which the actors are the slowest part, nor to one
whose three busy threads share two cores, where the system's scheduler decides what each gets.
"""

from typing import Any

import numpy as np
import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.mapping.strategies.map_tpds23 import BUSY_THREADS, MapTpds23
from placerl.harness.papers.base import Finding, Outcome, by_a_model
from placerl.harness.papers.clocks import at_one_clock
from placerl.harness.papers.evidence import (
    ERROR,
    error_of,
    mapping_of,
    number,
    rate,
    records,
    select,
)
from placerl.harness.papers.number import Number, from_text, shortfall
from placerl.harness.papers.slow_links import AtBothLatencies

RELAXED = "relaxed"
NEEDS = (
    "the mapping that MAP's strategy chose, run under the relaxed loop, in which replay management works ahead of the "
    "learner by D pre-sampled batches (MAP V-A): `placerl validate`"
)
NEEDS_FAST_ACTORS = (
    "a training on at least 3 cores, one for each of actors, replay manager and learner, whose actors are not its "
    "slowest part: with larger batches (`placerl validate --tier standard`), or more actors on cores of their own"
)
COMMANDS = ("placerl validate --tier quick", "placerl report")
SUITE = Suite.VALIDATION


def _chosen(frame: pd.DataFrame) -> list[tuple[Any, Any]]:
    """Return the predictions of MAP's strategy for its chosen mappings, each with the relaxed run of that
    mapping.

    If runs were measured or simulated, modelled runs are left out, because they cannot refute anything.
    """
    achieved = {
        (row.workload, row.batch_size, mapping_of(row)): row
        for row in records(select(frame, suite=SUITE, quantity="gradient_steps_per_s"))
        if row.loop == RELAXED
    }
    quantity = "predicted_gradient_steps_per_s"
    predicted = records(select(frame, suite=SUITE, quantity=quantity, strategy=MapTpds23.name))
    placed = [((row.workload, row.batch_size, mapping_of(row)), row) for row in predicted]
    pairs = [
        (row, achieved[place])
        for place, row in placed
        if row.chosen_among and place in achieved and _is_of_relaxed_loop(row)
    ]
    shown = [pair for pair in pairs if pair[1].provenance != Provenance.MODELLED]
    return shown or pairs


def _finding(outcome: Outcome, ours: tuple[Number, ...], said: str, runs: list[Any]) -> Finding:
    """Return the finding; for modelled runs, only what a formula can support."""
    said += at_one_clock(run.provenance for run in runs)
    if all(run.provenance == Provenance.MODELLED for run in runs):
        unknown = "The formula does not know what else the accelerator's units wait for."
        return by_a_model(outcome is Outcome.REPRODUCED, ours, said, unknown=unknown)
    return Finding(outcome, ours, said)


def _is_of_relaxed_loop(prediction: Any) -> bool:
    """Whether the error that the validation stored refers to a relaxed run."""
    return prediction.error is not None and prediction.ran == RELAXED


def _name(run: Any, quantity: str) -> str:
    """Return the name of a number of a training, which says so if the number is not judged."""
    why = why_not_judged(run)
    note = f" (not judged: {why})" if why else ""
    return f"{run.workload}, batch size {run.batch_size}, {mapping_of(run)}: {quantity}{note}"


def _judged(numbers: list[Number], least: float, most: float) -> tuple[Outcome, str]:
    """Return whether numbers are between two bounds with their whole intervals; those without one decide nothing."""
    clear = [(n.low, n.high) for n in numbers if n.low is not None and n.high is not None]
    within = sum(least <= low and high <= most for low, high in clear)
    outside = sum(low > most or high < least for low, high in clear)
    unsure = len(numbers) - len(clear)
    said = (
        f"Of {len(numbers)}, {unsure} have too few rounds, {outside} are clearly outside and {within} clearly within "
        f"{most:g}%"
    )
    if within == len(numbers):
        return Outcome.REPRODUCED, said
    return Outcome.NOT_REPRODUCED if outside else Outcome.NO_VERDICT, said


def _in_turn(chosen: list[tuple[Any, Any]]) -> str:
    """Describe the prediction from the same times if learner and replay management took turns."""
    errors = [100 * (1 / sum(prediction.terms_s.values()) / run.value - 1) for prediction, run in chosen]
    return (
        "Equation 3 overlaps learner and replay management, and hides actors and transfers: with the times of learner "
        f"and replay management added, the median error is {np.median(errors):+.1f}%."
    )


def actors_are_slowest(run: Any) -> bool:
    """Return whether the actors of a training took longer than its learner, and longer than its replay management.

    Args:
        run: the row of a training, from `harness.papers.evidence.records`; without stored times of its parts the
            result is False.
    """
    terms_s = run.terms_s or {}
    acting_s = sum(terms_s.get(term, 0.0) for term in ("environment", "infer"))
    replay_s = sum(terms_s.get(term, 0.0) for term in ("sample", "gather", "update", "insert"))
    return bool(acting_s > max(replay_s, terms_s.get("learner", 0.0)))


def why_not_judged(run: Any) -> str:
    """Return why a training of MAP's loop says nothing about Equation 3, in words; empty if it is judged.

    In virtual time each unit has a time of its own, whatever the cores.

    Args:
        run: the row of a training, as of `actors_are_slowest`.
    """
    cores = run.timed.conditions.get("cores")
    if run.provenance == Provenance.MEASURED and cores is not None and len(cores) < BUSY_THREADS:
        return f"{BUSY_THREADS} busy threads on {len(cores)} cores"
    return "the actors are the slowest part" if actors_are_slowest(run) else ""


def _without_unjudged(
    numbers: list[Number], trainings: list[tuple[Any, Any]]
) -> tuple[list[Number], list[tuple[Any, Any]]]:
    """Return those of some trainings that are judged, as (prediction, run), and before them their numbers."""
    judged = [label for label, (_, run) in enumerate(trainings) if not why_not_judged(run)]
    return [numbers[label] for label in judged], [trainings[label] for label in judged]


def _unjudged(chosen: list[tuple[Any, Any]]) -> str:
    """Name the runs about which Equation 3, which gives the actors no term and each part its own core, says nothing."""
    named = [
        f"{run.workload} at batch size {run.batch_size} ({why})"
        for _, run in chosen
        if (why := why_not_judged(run))
    ]
    if not named:
        return ""
    return (
        "MAP gives actors, replay manager and learner cores of their own, and Equation 3 gives the actors no term. Not "
        f"judged are {len(named)} of {len(chosen)}: {', '.join(named)}."
    )


class ThroughputIsPredicted(AtBothLatencies):
    """Checks MAP VI-B: the predicted throughput of a training is near the throughput that the training achieves.

    The prediction is the smaller throughput of learner and replay management. Trainings whose actors are the slowest
    part, or whose threads share cores, are listed, and not judged.
    """

    key, place, position = "MAP-VI-B", "VI-B, Equation 3", 5
    statement = "Throughput is the smallest over learner and replay manager: prediction against achievement"
    needs = NEEDS
    reads = ("validation",)
    commands = COMMANDS
    decides = "more rounds of `placerl validate` on a machine with a core for every busy thread"

    def judge(self, frame: pd.DataFrame) -> Finding:
        limit = from_text("MAP.optimum_gap")[0].value
        chosen = _chosen(frame)
        if not chosen:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        errors = [error_of(prediction, run, _name(run, ERROR)) for prediction, run in chosen]
        ours = (*errors, *(number(run, _name(run, "achieved")) for _, run in chosen))
        of_judged, judged = _without_unjudged(errors, chosen)
        if not judged:
            return Finding(Outcome.NOT_RUN, ours, _unjudged(chosen), needs=NEEDS_FAST_ACTORS)
        outcome, said = _judged(of_judged, -limit, limit)
        said += (
            f" of what was achieved; above 0 is a prediction too high. {_in_turn(judged)} {_unjudged(chosen)}"
        )
        return _finding(outcome, ours, said.strip(), [run for _, run in judged])


class ThroughputIsNearOptimum(AtBothLatencies):
    """Checks MAP VII-D: the achieved throughput is near the optimum, the rate of the fastest learner.

    The learners' gradient steps were timed in the same rounds as the trainings. Trainings whose actors are the slowest
    part, or whose threads share cores, are listed, and not judged.
    """

    key, place, position = "MAP-F13", "VII-D, Fig. 13", 17
    statement = "Achieved throughput is near the theoretical optimum, the fastest learner's rate"
    published = from_text("MAP.optimum_gap")
    needs = NEEDS
    reads = ("validation",)
    commands = COMMANDS
    decides = "more rounds of `placerl validate` on a machine with a core for every busy thread"

    def judge(self, frame: pd.DataFrame) -> Finding:
        steps = select(frame, suite=SUITE, primitive="learner.step", quantity="time_per_call")
        gaps: list[Number] = []
        timed: list[tuple[Any, Any]] = []
        for prediction, run in _chosen(frame):
            mine = steps[(steps["workload"] == run.workload) & (steps["batch_size"] == run.batch_size)]
            # A measured run cannot reach the rate of a device that was only simulated, nor be judged by it.
            if run.provenance == Provenance.MEASURED:
                mine = mine[mine["provenance"] == Provenance.MEASURED]
            if mine.empty:
                continue
            (fastest,) = records(mine.nsmallest(1, "value"))
            optimum = rate(fastest, f"optimum of {run.workload}, batch size {run.batch_size}")
            timed.append((prediction, run))
            gaps.append(shortfall(_name(run, "gap to the optimum"), number(run, "achieved"), optimum))
        if not gaps:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        of_judged, judged = _without_unjudged(gaps, timed)
        if not judged:
            return Finding(Outcome.NOT_RUN, tuple(gaps), _unjudged(timed), needs=NEEDS_FAST_ACTORS)
        limit = self.published[0].value
        outcome, said = _judged(of_judged, -np.inf, limit)
        said += f" of the optimum. {_unjudged(timed)}"
        if faster := [gap.quantity for gap in of_judged if gap.below(-limit)]:
            said = f"{said.strip()} Faster than their optimum, which is then none: {'; '.join(faster)}."
            outcome = Outcome.NO_VERDICT if outcome is Outcome.REPRODUCED else outcome
        return _finding(outcome, tuple(gaps), said.strip(), [run for _, run in judged])
