"""Counts the updates after which PPO's policy stops in the first iterations of a training (PPO 5.3.4, Fig. 15).

As in Spinning Up, which the paper takes, the policy stops for the rest of an iteration once the KL divergence exceeds
its bound; the value network trains for all epochs. The trainings run on this machine, and their counts stay with it:
another processor rounds differently, and the first sum that differs may move the update at which the bound is exceeded.
The cycles of an update are those of this project's float32 accelerator by its closed form, which its tests compare with
the RTL: of each network on a unit of its own, and on both units with half of a mini-batch each.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise

from placerl.harness import workloads
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.loop.schedule import Environments, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.papers.cells import TierLimits, claim_cell
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.ppo.figures_12_15_cycles import SPINNING_UP, TIERS
from placerl.harness.papers.ppo.table_2_iterations import BENCHMARKS, sized
from placerl.harness.papers.ppo.virtual_iterations import ROBOTS, accelerator
from placerl.harness.runtime.on_policy import OnPolicyTraining
from placerl.harness.runtime.resolve import resolve
from placerl.harness.store.cell import Cell
from placerl.primitives.fpga.cycles.ppo_steps import DesignSteps
from placerl.primitives.fpga.gemm.plan import blocks


@dataclass(frozen=True)
class StopColumns(Columns):
    """Columns of a training.

    Attributes:
        benchmark, iteration, seed: what is trained: the robot, the fields of `PpoIteration`, and the training's seed.
        policy_updates: updates of the policy in each iteration; the value network takes `PpoIteration.updates`.
        update_cycles, shared_cycles: cycles of an update of the policy and of the value network, on one unit and on
            both.
    """

    benchmark: str
    iteration: dict[str, int]
    seed: int
    policy_updates: list[int]
    update_cycles: list[int]
    shared_cycles: list[int]


COUNT = "policy_updates"
EXPERIMENT = Experiment("PPO-F15-stops", "updates until PPO's policy stops", COUNT, StopColumns)
ITERATIONS = 6  # PPO 5.3.4
SEEDS = (0, 1, 2)
MAPPING = "native-native-cpu"
SECONDS = {"Hopper": 30.0, "Humanoid": 90.0}
"""Approximate seconds of a benchmark's trainings."""


def update_cycles(benchmark: str, minibatch: int) -> list[int]:
    """Return the cycles of an update of the policy and of the value network, each alone on the accelerator."""
    design = accelerator(benchmark).cycles
    assert isinstance(design, DesignSteps)
    alone = [replace(design, programs=(program,)) for program in design.programs]
    return [one.forward_cycles(minibatch) + one.training_cycles(minibatch) for one in alone]


def policy_updates(benchmark: str, seed: int, report: Report) -> list[int]:
    """Return the updates of the policy in each of the first iterations of a training with early stopping."""
    item = sized(workloads.load(BENCHMARKS[benchmark]), SPINNING_UP, early_stopping=True)
    # In one process, whose training is the same for any number of cores.
    schedule = Schedule(threads=1, processes=0, environments=Environments.GYMNASIUM)
    training = OnPolicyTraining(resolve(schedule, item, Mapping.parse(MAPPING)), seed=seed)
    counts = [0]
    try:
        for number in range(ITERATIONS):
            report(number, ITERATIONS, f"{benchmark}, seed {seed}: iterations until the policy stops")
            training.advance(1) if number else training.warm_up()
            counts.append(training.policy_steps)
    finally:
        training.close()
    return [after - before for before, after in pairwise(counts)]


def measured(benchmark: str, report: Report) -> Sequence[Row]:
    """Train PPO for some iterations with each seed, and return a row for each: the mean updates of the policy."""
    size = SPINNING_UP.minibatch
    cycles, shared = update_cycles(benchmark, size), update_cycles(benchmark, blocks(size, 2))
    rows = []
    for seed in SEEDS:
        counts = policy_updates(benchmark, seed, report)
        columns = StopColumns(benchmark, asdict(SPINNING_UP), seed, counts, cycles, shared)
        row = EXPERIMENT.row(
            columns,
            workload=BENCHMARKS[benchmark],
            primitive="training",
            backend=MAPPING,
            device="cpu",
            batch_size=size,
            quantity=COUNT,
            provenance=Provenance.MEASURED,
            value=sum(counts) / len(counts),
        )
        rows.append(row)
    return rows


def cells(tier: TierLimits) -> list[Cell]:
    """Return the cells (pieces of the plan) that train PPO until its policy stops; none in the quick tier."""
    if tier.name not in TIERS:
        return []
    return [
        claim_cell(f"{EXPERIMENT}/{name.lower()}", SECONDS[name], partial(measured, name)) for name in ROBOTS
    ]
