"""Compares the reward of training with batches sampled ahead with that of the strict loop (MAP VII-B, Fig. 10)."""

from functools import partial

import numpy.typing as npt
import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.measure.sequential import interquartile_mean
from placerl.harness.papers import relaxed_training
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.cells import NIGHT_TIER
from placerl.harness.papers.charts import Panels
from placerl.harness.papers.experiments import Experiment
from placerl.harness.papers.legs import SO_FAR
from placerl.harness.papers.number import Number, from_text
from placerl.harness.papers.relaxed_training import (
    NO_LOSS,
    Curve,
    Relaxation,
    RelaxedTask,
    Returns,
    above_limits,
    runs_of,
    scores_of,
    seeds_to_tell,
    shares,
)
from placerl.harness.papers.shares import Limits

VISIBLE_AT = "hopper-ddpg"
"""The only workload in which MAP sees a loss of reward with D = 200, batches that are sampled ahead."""
PUBLISHED = {"cartpole-ddpg", VISIBLE_AT, "pong-dqn"}
PRESAMPLED = Relaxation(
    Experiment("MAP-F10", "training with batches sampled ahead", f"final_return {SO_FAR}", Returns),
    "native-native-cpu",
    tuple(Curve(f"D={ahead}", {"presampled_batches": ahead}) for ahead in (0, 1, 10, 50, 200)),
    judged=("D=0", "D=50", "D=200"),
)


def limits(name: str) -> Limits:
    """Return the statements about a workload: 50 batches sampled ahead keep the reward, 200 do not on Hopper."""
    return tuple((curve, NO_LOSS) for curve in ("D=50", "D=200") if curve == "D=50" or name == VISIBLE_AT)


TASKS = {
    "quick": (RelaxedTask(PRESAMPLED, "cartpole-ddpg", 6_000, 1e-4),),
    "standard": (
        RelaxedTask(PRESAMPLED, "cartpole-ddpg", 60_000, 1e-4),
        RelaxedTask(PRESAMPLED, "hopper-ddpg", 8_000, 5e-3),
    ),
    NIGHT_TIER: tuple(
        RelaxedTask(PRESAMPLED, name, 1_000_000, step_s, limits(name))
        for name, step_s in (("cartpole-ddpg", 1e-4), (VISIBLE_AT, 5e-3))
    ),
    "full": (
        RelaxedTask(PRESAMPLED, "cartpole-ddpg", 1_000_000, 1e-4),
        RelaxedTask(PRESAMPLED, "hopper-ddpg", 1_000_000, 5e-3),
        RelaxedTask(PRESAMPLED, "pong-dqn", 1_000_000, 3e-2),
    ),
}
"""Workloads and lengths of the training runs, by tier."""


def _said(no_loss: bool | None) -> str:
    if no_loss is None:
        return f"undecided: a sequential test does not tell the share from {NO_LOSS:g}, the limit for no loss"
    return "no loss that shows" if no_loss else "a loss that shows"


def _seeds_said(name: str, most: npt.NDArray, strict: npt.NDArray) -> str:
    """Say how many seeds would tell D = 200 from D = 0."""
    needed = seeds_to_tell(most, strict)
    if needed is None:
        return f"{name}, D = 200: its {len(most)} seeds end exactly where those of D = 0 end."
    return (
        f"{name}, D = 200 could be told from D = 0 with {needed:,} seeds each, of which it has {len(most)}."
    )


def _outcome(holds: list[bool | None], trained: set[str]) -> Outcome:
    """Return the outcome of the curves; without Hopper's loss, only half of the statement is tested."""
    if False in holds:
        return Outcome.NOT_REPRODUCED
    if None in holds or VISIBLE_AT not in trained:
        return Outcome.NO_VERDICT
    return Outcome.REPRODUCED if trained >= PUBLISHED else Outcome.IN_KIND


class SamplingAheadCostsNoReward(Claim):
    """Checks MAP Fig. 10: 50 batches sampled ahead cost no reward; 200 do in Hopper."""

    key, place, position = "MAP-F10", "VII-B, Fig. 10", 8
    statement = "50 pre-sampled batches cost no reward; 200 visibly do on Hopper"
    published = from_text("MAP.presampled_batches_chosen", "MAP.presampled_batches_visible", "MAP.seeds")
    needs = "learning curves of 5 seeds for each number of pre-sampled batches (claim/MAP-F10)"
    measured_by = (partial(relaxed_training.cells, TASKS),)
    decides = "Hopper trained with D = 0, 50 and 200 and many seeds (`placerl reproduce --only MAP-F10 --tier night`)"

    def judge(self, frame: pd.DataFrame) -> Finding:
        workloads = runs_of(frame, PRESAMPLED)
        if not workloads:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        ours: list[Number] = []
        words: list[str] = []
        holds: list[bool | None] = []
        for name, runs in workloads.items():
            by_curve = shares(name, runs, "D=0")
            ours += [share for share in by_curve.values() if share]
            if not any(by_curve.values()):
                words.append(f"{name}: the strict loop itself gains too little to tell.")
            keeps = above_limits(runs, "D=0", limits(name))
            holds.append(keeps["D=50"])
            words.append(f"{name}, D = 50: {_said(holds[-1])}.")
            words.append(_seeds_said(name, scores_of(runs["D=200"]), scores_of(runs["D=0"])))
            if name == VISIBLE_AT:
                no_loss = keeps["D=200"]
                holds.append(None if no_loss is None else not no_loss)
                words.append(f"{name}, D = 200, whose loss MAP sees: {_said(no_loss)}.")
        if not ours:
            scores = {name: scores_of(runs["D=0"]) for name, runs in workloads.items()}
            ours = [
                Number(
                    f"{name}, D=0: final return",
                    float(interquartile_mean(returns)),
                    "1",
                    Provenance.MEASURED,
                    "strict loop",
                    rows=tuple(sorted(int(row.Index) for row in workloads[name]["D=0"].values())),
                )
                for name, returns in scores.items()
            ]
        if missing := sorted(PUBLISHED - set(workloads)):
            words.append(f"Not trained: {', '.join(missing)}.")
        return Finding(_outcome(holds, set(workloads)), tuple(ours), " ".join(words))

    def panels(self, frame: pd.DataFrame) -> Panels:
        return relaxed_training.panels(frame, PRESAMPLED)
