"""Times HalfCheetah's training steps on FIX's platform as a whole, in virtual time: host, PCIe, accelerator (FIX VI-C).

The host is this machine: environment steps and replay take the time that is measured here. A gradient step and an
action take the clock cycles of this project's accelerator (`primitives.fpga.fixar`), and a batch takes the time of the
link of the paper's board (`fixar21`). What the accelerator computes is left out, and its actions are random: no cycle
depends on it, and the host's caches stay as they are next to an accelerator. So nothing is learnt here (FIX-F7 trains).

The paper's 1.7 to 2.0 ms of PCIe a step are mostly its run-time library's, which is not modelled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import numpy as np
import pandas as pd
from typing_extensions import override

from placerl.harness import platforms, workloads
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.mapping import Mapping
from placerl.harness.measure.turns import Rounds, in_rounds
from placerl.harness.papers.cells import experiment_cells
from placerl.harness.papers.evidence import number, rows_of
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.fix.figure_10_array import BACKENDS, DEVICE, act_cycles, step_cycles
from placerl.harness.papers.fix.throughput import BATCH_SIZES, LEARNING_STARTS, WORKLOAD
from placerl.harness.papers.fix.training import training_of
from placerl.harness.papers.number import Number
from placerl.harness.profile import simulated
from placerl.harness.runtime.training import Training
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives.graph.executable import Array
from placerl.primitives.learner.aware_training import FixedPointLearner
from placerl.primitives.learner.base import StepOutcome
from placerl.primitives.learner.fpga import fpga_backend
from placerl.primitives.quantization import precision


@dataclass(frozen=True)
class PlatformSteps(Columns):
    """Columns of the rows: the platform, the cycles and seconds of a gradient step, and the steps of a round.

    The loop is strict, so that the rest of a step (the host, the link and an action) hardly depends on the clock.
    """

    platform: str
    cycles: int
    accelerator_s: float
    steps_a_round: int


RATE = "inferences_per_s"
EXPERIMENT = Experiment(
    "FIX-F8-platform",
    "training steps of host, link and accelerator in virtual time",
    f"{RATE} environment_time inference_time transfer_time",
    PlatformSteps,
)
PLATFORM = "fixar21"
MAPPING = Mapping.parse(f"{DEVICE}-native-cpu")
_ROUNDS = 15
_ROUND_S = 0.1
_FIRST_STEPS = 8


class OnAccelerator(FixedPointLearner):
    """A learner whose steps and actions only count the cycles of FIX's accelerator.

    Attributes:
        cycles: clock cycles so far.
        clock_hz: the clock frequency.
        step_cycles: of a gradient step. act_cycles: of an action.
    """

    def __init__(self, item: Workload, batch_size: int, bits: int) -> None:
        super().__init__(
            algorithm_of(item),
            precision.fixed_32(),
            backend="native",
            device="cpu",
            batch_size=batch_size,
            seed=0,
        )
        self.cycles, self.clock_hz = 0, 1e6 * simulated.clock(DEVICE).value
        self.step_cycles = step_cycles(batch_size, bits)
        self.act_cycles = act_cycles()
        self._actions = 0  # since the last gradient step, in whose call their cycles count

    @override
    def _step(self, batch: dict[str, Array], variant: str) -> StepOutcome:
        self.cycles += self.step_cycles + self._actions * self.act_cycles
        self._actions = 0
        return StepOutcome(np.zeros(self.batch_size, np.float32), {})

    @override
    def explore(self, observation: Array, environment_step: int, rng: np.random.Generator) -> Array:
        self._actions += len(observation)
        actions = rng.uniform(-1, 1, (len(observation), self.algorithm.action_size))
        return actions.astype(np.float32)

    @override
    def parameters(self) -> dict[str, Array]:
        return {}  # no weights go to the host


def measure(
    budget_s: float, report: Report, batch_sizes: Sequence[int] = BATCH_SIZES, rounds: int = _ROUNDS
) -> Sequence[Row]:
    """Time whole training steps of the platform, with both widths of the activations in interleaved rounds.

    Args:
        budget_s: seconds, shared by the batch sizes; no further round of a batch size begins after its share. The
            fewest rounds for an interval are always measured.

    Returns:
        Rows for each batch size and width: samples per second of the whole step, and seconds of the host's parts of a
        step: "environment", "inference" and "transfer" (replay and link).
    """
    if missing := fpga_backend.unavailable_reason():
        own = {"workload": WORKLOAD, "primitive": "training", "device": DEVICE, "quantity": RATE}
        return [EXPERIMENT.not_run(f"needs {missing}", **own)]
    rows: list[Row] = []
    for done, batch_size in enumerate(batch_sizes):
        report(done, len(batch_sizes), f"the platform's training steps, batch size {batch_size}")
        rows += _at(batch_size, Rounds(rounds, budget_s=budget_s / len(batch_sizes)))
    return rows


def _at(batch_size: int, rounds: Rounds) -> Sequence[Row]:
    item = workloads.load(WORKLOAD)
    item = workloads.override(item, "training.learning_starts", max(LEARNING_STARTS, batch_size), EXPERIMENT)
    platform = partial(platforms.load, PLATFORM)
    trainings: dict[int, Training] = {}
    try:
        steps = {}
        for bits in BACKENDS:
            learner = OnAccelerator(item, batch_size, bits)
            trainings[bits] = training_of(item, learner, 0, MAPPING, platform=platform)
            begin_s = perf_counter()
            trainings[bits].take(_FIRST_STEPS)
            steps[bits] = max(1, round(_ROUND_S / (perf_counter() - begin_s) * _FIRST_STEPS))
        times = in_rounds({bits: partial(_round, trainings[bits], steps[bits]) for bits in BACKENDS}, rounds)
        return [
            row
            for bits, training in trainings.items()
            for row in _rows(training, times[bits], bits, steps[bits])
        ]
    finally:
        for training in trainings.values():
            training.close()


def _round(training: Training, steps: int) -> dict[str, float]:
    """Return mean seconds of a step and of the host's parts of it."""
    took = training.advance(steps)
    terms_s = {name: seconds / steps for name, seconds in took.terms_s.items()}
    learner = _accelerator(training)
    act_s = learner.act_cycles / learner.clock_hz
    link_s = terms_s["learner"] - act_s - learner.step_cycles / learner.clock_hz
    return {
        "step": took.wall_s / steps,
        "environment": terms_s["environment"],
        "inference": terms_s["infer"] + act_s,
        "transfer": terms_s["sample"] + terms_s["gather"] + link_s,
    }


def _accelerator(training: Training) -> OnAccelerator:
    assert isinstance(training.learner, OnAccelerator)
    return training.learner


def _rows(training: Training, rounds: Sequence[dict[str, float]], bits: int, steps: int) -> Sequence[Row]:
    learner = _accelerator(training)
    batch_size = learner.batch_size
    columns = PlatformSteps(PLATFORM, learner.step_cycles, learner.step_cycles / learner.clock_hz, steps)
    samples = {RATE: [batch_size / one["step"] for one in rounds]}
    samples |= {f"{part}_time": [one[part] for one in rounds] for part in rounds[0] if part != "step"}
    return [
        replace(
            EXPERIMENT.summary(
                values,
                columns,
                workload=WORKLOAD,
                primitive="training",
                backend=BACKENDS[bits],
                device=DEVICE,
                batch_size=batch_size,
                quantity=quantity,
            ),
            provenance=training.provenance,
        )
        for quantity, values in samples.items()
    ]


def host_s(frame: pd.DataFrame, bits: int) -> dict[int, Number]:
    """Return the seconds of a step that are not of its gradient step, by batch size: host, link and an action."""
    found = {}
    for row in rows_of(frame, EXPERIMENT, RATE, backend=BACKENDS[bits]):
        size, whole = int(row.batch_size), number(row, f"host and link, batch size {row.batch_size}")
        value, low, high = (
            None if rate is None else size / rate - row.parameters.accelerator_s
            for rate in (whole.value, whole.high, whole.low)
        )
        found[size] = replace(whole, value=value or 0.0, low=low, high=high, unit="s")
    return found


cells = experiment_cells(EXPERIMENT, measure, ("standard", "full"))
"""The cell that times the platform's training steps."""
