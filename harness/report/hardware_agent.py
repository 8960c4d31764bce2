"""The learning curve of the agent in hardware, from its committed recording."""

import numpy as np

from harness.core.provenance import Provenance
from harness.papers.number import Number
from harness.report.rows.trainings import TrainingCurve
from harness.report.tables import LAST_EPISODES
from primitives.fpga.tools.learning_run import LearningRun, committed


def hardware_agent() -> tuple[LearningRun, TrainingCurve]:
    """Return the committed learning run of the CartPole agent, and its curve."""
    run = committed()
    last = float(np.mean(run.returns[-LAST_EPISODES:]))
    number = Number(f"mean return of the last {LAST_EPISODES} episodes", last, "1", Provenance.SIMULATED)
    returns = tuple(float(value) for value in run.returns)
    curve = TrainingCurve(
        "CartPole agent in hardware",
        "RTL's golden model, simulated",
        run.seed,
        tuple(run.steps),
        returns,
        number,
    )
    return run, curve
