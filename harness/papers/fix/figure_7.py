"""Judges the reward of fixed-point training, measured by `training` (FIX VI-C, Fig. 7; IV, Algorithm 1)."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.measure.statistics import FEWEST_SAMPLES
from placerl.harness.papers import charts, published
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.charts import Panel, Panels
from placerl.harness.papers.evidence import rows_of
from placerl.harness.papers.fix import training
from placerl.harness.papers.fix.training import (
    ALIKE,
    DYNAMIC,
    FAILS,
    FIXED_16,
    FIXED_32,
    FLOAT,
    TRAINS,
    FixedPointTask,
)
from placerl.harness.papers.gains_rule import interval
from placerl.harness.papers.number import Number, from_cell, from_text
from placerl.harness.papers.relaxed_training import Runs, complete_runs, scores_of, share_of_gain
from placerl.harness.papers.shares import decisions

_FIGURE, _LEVEL = "fix_figure_7", "mean of evaluations 150 to 200"
_EVALUATIONS = 200  # evaluations per run in the paper
CURVES = (FLOAT, FIXED_32, FIXED_16, DYNAMIC)
PUBLISHED_WORKLOAD, PUBLISHED_STEPS = "halfcheetah-ddpg", 1_000_000
"""The run of Fig. 7. What another environment or a shorter run shows does not contradict it."""


def published_levels() -> tuple[Number, ...]:
    """Return the return that each of the four curves of Fig. 7 reaches at the end, as read off the figure.

    It is the mean of a curve's last fifty evaluations.
    """
    return tuple(from_cell(_FIGURE, _LEVEL, "FIXAR" if curve == DYNAMIC else curve) for curve in CURVES)


def published_shares() -> dict[str, Number]:
    """Return, from Fig. 7, each curve's gain in return as a share of the float curve's gain, by the curve's name.

    Gains count from the start that all curves share. The intervals span the errors of reading the figure.
    """
    start = from_cell(_FIGURE, "evaluation 0", "all curves")
    floats, *others = published_levels()
    shares = {}
    for curve, level in zip(CURVES[1:], others, strict=True):
        corners = [
            (reached - begun) / (full - begun)
            for reached, begun, full in product(*map(_ends, (level, start, floats)))
        ]
        value = (level.value - start.value) / (floats.value - start.value)
        words = f"Fig. 7, {curve}: share of the reward gained in floats"
        shares[curve] = Number(
            words, value, "ratio", Provenance.PUBLISHED, "FIX Fig. 7", min(corners), max(corners)
        )
    return shares


def _ends(number: Number) -> tuple[float, float]:
    return (
        number.value if number.low is None else number.low,
        number.value if number.high is None else number.high,
    )


def _runs(frame: pd.DataFrame) -> dict[str, Runs]:
    """Return the workloads for which all four curves were trained, with the seeds that all four have.

    Only runs of the same number of steps are compared: where a store holds several tiers, the longest of those that
    have enough seeds for an interval, or as many as the shorter ones.
    """
    rows = rows_of(frame, training.EXPERIMENT, "evaluation_return")
    return complete_runs(((row.parameters.steps, row) for row in rows), CURVES, fewest=1)


def _judged(name: str, runs: Runs, ours: list[Number], words: list[str]) -> Outcome:
    start = float(np.mean([row.samples[0] for row in runs[FLOAT].values()]))
    finals = {}
    for curve, rows in runs.items():
        finals[curve] = float(np.mean([row.value for row in rows.values()]))
        ours.append(_mean(f"{name}, {curve}: final return", finals[curve], rows))
    some = next(iter(runs[FLOAT].values()))
    steps, seeds = some.parameters.steps, len(runs[FLOAT])
    words.append(f"{name}, {steps:,} steps, {seeds} seeds:")
    share = _shares(name, runs)
    if seeds < FEWEST_SAMPLES:
        gain = finals[FLOAT] - start
        gained = {curve: (final - start) / gain for curve, final in finals.items() if gain > 0}
        words += [f"of what floats gain, {_listed(gained)};"] if gained else []
        words.append(f"no interval, and no verdict, of fewer than {FEWEST_SAMPLES} seeds (tier full).")
        words.append(_change(runs[DYNAMIC]))
        return Outcome.NO_VERDICT
    if not share:
        words.append("floats themselves gain too little over the untrained network to tell.")
        return Outcome.NO_VERDICT
    ours += share.values()
    words.append(f"of what floats gain, {_listed({curve: each.value for curve, each in share.items()})}.")
    words.append(_change(runs[DYNAMIC]))
    papers_run = name == PUBLISHED_WORKLOAD and steps >= PUBLISHED_STEPS
    decided = _decided(runs, FLOAT, CURVES[1:])
    low, high = ({curve: interval(each)[end] for curve, each in share.items()} for end in (0, 1))
    shares_read = published_shares()
    words.append(f"In Fig. 7, {_listed({curve: each.value for curve, each in shares_read.items()})}.")
    if decided[FIXED_16, FAILS] is not False:
        words.append("That 16 bits from the start fail is not seen.")
    if decided[FIXED_16, FAILS] is False and decided[FIXED_32, TRAINS] and decided[DYNAMIC, TRAINS]:
        as_published = all(
            read.value - ALIKE <= low[curve] and high[curve] <= read.value + ALIKE
            for curve, read in shares_read.items()
        )
        words.append(
            f"{'Every' if as_published else 'Not every'} whole interval is within {ALIKE:.0%} of the floats' gain of "
            "Fig. 7's."
        )
        return Outcome.REPRODUCED if as_published and papers_run else Outcome.IN_KIND
    contradicts = decided[FIXED_16, TRAINS] or False in (decided[FIXED_32, FAILS], decided[DYNAMIC, FAILS])
    if contradicts and not papers_run:
        words.append(
            f"Fig. 7 is of {PUBLISHED_WORKLOAD} and {PUBLISHED_STEPS:,} steps, which this does not contradict."
        )
    return Outcome.NOT_REPRODUCED if contradicts and papers_run else Outcome.NO_VERDICT


def _decided(runs: Runs, reference: str, curves: Sequence[str]) -> dict[tuple[str, float], bool | None]:
    """Return what the sequential test says of the shares of some curves: whether each is above `TRAINS` and `FAILS`."""
    finals = {curve: scores_of(runs[curve]).tolist() for curve in (reference, *curves)}
    first = [row.samples[0] for row in runs[reference].values()]
    every = decisions(training.tested(curves), reference, first, finals)
    return {statement: decision.above for statement, decision in every.items()}


def _listed(shares: dict[str, float]) -> str:
    return ", ".join(f"{curve} {share:.0%}" for curve, share in shares.items() if curve != FLOAT)


def _shares(name: str, runs: Runs, reference: str = FLOAT) -> dict[str, Number]:
    """Return each curve's share of the reference's gain, bootstrapped over seeds; empty if that gain may be 0."""
    if len(runs[reference]) < FEWEST_SAMPLES:
        return {}
    first = np.array([row.samples[0] for row in runs[reference].values()])
    scores = {curve: np.array([row.value for row in rows.values()]) for curve, rows in runs.items()}
    shares = {}
    for curve, rows in runs.items():
        if curve == reference or len(rows) < FEWEST_SAMPLES:
            continue
        share = share_of_gain(scores[curve], scores[reference], first)
        if share is None:
            return {}
        words = (
            f"{name}, {curve}: share of the reward gained in {'floats' if reference == FLOAT else reference}"
        )
        source = f"interquartile means of {len(rows)} seeds, bootstrap over seeds"
        labels = sorted(int(row.Index) for row in (*rows.values(), *runs[reference].values()))
        shares[curve] = Number(
            words, share[0], "ratio", Provenance.MEASURED, source, *share[1:], tuple(labels)
        )
    return shares


def _change(rows: dict[int, Any]) -> str:
    """Describe how the reward changes when activations become 16 bits wide: the dip and the recovery."""
    before, after, later = [], [], []
    for row in rows.values():
        at = row.parameters.delay // row.parameters.evaluation_interval
        before.append(row.samples[at])
        after.append(row.samples[min(at + 1, len(row.samples) - 1)])
        later.append(row.value)
    was, dipped, became = (float(np.mean(x)) for x in (before, after, later))
    text = f"At the change the return goes from {was:.4g} to {dipped:.4g} and ends at {became:.4g}:"
    # Evaluations differ from their neighbours by this much without any change.
    wiggle = np.mean([np.std(np.diff(row.samples[len(row.samples) // 4 :])) for row in rows.values()])
    if was - dipped <= wiggle:
        return f"{text} a dip beyond the {wiggle:.3g} between any two evaluations is not seen."
    return f"{text} a dip, {'made good' if became >= dipped + (was - dipped) / 2 else 'not made good'}."


def _mean(quantity: str, value: float, rows: dict[int, Any]) -> Number:
    labels = tuple(sorted(int(row.Index) for row in rows.values()))
    return Number(quantity, value, "1", Provenance.MEASURED, f"mean of {len(rows)} seeds", rows=labels)


def _learning_curve(rows: dict[int, Any]) -> list[tuple[float, Number]]:
    """Return the mean over seeds of each evaluation, with their range."""
    samples = np.array([row.samples for row in rows.values()])
    places = np.linspace(0, 100, samples.shape[1])
    labels = tuple(sorted(int(row.Index) for row in rows.values()))
    points = []
    for place, returns in zip(places, samples.T, strict=True):
        low, high = float(returns.min()), float(returns.max())
        mean = float(returns.mean())
        n = Number("mean return", mean, "1", Provenance.MEASURED, f"{len(rows)} seeds", low, high, labels)
        points.append((float(place), n))
    return points


def _published_curve(curve: str) -> list[tuple[float, Number]]:
    column = "FIXAR" if curve == DYNAMIC else curve
    cells = [cell for cell in published.table(_FIGURE).cells if cell.column == column]
    return [
        (float(cell.row.split()[1]) / _EVALUATIONS * 100, from_cell(_FIGURE, cell.row, column))
        for cell in cells
        if cell.row.startswith("evaluation ")
    ]


class DelayKeepsReward(Claim):
    """Checks FIX Fig. 7: 16-bit activations after a delay reach the reward of 32 bits, 16 bits from the start do not.

    Curves reach the same reward if they differ by at most 0.2 of the float curve's gain (`ALIKE`), with their whole
    intervals. The outcome is "reproduced" if in addition, in the paper's environment and number of steps, each
    curve's whole interval is within that margin of Fig. 7's, that of 16 bits from the start as well. Only that run can
    contradict the figure.
    """

    key, place, position = "FIX-F7", "VI-C, Fig. 7", 1
    statement = "16-bit activations after a delay reach the reward of 32 bits; 16 bits from the start do not"
    published = (*from_text("FIX.reward_level"), *published_levels())
    needs = "training runs in floats and in fixed point (claim/FIX-F7)"
    measured_by = (training.cells,)
    decides = "at least five seeds of HalfCheetah (`placerl reproduce --only FIX-F7 --tier night`)"

    def judge(self, frame: pd.DataFrame) -> Finding:
        workloads = _runs(frame)
        if not workloads:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        ours: list[Number] = []
        words: list[str] = []
        outcomes = [_judged(name, runs, ours, words) for name, runs in workloads.items()]
        # One workload that contradicts the claim is enough; an undecided one leaves it open.
        for outcome in (Outcome.NOT_REPRODUCED, Outcome.NO_VERDICT, Outcome.IN_KIND):
            if outcome in outcomes:
                return Finding(outcome, tuple(ours), " ".join(words))
        return Finding(Outcome.REPRODUCED, tuple(ours), " ".join(words))

    def panels(self, frame: pd.DataFrame) -> Panels:
        panels = []
        for name, runs in _runs(frame).items():
            lines = [charts.line(curve, _learning_curve(runs[curve])) for curve in CURVES]
            if name == PUBLISHED_WORKLOAD:
                lines += [charts.line(curve, _published_curve(curve)) for curve in CURVES]
            steps = next(iter(runs[FLOAT].values())).parameters.steps
            title = f"{name}, {steps:,} steps"
            panels.append(Panel("share of the run (%)", "mean return of an evaluation", lines, title))
        return panels


def _swept(frame: pd.DataFrame) -> tuple[FixedPointTask, dict[str, dict[int, Any]]]:
    """Return the task of the sweep, and its rows by curve and seed: the longest that has seeds enough for an interval.

    In the task of Fig. 7, 32 and 16 bits from the start are those of the figure's trainings.
    """
    for task in (training.NIGHT, training.SWEPT):
        tried: dict[str, dict[int, Any]] = defaultdict(dict)
        for experiment in (training.EXPERIMENT, training.SWEEP):
            for row in rows_of(frame, experiment, "evaluation_return", workload=task.workload):
                own = experiment == training.SWEEP or row.backend in (FIXED_32, FIXED_16)
                if own and row.parameters.steps == task.steps:
                    tried[row.backend][row.parameters.seed] = row
        swept = any(name.startswith(DYNAMIC) for name in tried)
        if swept and len(set.intersection(*(set(of) for of in tried.values()))) >= FEWEST_SAMPLES:
            break
    return task, tried


class DelayMakesUpForHalf(Claim):
    """Checks FIX IV, Algorithm 1: full precision during the delay makes up for 16-bit activations after it.

    The trainings try the delays and formats that the paper leaves open. The delay makes up for 16 bits only if 16
    bits from the start fail. A share of a gain needs several seeds; otherwise there is no verdict. Of Pendulum one seed
    is trained (`training.SWEPT_SEED`), so these rows describe and carry no verdict.
    """

    key, place, position = "FIX-F7-sweep", "IV, Algorithm 1", 2
    statement = (
        "Full precision during the delay makes up for 16-bit activations after it (neither d nor the split of integer "
        "and fraction bits is given)"
    )
    needs = "training runs with other delays and formats (claim/FIX-F7-sweep)"
    measured_by = (training.sweep_cells,)
    decides = (
        "five seeds of a task that 16 bits from the start fail, which Pendulum is not (`placerl reproduce --only "
        "FIX-F7-sweep --tier night`)"
    )

    def judge(self, frame: pd.DataFrame) -> Finding:
        task, tried = _swept(frame)
        delays = [name for name in tried if name.startswith(DYNAMIC)]
        seeds = set(tried.get(FIXED_32, {})).intersection(*(tried[name] for name in delays))
        if not delays or not seeds:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        runs = {
            name: {seed: rows[seed] for seed in sorted(seeds & set(rows))}
            for name, rows in sorted(tried.items())
        }
        finals = {
            name: float(np.mean([row.value for row in rows.values()])) for name, rows in runs.items() if rows
        }
        ours = [_mean(f"{name}: final return", finals[name], runs[name]) for name in finals]
        start = float(np.mean([row.samples[0] for row in runs[FIXED_32].values()]))
        gain = finals[FIXED_32] - start
        count = "one seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
        words = f"{task.workload}, {task.steps:,} steps, {count}."
        if gain > 0:
            gained = {name: (final - start) / gain for name, final in finals.items()}
            others = {name.removeprefix(f"{FIXED_32}, "): gained[name] for name in gained if name != FIXED_32}
            words += f" Of what {FIXED_32} gains, {_listed(others)}."
            if gained.get(FIXED_16, 0) >= FAILS:
                words += (
                    " 16 bits from the start do not fail here, so that the delay has nothing to make up for."
                )
        if FIXED_16 not in finals:
            words += " 16 bits from the start were not trained."
        if len(seeds) < FEWEST_SAMPLES:
            said = (
                f"{words} No interval, and no verdict, of fewer than {FEWEST_SAMPLES} seeds: every tier trains one, "
                "which shows what the formats do."
            )
            return Finding(Outcome.NO_VERDICT, tuple(ours), said)
        share = _shares(task.workload, runs, FIXED_32)
        if not share:
            said = f"{words} {FIXED_32} itself gains too little over the untrained network to tell."
            return Finding(Outcome.NO_VERDICT, tuple(ours), said)
        ours += share.values()
        if FIXED_16 not in share:
            return Finding(Outcome.NO_VERDICT, tuple(ours), words)
        decided = _decided(runs, FIXED_32, (FIXED_16, *delays))
        if decided[FIXED_16, FAILS] is not False:
            return Finding(Outcome.NO_VERDICT, tuple(ours), words)
        # FIX states no delay: one that fails contradicts nothing.
        if all(decided[name, FAILS] is False for name in delays):
            return Finding(Outcome.NOT_REPRODUCED, tuple(ours), words)
        trains = all(decided[name, TRAINS] for name in delays)
        return Finding(Outcome.IN_KIND if trains else Outcome.NO_VERDICT, tuple(ours), words)
