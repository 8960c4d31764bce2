"""The plan of `placerl gpu-claims`: what only a CUDA device decides, in the order of what is worth most.

A GPU may be at hand for minutes alone. Every cell is small and is stored as soon as it ends, and a cell that any run of
this plan holds, of whichever machine and card, is not measured again (`harness.plan.within`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from placerl.harness import papers, workloads
from placerl.harness.compare.equal_steps import StepExtent
from placerl.harness.compare.registry import RLLIB, is_built
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.assignments import CUDA
from placerl.harness.papers.cells import GPU_TIER
from placerl.harness.plan import cell_kinds
from placerl.harness.plan.tiers import Tier
from placerl.harness.profile import measured, resident_steps
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run
from placerl.harness.validate import on_device
from placerl.harness.workloads import Workload

PRIMITIVES = (
    ("hopper-ddpg", 32), ("hopper-ddpg", 2048), ("hopper-ddpg", 16384), ("hopper-ddpg", 256),
    ("cartpole-dqn", 32), ("cartpole-dqn", 16384), ("pong-dqn", 8), ("pong-dqn", 32), ("pong-dqn", 64),
    ("cartpole-ddpg", 32), ("cartpole-ddpg", 16384), ("mountaincar-ddpg", 32), ("mountaincar-ddpg", 16384),
    ("hopper-ddpg", 512), ("cartpole-dqn", 512), ("cartpole-dqn", 2048), ("cartpole-ddpg", 512),
    ("cartpole-ddpg", 2048), ("mountaincar-ddpg", 512), ("mountaincar-ddpg", 2048),
)  # fmt: skip
"""Workloads and batch sizes whose learner and replay are timed.

First come the sizes without which a claim is not judged: MAP-F11 and F13-hidden of Hopper, PRL-F6 and F7 of
CartPole's DQN, MAP-F11-Pong below and above its crossover.
"""
TRAINED = tuple((name, size) for size in (32, 2048, 512, 16384) for name in ("hopper-ddpg", "cartpole-dqn"))
"""Workloads and batch sizes that are trained under the mappings with a part on the device."""
COMPARED = ("cartpole-dqn", "mountaincar-ddpg", "pong-dqn")
"""PRL's benchmarks, on which other libraries are run with their networks on the device."""
ON_DEVICE = Mapping.parse("torch:cuda-native-cpu")
LIBRARIES = ("sb3", *RLLIB)
"""Libraries whose worker can put its networks on a CUDA device."""
CLAIMS = (
    "resident",
    "claim/MAP-A2",
    "claim/MAP-F12-trees",
    "trained",
    "claim/PPO-T2/*/cuda",
    "claim/PPO-T2/*",
    "claim/FIX-F8*",
    "compare",
    "claim/*",
)
"""The order of what follows the primitives: cells of claims, by their keys, and this file's own groups."""
TRAINED_S = 20.0
RESIDENT_S = 8.0
SET_UP_S = 3.0  # of a cell with one process, beside its budget

GPU = Tier(
    GPU_TIER,
    tuple(dict.fromkeys(name for name, _ in PRIMITIVES)),
    (32, 512, 2048, 16384),
    profile_s=6,
    experiment_s=10,
    run_s=0,
    compare_s=8,
    seeds=0,
    returns=StepExtent(3_000, seeds=3, budget_s=8),  # a gain counts only where returns were compared
    baselines=LIBRARIES,
)
"""The tier of this plan's runs, which is none of `TIERS`: it measures nothing without a CUDA device."""


def primitives_cell(item: Workload, batch_size: int) -> Cell:
    """Return the cell (a unit of work of a run) that times a workload's learner and replay on every backend.

    Its rows are those of `cell_kinds.profile_cell` without the pieces of the training loop.
    """

    def measure(run: Run, report: Report) -> Sequence[Row]:
        return measured.profile(item, batch_size, GPU.profile_s, report, pieces=False)

    return Cell(f"profile/{item.name}/{batch_size}/primitives", GPU.profile_s + SET_UP_S, measure, item.name)


def cells() -> list[Cell]:
    """Return the plan: the cells (units of work of a run) in order, each of at most some 20 s.

    The cells of claims are those that the papers return for the tier `GPU_TIER`, and not for a tier of any name: the
    latter need no device.
    """
    of_any_tier = {cell.key for cell in papers.cells(replace(GPU, name="any"))}
    of_claims = [cell for cell in papers.cells(GPU) if cell.key not in of_any_tier]
    groups = {"resident": list(_resident()), "trained": list(_trained()), "compare": list(_compared())}
    ordered = [primitives_cell(workloads.load(name), size) for name, size in PRIMITIVES]
    for pattern in CLAIMS:
        ordered += groups.get(pattern) or [c for c in of_claims if fnmatchcase(c.key, pattern)]
    return list({cell.key: cell for cell in ordered}.values())


def libraries_left_out() -> list[str]:
    """Return the libraries that are not compared here, because their environments are not built."""
    return [name for name in LIBRARIES if not is_built(name)]


def _resident() -> Iterator[Cell]:
    for name, size in resident_steps.TIMED:
        item = workloads.load(name)

        def measure(run: Run, report: Report, item: Workload = item, size: int = size) -> Sequence[Row]:
            return resident_steps.profile(item, size, CUDA, RESIDENT_S, report)

        yield Cell(f"{Suite.BENCH_GPU}/{name}/{size}/{CUDA}", RESIDENT_S + SET_UP_S, measure, name)


def _trained() -> Iterator[Cell]:
    for name, size in TRAINED:
        item = workloads.with_batch_size(workloads.load(name), size, "the plan")
        yield on_device.cell(item, size, TRAINED_S, CUDA)


def _compared() -> Iterator[Cell]:
    built = [name for name in LIBRARIES if is_built(name)]
    for workload in map(workloads.load, COMPARED):
        for name in built:
            if name in GPU.compared_with(workload.algorithm.name):
                cell = cell_kinds.compare_cell(workload, name, GPU, mapping=ON_DEVICE)
                yield replace(cell, estimate_s=cell.estimate_s + 2 * SET_UP_S)
