"""Measures inferences per second of training in floats and in fixed point over the batch size (FIX VI-C, Fig. 8 to 10).

FIX counts the samples of a batch per end-to-end time of a step (IPS): environment, transfer and gradient step.
Here the learner runs on a core of this machine in place of FIX's accelerator, and the transfer is reading the
batch from the replay.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from placerl.harness import workloads
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.measure.turns import Rounds, in_rounds
from placerl.harness.papers.cells import GPU_TIER, experiment_cells
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.fix.training import DYNAMIC, FIXED_32, FLOAT, described, make_learner, training_of
from placerl.harness.runtime.training import Training
from placerl.harness.workloads import Workload
from placerl.primitives.quantization import precision
from placerl.primitives.quantization.precision import Precision


@dataclass(frozen=True)
class TimedSteps(Columns):
    """Columns of the rows: the number formats (`training.described`), and the steps of a round."""

    formats: dict[str, Any]
    steps_a_round: int


EXPERIMENT = Experiment(
    "FIX-F8",
    "training steps over the batch size",
    "inferences_per_s learner_inferences_per_s environment_time inference_time transfer_time learner_time",
    TimedSteps,
)
TIERS = ("quick", "standard", "full", GPU_TIER)
WORKLOAD = "halfcheetah-ddpg"
BATCH_SIZES = (64, 128, 256, 512)
TERMS = {
    "environment": ("environment",),
    "inference": ("infer",),
    "transfer": ("sample", "gather"),
    "learner": ("learner",),
}
"""The parts of a step whose times are stored, each with the names that the training loop gives to them."""
NARROW = "16-bit products"
_DELAY = 4
_ROUNDS = 15
_ROUND_S = 0.05
LEARNING_STARTS = 600

FORMATS: dict[str, Precision | None] = {
    FLOAT: None,
    FIXED_32: precision.fixed_32(),
    DYNAMIC: precision.dynamic(_DELAY),
    NARROW: Precision(activation_bits=16, weight_bits=12, error_bits=12, delay=_DELAY),
}
"""The timed precisions by name; None is float32.

Those that change after a delay are timed after it. The last one narrows every operand, so that all products use
16-bit multipliers.
"""


@dataclass
class _Side:
    name: str
    training: Training
    round_steps: int


class _Step(NamedTuple):
    """Mean seconds of a step in one round: of the whole step, and of each of `TERMS`."""

    step_s: float
    terms_s: dict[str, float]


def measure(
    budget_s: float, report: Report, batch_sizes: Sequence[int] = BATCH_SIZES, rounds: int = _ROUNDS
) -> Sequence[Row]:
    """Time whole training steps in several precisions, in interleaved rounds.

    The precisions are those of `FORMATS`, such as 32-bit fixed point. A round times every precision once.

    Args:
        budget_s: seconds, shared by the batch sizes; no further round of a batch size begins after its share. The
            fewest rounds for an interval are always measured.

    Returns:
        Rows for each batch size and precision: samples per second of the whole step and of the gradient step alone,
        and seconds of each part of a step ("environment", "inference", "transfer" and "learner").
    """
    rows: list[Row] = []
    for number, batch_size in enumerate(batch_sizes):
        report(number, len(batch_sizes), f"training steps, batch size {batch_size}")
        rows += _at(batch_size, budget_s / len(batch_sizes), rounds)
    return rows


def _at(batch_size: int, budget_s: float, rounds: int) -> Sequence[Row]:
    item = workloads.load(WORKLOAD)
    item = workloads.override(item, "training.learning_starts", max(LEARNING_STARTS, batch_size), EXPERIMENT)
    began_s = perf_counter()
    sides = [_side(item, name, formats, batch_size) for name, formats in FORMATS.items()]
    try:
        left_s = budget_s - (perf_counter() - began_s)
        steps = in_rounds(
            {side.name: partial(_round, side) for side in sides}, Rounds(rounds, budget_s=left_s)
        )
    finally:
        for side in sides:
            side.training.close()
    return [row for side in sides for row in _rows(side, steps[side.name], batch_size)]


def _side(item: Workload, name: str, formats: Precision | None, batch_size: int) -> _Side:
    training = training_of(item, make_learner(item, formats, batch_size, 0), 0)
    training.take(_DELAY + 2)
    steps = max(1, round(_ROUND_S / training.advance(1).wall_s))
    return _Side(name, training, steps)


def _round(side: _Side) -> _Step:
    steps = side.round_steps
    took = side.training.advance(steps)
    terms_s = {term: sum(took.terms_s[part] for part in parts) / steps for term, parts in TERMS.items()}
    return _Step(took.wall_s / steps, terms_s)


def _rows(side: _Side, steps: Sequence[_Step], batch_size: int) -> Sequence[Row]:
    def row(quantity: str, samples: Sequence[float]) -> Row:
        return EXPERIMENT.summary(
            samples,
            TimedSteps(described(FORMATS[side.name]), side.round_steps),
            workload=WORKLOAD,
            primitive="training",
            backend=side.name,
            device="cpu",
            batch_size=batch_size,
            quantity=quantity,
        )

    return [
        row("inferences_per_s", [batch_size / step.step_s for step in steps]),
        row("learner_inferences_per_s", [batch_size / step.terms_s["learner"] for step in steps]),
        *(row(f"{term}_time", [step.terms_s[term] for step in steps]) for term in TERMS),
    ]


cells = experiment_cells(EXPERIMENT, measure, TIERS)
"""The cell that times training steps; none in a tier that a command made itself."""
