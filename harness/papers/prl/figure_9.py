"""What re-allocating actors costs in reward (PRL 3.3.1; 6.4, Fig. 9)."""

import pandas as pd

from harness.papers import relaxed_training
from harness.papers.base import Finding, Outcome
from harness.papers.cells import Tier
from harness.papers.relaxed_training import Curve, Experiment, Task, runs_of, shares
from harness.store.cell import Cell

NEEDS = (
    "returns over wall time to convergence beside RLlib's and SB3's, several seeds: claim/PRL-F9 trains without them, "
    "`placerl learn` gives returns by environment steps"
)
REALLOCATED = Experiment(
    "PRL-F9",
    "torch-native-cpu",
    (
        Curve("two actors", {"overlap": 16, "processes": 2}),
        Curve("re-allocated", {"overlap": 16, "processes": 2, "reallocate": True}),
    ),
    actors=2,
)
TASKS = {
    "standard": (
        Task(REALLOCATED, "cartpole-ddpg", 6_000, 3e-3),
        Task(REALLOCATED, "hopper-ddpg", 4_000, 1e-2),
    ),
    "full": (
        Task(REALLOCATED, "cartpole-ddpg", 20_000, 3e-3),
        Task(REALLOCATED, "hopper-ddpg", 1_000_000, 1e-2),
        Task(REALLOCATED, "pong-dqn", 1_000_000, 3e-2),
    ),
}
"""By tier. The quick tier leaves it out: starting the actors' processes takes longer than the runs."""


def cells(tier: Tier) -> list[Cell]:
    """A cell for each training run; none in the quick tier and in a tier without a name."""
    return relaxed_training.cells(TASKS.get(tier.name, ()))


def reallocated(frame: pd.DataFrame) -> Finding:
    """PRL Fig. 9: of its runtime, the reward with actors that train and act again (3.3.1) beside that without."""
    ours = tuple(
        share
        for name, runs in runs_of(frame, REALLOCATED).items()
        for share in shares(name, runs, REALLOCATED.curves[0].name).values()
        if share
    )
    return Finding(Outcome.NOT_RUN, ours, needs=NEEDS)
