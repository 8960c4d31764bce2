"""Trains HalfCheetah on FIX's platform as a whole, in virtual time: a host, PCIe and the accelerator (FIX VI-C).

The host is this machine: environment steps, actions and replay take the time that is measured here. A gradient step
takes the clock cycles of this project's accelerator (`primitives.fpga.fixar`), and its batch and the actors' weights
take the time of the link of the paper's board (`fixar21`). The numbers are those of the software's fixed-point
training, from which the accelerator's differ by a few units of their formats, as the tests check.

The paper's accelerator also chooses the actions, so that no weights go to its host; and its 1.7 to 2.0 ms of PCIe a
step are mostly its run-time library's, which is not modelled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

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
from placerl.harness.papers.fix.figure_10_array import BACKENDS, DEVICE, step_cycles
from placerl.harness.papers.fix.throughput import BATCH_SIZES, DELAY, LEARNING_STARTS, WORKLOAD
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
    """Columns of the rows: the platform, the accelerator's cycles and seconds of a step, and the steps of a round.

    The loop is strict, so that the rest of a step is the host's and the link's, whatever the accelerator's clock.
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
FORMATS = {32: precision.fixed_32(), 16: precision.dynamic(DELAY)}
"""The precision of a training, by the bits of its activations; that of 16 bits is timed after its delay."""
_ROUNDS = 15
_ROUND_S = 0.05
"""Seconds that a round takes here, which simulates the accelerator with the native learner."""


class OnAccelerator(FixedPointLearner):
    """The native fixed-point learner, each step of which counts the cycles of FIX's accelerator.

    Attributes:
        cycles: clock cycles so far.
        clock_hz: the clock frequency.
        step_cycles, step_s: cycles and seconds of a gradient step.
    """

    def __init__(self, item: Workload, batch_size: int, bits: int) -> None:
        super().__init__(
            algorithm_of(item), FORMATS[bits], backend="native", device="cpu", batch_size=batch_size, seed=0
        )
        self.cycles, self.clock_hz = 0, 1e6 * simulated.clock(DEVICE).value
        self.step_cycles = step_cycles(batch_size, bits)
        self.step_s = self.step_cycles / self.clock_hz

    @override
    def _step(self, batch: dict[str, Array], variant: str) -> StepOutcome:
        self.cycles += self.step_cycles
        return super()._step(batch, variant)


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
        for bits in FORMATS:
            learner = OnAccelerator(item, batch_size, bits)
            trainings[bits] = training_of(item, learner, 0, MAPPING, platform=platform)
            trainings[bits].take(DELAY + 2)
            begin_s = perf_counter()
            trainings[bits].take(1)
            steps[bits] = max(1, round(_ROUND_S / (perf_counter() - begin_s)))
        times = in_rounds({bits: partial(_round, trainings[bits], steps[bits]) for bits in FORMATS}, rounds)
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
    links_s = terms_s["learner"] - _accelerator(training).step_s + terms_s["publish"]
    return {
        "step": took.wall_s / steps,
        "environment": terms_s["environment"],
        "inference": terms_s["infer"],
        "transfer": terms_s["sample"] + terms_s["gather"] + links_s,
    }


def _accelerator(training: Training) -> OnAccelerator:
    assert isinstance(training.learner, OnAccelerator)
    return training.learner


def _rows(training: Training, rounds: Sequence[dict[str, float]], bits: int, steps: int) -> Sequence[Row]:
    learner = _accelerator(training)
    batch_size = learner.batch_size
    columns = PlatformSteps(PLATFORM, learner.step_cycles, learner.step_s, steps)
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
    """Return the seconds of a step that are not the accelerator's: the host's and the link's, by batch size."""
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
