"""Times FIX's training steps in floats on a device, whole and alone, with the device's watts (FIX VI-C, Fig. 8 and 10).

FIX compares its accelerator with a GPU that does the same steps: the platform with an environment step and a gradient
step, and the accelerator with the gradient step alone. Here PyTorch's learner takes them on a device of this machine:
as fast as it can, with CUDA graphs, and eagerly, operation by operation. FIX names no library for its GPU, and CUDA
graphs came to PyTorch in its year, so that claims judge by eager steps what is said "as in the paper".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np
import pandas as pd
import torch

from placerl.harness import workloads
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import Mapping
from placerl.harness.measure.turns import Rounds, in_rounds
from placerl.harness.papers.cells import GPU_TIER, TierLimits, claim_cell
from placerl.harness.papers.evidence import number, rows_of
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.fix.throughput import BATCH_SIZES, LEARNING_STARTS, WORKLOAD
from placerl.harness.papers.fix.training import training_of
from placerl.harness.papers.number import Number
from placerl.harness.papers.papers_own import PapersOwn
from placerl.harness.platforms.energy import meter_of
from placerl.harness.runtime.training import Training
from placerl.harness.store.cell import Cell
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives import learner


@dataclass(frozen=True)
class DeviceSteps(Columns):
    """Columns of the rows: the steps of a round, and of an efficiency the watts of each round and their counters."""

    steps_a_round: int
    watts: list[float] | None = None
    counters: list[str] | None = None


EXPERIMENT = Experiment(
    "FIX-F8-device",
    "float training steps on a device",
    "inferences_per_s learner_inferences_per_s inferences_per_s_per_watt",
    DeviceSteps,
)
WHOLE, ALONE, EFFICIENCY = "inferences_per_s", "learner_inferences_per_s", "inferences_per_s_per_watt"
GPU, EAGER = "cuda", "eager"
CELL_S = 8.0
WHOLE_ROUND_S = 0.05
ALONE_ROUND_S = 0.5
"""Long compared with the tenths of a second after which a device's energy counter is renewed."""
_ROUNDS = 15
_FIRST_STEPS = 4


def measure(
    device: str,
    batch_size: int,
    budget_s: float,
    report: Report,
    *,
    mode: str | None = None,
    rounds: int = _ROUNDS,
    alone_round_s: float = ALONE_ROUND_S,
) -> Sequence[Row]:
    """Time whole training steps and gradient steps alone on a device, in interleaved rounds.

    Args:
        device: PyTorch's device, such as "cuda".
        budget_s: no further round begins after this time; the fewest for an interval always run.
        mode: of PyTorch's learner, such as `EAGER`; None: its fastest.
        alone_round_s: length of a round of gradient steps alone, over which the device's energy is read.

    Returns:
        Samples per second of whole steps and of gradient steps alone, and the latter per watt of the device. That is
        not run if the device has no counter that can be read.
    """
    report(0.0, 1.0, f"steps on {device}, batch size {batch_size}")
    begin_s = perf_counter()
    training = _training(device, batch_size, mode)
    try:
        batch = training.replay.sample(batch_size, np.random.default_rng(0)).batch
        step = partial(training.learner.step, batch)
        for _ in range(_FIRST_STEPS):
            step()
        whole_steps = max(1, round(WHOLE_ROUND_S / training.advance(_FIRST_STEPS).wall_s * _FIRST_STEPS))
        alone_steps = max(1, round(alone_round_s / _seconds(step, _FIRST_STEPS) * _FIRST_STEPS))
        meter = meter_of([device], simulated=False, processor=device == "cpu")

        def alone() -> tuple[float, float | None]:
            meter.begin()
            seconds = _seconds(step, alone_steps)
            return seconds, meter.spent_j()

        times = in_rounds(
            {WHOLE: lambda: (training.advance(whole_steps).wall_s, None), ALONE: alone},
            Rounds(rounds, budget_s=budget_s - (perf_counter() - begin_s)),
        )
    finally:
        training.close()
    backend = f"torch, {mode}" if mode else "torch"
    fields = {"workload": WORKLOAD, "backend": backend, "device": device, "batch_size": batch_size}
    rows: list[Row] = []
    for quantity, primitive, steps in (
        (WHOLE, "training", whole_steps),
        (ALONE, "learner.step", alone_steps),
    ):
        samples = [steps * batch_size / seconds for seconds, _ in times[quantity]]
        rows.append(
            EXPERIMENT.summary(samples, DeviceSteps(steps), primitive=primitive, quantity=quantity, **fields)
        )
    fields |= {"primitive": "learner.step", "quantity": EFFICIENCY}
    read = [(seconds, joules) for seconds, joules in times[ALONE] if joules]
    if not read:
        reason = meter.reason or "rounds longer than the steps of its counters"
        return [
            *rows,
            EXPERIMENT.not_run(f"not run: needs watts: {reason}", DeviceSteps(alone_steps), **fields),
        ]
    columns = DeviceSteps(
        alone_steps,
        [joules / seconds for seconds, joules in read],
        [counter.name for counter in meter.counters],
    )
    per_joule = [alone_steps * batch_size / joules for _, joules in read]
    return [*rows, EXPERIMENT.summary(per_joule, columns, **fields)]


def _training(device: str, batch_size: int, mode: str | None) -> Training:
    item = workloads.load(WORKLOAD)
    item = workloads.override(item, "training.learning_starts", max(LEARNING_STARTS, batch_size), EXPERIMENT)
    backend = "torch" if device == "cpu" else f"torch:{device}"
    trainee = learner.create(
        algorithm_of(item), backend="torch", device=device, batch_size=batch_size, seed=0, mode=mode
    )
    return training_of(item, trainee, 0, Mapping.parse(f"{backend}-native-cpu"))


def _seconds(step: Callable[[], object], steps: int) -> float:
    """Return the seconds of some gradient steps; each ends when its TD errors are on the host."""
    begin_s = perf_counter()
    for _ in range(steps):
        step()
    return perf_counter() - begin_s


def every_on_gpu(frame: pd.DataFrame, quantity: str, words: str) -> dict[int, dict[str, Number]]:
    """Return the rates of the float steps on a CUDA device, ascending, by batch size and then by backend."""
    rates: dict[int, dict[str, Number]] = {}
    for row in sorted(rows_of(frame, EXPERIMENT, quantity), key=lambda row: (row.batch_size, row.value)):
        if row.device.startswith(GPU):
            size = int(row.batch_size)
            rates.setdefault(size, {})[row.backend] = number(row, f"GPU, batch size {size}: {words}")
    return rates


def on_gpu(frame: pd.DataFrame, quantity: str, words: str) -> dict[int, Number]:
    """Return the highest rate of the float steps on a CUDA device, by ascending batch size."""
    return {size: [*some.values()][-1] for size, some in every_on_gpu(frame, quantity, words).items()}


def cells(tier: TierLimits) -> list[Cell]:
    """Return the cells (pieces of the plan) that time the steps on a CUDA device, two a batch size.

    They are of the tier `GPU_TIER`, and of the standard and the full tier on a machine with such a device.
    """
    if tier.name != GPU_TIER and not (tier.name in ("standard", "full") and torch.cuda.is_available()):
        return []
    return [
        claim_cell(f"FIX-F8/{GPU}/{size}{end}", CELL_S + 2, partial(measure, GPU, size, CELL_S, mode=mode))
        for mode, end in ((None, ""), (EAGER, f"/{EAGER}"))
        for size in BATCH_SIZES
    ]


def _eager(frame: pd.DataFrame) -> pd.DataFrame:
    mine = (frame["suite"] == Suite.CLAIM) & (frame["experiment"] == EXPERIMENT)
    return frame[~(mine & (frame["backend"] != f"torch, {EAGER}"))]


FLOATS_OF_THE_PAPER = PapersOwn("on the GPU PyTorch's eager steps, operation by operation", _eager)
"""What FIX compares its accelerator with (VI-C)."""
