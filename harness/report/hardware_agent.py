"""The learning curve of the agent in hardware, and how long it takes to learn, from its committed recording."""

import numpy as np

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.number import Number
from placerl.harness.report.rows.trainings import TrainingCurve
from placerl.harness.report.tables import LAST_EPISODES
from placerl.primitives.fpga.tools.learning_run import LearningRun, committed

BOARD_CLOCK_MHZ = 25
"""The clock of the ULX3S board, for which the agent has a top level."""


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


def time_to_learn() -> list[Number]:
    """Return the environment steps and clock cycles until the agent has solved the task, and the time on its board."""
    run = committed()
    until = "until the task is solved"
    return [
        Number(f"environment steps {until}", run.learned_step, "count", Provenance.SIMULATED),
        Number(f"clock cycles {until}", run.learned_cycles, "count", Provenance.SIMULATED),
        Number(
            f"time {until} at {BOARD_CLOCK_MHZ} MHz",
            run.learned_cycles / (BOARD_CLOCK_MHZ * 1e6),
            "s",
            Provenance.SIMULATED,
        ),
    ]
