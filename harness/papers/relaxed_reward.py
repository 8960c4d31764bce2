"""Checks of MAP VII-B (Fig. 10) and PRL 6.4 (Fig. 9): what a relaxed training loop costs in reward.

A curve's score is the interquartile mean over seeds of the return at the end of training (the metric of rliable,
Agarwal et al. 2021); its share is what it gains over the first twentieth of training, of what the reference gains.
"""

from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import trim_mean

from harness.core.provenance import Provenance
from harness.measure.statistics import FEWEST_SAMPLES
from harness.papers import relaxed_training
from harness.papers.base import Finding, Outcome
from harness.papers.evidence import detail, records, select
from harness.papers.number import Number
from harness.papers.relaxed_training import Experiment

NEEDS_PRESAMPLED = "learning curves of 5 seeds for each number of pre-sampled batches (claim/MAP-F10)"
NEEDS_CONVERGENCE = (
    "returns over wall time to convergence beside RLlib's and SB3's, several seeds: claim/PRL-F9 trains without them, "
    "`placerl learn` gives returns by environment steps"
)
NO_LOSS = 0.9
"""A curve whose share's whole interval is at least this loses nothing that a plot would show."""
VISIBLE_AT = "hopper-ddpg"
"""MAP sees D = 200 lose reward in Hopper alone."""
PUBLISHED = {"cartpole-ddpg", VISIBLE_AT, "pong-dqn"}
_RESAMPLES = 2000

Runs = dict[str, dict[int, Any]]
"""Rows of one workload by curve and seed."""


def _runs(frame: pd.DataFrame, experiment: Experiment) -> dict[str, Runs]:
    """By workload, where every curve was trained: the seeds that all curves have."""
    found: dict[str, Runs] = defaultdict(lambda: defaultdict(dict))
    for row in records(select(frame, suite="claim", quantity="final_return")):
        if detail(row, "experiment") == experiment.key:
            found[row.workload][row.backend][int(detail(row, "seed"))] = row
    names = [curve.name for curve in experiment.curves]
    complete = {}
    for workload, curves in found.items():
        seeds = set.intersection(*(set(curves.get(name, {})) for name in names))
        if len(seeds) >= FEWEST_SAMPLES:
            complete[workload] = {
                name: {seed: curves[name][seed] for seed in sorted(seeds)} for name in names
            }
    return complete


def _mean(scores: npt.NDArray) -> Any:
    return trim_mean(scores, 0.25, axis=-1)


def _scores(rows: dict[int, Any]) -> npt.NDArray:
    return np.array([row.value for row in rows.values()])


def _first(rows: dict[int, Any]) -> npt.NDArray:
    """The return at the beginning of training, a seed each."""
    return np.array([next(x for x in detail(row, "mean_returns") if x is not None) for row in rows.values()])


def share_of_gain(
    curve: npt.NDArray, reference: npt.NDArray, first: npt.NDArray
) -> tuple[float, float, float] | None:
    """A curve's share of the reference's gain and its 95% interval; None where the reference may not gain at all."""
    rng = np.random.default_rng(0)

    def resampled(scores: npt.NDArray) -> Any:
        return _mean(rng.choice(scores, (_RESAMPLES, len(scores))))

    begin = resampled(first)
    gain = resampled(reference) - begin
    if np.quantile(gain, 0.025) <= 0:
        return None
    low, high = np.quantile((resampled(curve) - begin) / gain, [0.025, 0.975])
    value = (_mean(curve) - _mean(first)) / (_mean(reference) - _mean(first))
    return float(value), float(low), float(high)


def _shares(name: str, runs: Runs, reference: str) -> dict[str, Number | None]:
    """Of every curve but the reference."""
    first, scores = _first(runs[reference]), _scores(runs[reference])
    made: dict[str, Number | None] = {}
    for curve, rows in runs.items():
        if curve == reference:
            continue
        found = share_of_gain(_scores(rows), scores, first)
        labels = tuple(sorted(int(row.Index) for row in (*rows.values(), *runs[reference].values())))
        words = f"{name}, {curve}: share of the reward gained by {reference}"
        source = f"interquartile means of {len(rows)} seeds, bootstrap over seeds"
        made[curve] = found and Number(
            words, found[0], "ratio", Provenance.MEASURED, source, *found[1:], labels
        )
    return made


def _keeps(share: Number | None) -> bool | None:
    """Whether a curve loses nothing that shows; None where the seeds cannot tell."""
    if share is None or share.low is None or share.high is None:
        return None
    return True if share.low >= NO_LOSS else False if share.high < NO_LOSS else None


def presampled(frame: pd.DataFrame) -> Finding:
    """MAP Fig. 10: 50 batches sampled ahead cost no reward; 200 do in Hopper."""
    workloads = _runs(frame, relaxed_training.PRESAMPLED)
    if not workloads:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_PRESAMPLED)
    ours: list[Number] = []
    words: list[str] = []
    holds: list[bool | None] = []
    for name, runs in workloads.items():
        shares = _shares(name, runs, "D=0")
        ours += [share for share in shares.values() if share]
        if not any(shares.values()):
            words.append(f"{name}: the strict loop itself gains too little to tell.")
        holds.append(_keeps(shares["D=50"]))
        words.append(f"{name}, D = 50: {_said(holds[-1])}.")
        if name == VISIBLE_AT:
            kept = _keeps(shares["D=200"])
            holds.append(None if kept is None else not kept)
            words.append(f"{name}, D = 200, whose loss MAP sees: {_said(kept)}.")
    if not ours:
        scores = {name: _scores(runs["D=0"]) for name, runs in workloads.items()}
        ours = [
            Number(f"{name}, D=0: final return", float(_mean(found)), "1", Provenance.MEASURED, "strict loop")
            for name, found in scores.items()
        ]
    if missing := sorted(PUBLISHED - set(workloads)):
        words.append(f"Not trained: {', '.join(missing)}.")
    return Finding(_outcome(holds, set(workloads)), tuple(ours), " ".join(words))


def reallocated(frame: pd.DataFrame) -> Finding:
    """PRL Fig. 9: of its runtime, the reward with actors that train and act again (3.3.1) beside that without."""
    experiment = relaxed_training.REALLOCATED
    shares = tuple(
        share
        for name, runs in _runs(frame, experiment).items()
        for share in _shares(name, runs, experiment.curves[0].name).values()
        if share
    )
    return Finding(Outcome.NOT_RUN, shares, needs=NEEDS_CONVERGENCE)


def _said(kept: bool | None) -> str:
    if kept is None:
        return f"the interval holds {NO_LOSS:g} of the reference's gain, or there is none"
    return "no loss that shows" if kept else "a loss that shows"


def _outcome(holds: list[bool | None], trained: set[str]) -> Outcome:
    """What the curves show; the statement is also of Hopper's loss, without which it is only half looked at."""
    if False in holds:
        return Outcome.NOT_REPRODUCED
    if None in holds or VISIBLE_AT not in trained:
        return Outcome.NO_VERDICT
    return Outcome.REPRODUCED if trained >= PUBLISHED else Outcome.IN_KIND
