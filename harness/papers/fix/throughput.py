"""Inferences a second of training in floats and in fixed point, over batch size (FIX VI-C, Fig. 8 to 10).

FIX counts the samples of a batch over the end-to-end time of a step (IPS): environment, transfer and gradient step.
Here the learner that stands where FIX has its accelerator is a core of this machine, and the transfer is the batch's
way out of the replay.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import NamedTuple

from harness import workloads
from harness.core.progress import Report
from harness.core.row import Measurement
from harness.measure.conditions import conditions
from harness.measure.rows import sampled
from harness.measure.turns import Rounds, in_rounds
from harness.papers.cells import Tier, claim_cell
from harness.papers.fix.training import DYNAMIC, FIXED_32, FLOAT, Trial, described, make_learner
from harness.store.cell import Cell
from harness.workloads import Workload
from primitives.quantization import precision
from primitives.quantization.precision import Precision

EXPERIMENT = "FIX-F8"
TIERS = ("quick", "standard", "full")
WORKLOAD = "halfcheetah-ddpg"
BATCH_SIZES = (64, 128, 256, 512)
TERMS = ("environment", "inference", "transfer", "learner")
NARROW = "16-bit products"
_DELAY = 4
_ROUNDS = 15
_ROUND_S = 0.05
_LEARNING_STARTS = 600

FORMATS: dict[str, Precision | None] = {
    FLOAT: None,
    FIXED_32: precision.fixed_32(),
    DYNAMIC: precision.dynamic(_DELAY),
    NARROW: Precision(activation_bits=16, weight_bits=12, error_bits=12, delay=_DELAY),
}
"""What is timed; those with a delay, after it. The last narrows every operand, so that 16-bit multipliers do all."""


@dataclass
class _Side:
    name: str
    trial: Trial
    round_steps: int


class _Step(NamedTuple):
    """Mean seconds of a step in one round: of the whole step, and of each of `TERMS`."""

    step_s: float
    terms_s: dict[str, float]


def measure(
    budget_s: float, report: Report, batch_sizes: Sequence[int] = BATCH_SIZES, rounds: int = _ROUNDS
) -> list[Measurement]:
    """Time whole training steps in interleaved rounds.

    Args:
        budget_s: begin no further round of a batch size after its share of this time, seconds; the fewest that an
            interval takes are always measured.
        report: called with the progress.
        batch_sizes: to measure.
        rounds: of each, at most.

    Returns:
        For each batch size and side: samples a second of the whole step, and seconds of each of `TERMS`.
    """
    rows = []
    for number, batch_size in enumerate(batch_sizes):
        report(number, len(batch_sizes), f"training steps, batch size {batch_size}")
        rows += _at(batch_size, budget_s / len(batch_sizes), rounds)
    return rows


def _at(batch_size: int, budget_s: float, rounds: int) -> list[Measurement]:
    item = workloads.load(WORKLOAD)
    item = workloads.override(item, "training.learning_starts", max(_LEARNING_STARTS, batch_size), EXPERIMENT)
    began_s = perf_counter()
    sides = [_side(item, name, formats, batch_size) for name, formats in FORMATS.items()]
    try:
        left_s = budget_s - (perf_counter() - began_s)
        steps = in_rounds(
            {side.name: partial(_round, side) for side in sides}, Rounds(rounds, budget_s=left_s)
        )
    finally:
        for side in sides:
            side.trial.close()
    return [row for side in sides for row in _rows(side, steps[side.name], batch_size)]


def _side(item: Workload, name: str, formats: Precision | None, batch_size: int) -> _Side:
    trial = Trial(item, make_learner(item, formats, batch_size, 0), 0)
    for _ in range(_DELAY + 2):
        trial.step()
    began_s = perf_counter()
    trial.step()
    steps = max(1, round(_ROUND_S / (perf_counter() - began_s)))
    return _Side(name, trial, steps)


def _terms(trial: Trial) -> dict[str, float]:
    return {
        "environment": trial.environment_s,
        "inference": trial.inference_s,
        "transfer": trial.sample_s,
        "learner": trial.learner_s,
    }


def _round(side: _Side) -> _Step:
    before, began_s = _terms(side.trial), perf_counter()
    for _ in range(side.round_steps):
        side.trial.step()
    step_s, after = (perf_counter() - began_s) / side.round_steps, _terms(side.trial)
    return _Step(step_s, {term: (after[term] - before[term]) / side.round_steps for term in TERMS})


def _rows(side: _Side, steps: Sequence[_Step], batch_size: int) -> list[Measurement]:
    def row(quantity: str, samples: Sequence[float]) -> Measurement:
        return sampled(
            samples,
            suite="claim",
            workload=WORKLOAD,
            primitive="training",
            backend=side.name,
            device="cpu",
            batch_size=batch_size,
            quantity=quantity,
            details={
                "experiment": EXPERIMENT,
                "formats": described(FORMATS[side.name]),
                "steps_a_round": side.round_steps,
                "conditions": conditions(),
            },
        )

    return [
        row("inferences_per_s", [batch_size / step.step_s for step in steps]),
        row("learner_inferences_per_s", [batch_size / step.terms_s["learner"] for step in steps]),
        *(row(f"{term}_time", [step.terms_s[term] for step in steps]) for term in TERMS),
    ]


def cells(tier: Tier) -> list[Cell]:
    """One cell; none in a tier without a name."""
    if tier.name not in TIERS:
        return []
    return [claim_cell(EXPERIMENT, tier.experiment_s, partial(measure, tier.experiment_s))]
