"""Measures what re-allocating actors to training costs in reward (PRL 3.3.1; 6.4, Fig. 9)."""

from typing import TYPE_CHECKING

import pandas as pd

from harness.core.suites import Experiment
from harness.papers import charts, relaxed_training
from harness.papers.base import Finding, Outcome
from harness.papers.cells import TierLimits
from harness.papers.relaxed_training import Curve, Relaxation, RelaxedTask, runs_of, shares
from harness.store.cell import Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEEDS = (
    "returns over wall time to convergence beside RLlib's and SB3's, several seeds: claim/PRL-F9 trains without them, "
    "`placerl learn` gives returns by environment steps"
)
REALLOCATED = Relaxation(
    Experiment("PRL-F9", "training with actors that are re-allocated", "final_return"),
    "torch-native-cpu",
    (
        Curve("two actors", {"overlap": 16, "processes": 2}),
        Curve("re-allocated", {"overlap": 16, "processes": 2, "reallocate": True}),
    ),
    actors=2,
)
TASKS = {
    "standard": (
        RelaxedTask(REALLOCATED, "cartpole-ddpg", 6_000, 3e-3),
        RelaxedTask(REALLOCATED, "hopper-ddpg", 4_000, 1e-2),
    ),
    "full": (
        RelaxedTask(REALLOCATED, "cartpole-ddpg", 20_000, 3e-3),
        RelaxedTask(REALLOCATED, "hopper-ddpg", 1_000_000, 1e-2),
        RelaxedTask(REALLOCATED, "pong-dqn", 1_000_000, 3e-2),
    ),
}
"""Workloads and lengths of the training runs, by tier.

The quick tier has none: starting the actors' processes takes longer than the runs.
"""


def cells(tier: TierLimits) -> list[Cell]:
    """Return the cells (pieces of the plan) that train, one per training run; none in a tier without such trainings.

    Args:
        tier: the tier of the plan (`quick`, `standard` or `full`), which says how much a run measures.
    """
    return relaxed_training.cells(TASKS.get(tier.name, ()))


def reallocated(frame: pd.DataFrame) -> Finding:
    """Check PRL Fig. 9: actors that are re-allocated to training make convergence faster, at the same reward (3.3.1).

    The outcome is always "not run", because nothing measures convergence over time. The finding lists the share of
    the reward that is kept.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    ours = tuple(
        share
        for name, runs in runs_of(frame, REALLOCATED).items()
        for share in shares(name, runs, REALLOCATED.curves[0].name).values()
        if share
    )
    return Finding(Outcome.NOT_RUN, ours, needs=NEEDS)


def draw(frame: pd.DataFrame) -> "Figure | None":
    """Draw the mean return over environment steps, with and without re-allocation of actors to training (PRL Fig. 9).

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    return charts.chart(*relaxed_training.panels(frame, REALLOCATED))
