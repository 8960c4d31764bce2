"""Measures PPO's iterations, on this machine and on the simulated accelerator (PPO Table 2, Fig. 10 and 11).

An iteration collects N x T samples and trains on mini-batches of M of them for K epochs. Whole iterations of training
are timed, with the seconds of their parts, without early stopping, on every core that this process may use. For the
accelerator, the RTL's cycles are counted: the float32 products of inferences and updates in the dataflows with the
fewest cycles (PPO 4, 5.1), in the blocked layout. Neither includes transfers, which `virtual_iterations` adds. The
claims combine both.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from placerl.harness import workloads
from placerl.harness.core.progress import Report, part, silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.loop.schedule import Environments, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.measure.turns import Rounds, in_rounds
from placerl.harness.papers import published
from placerl.harness.papers.cells import GPU_TIER, TierLimits, claim_cell
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.ppo.figures_12_15_cycles import CORES, FLOAT32
from placerl.harness.papers.ppo.published_clocks import published_clock_mhz
from placerl.harness.runtime.on_policy import OnPolicyTraining
from placerl.harness.runtime.resolve import resolve
from placerl.harness.store.cell import Cell
from placerl.harness.workloads import Workload
from placerl.primitives.fpga.cycles import gemm, networks, ppo, timed_block
from placerl.primitives.fpga.cycles.ppo import PpoIteration
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape

if TYPE_CHECKING:
    from placerl.primitives.fpga.cycles.simulated_products import SimulatedProducts


@dataclass(frozen=True)
class IterationColumns(Columns):
    """Columns of an iteration's rows.

    Attributes:
        iteration: its sizes, the fields of `PpoIteration`.
        threads, processes: of the learner, and of the environments.
        terms_s: seconds of its parts, one value per iteration that was run.
        side, clock_mhz, cycles, equation_5_cycles: of the accelerator: P, its clock, and cycles by part.
        core: whose cycles they are; rows of earlier versions without it are of a core of integers.
        transfers, design_mhz: in virtual time, the transfers of an iteration, and the clock of its cycles.
    """

    benchmark: str
    iteration: dict[str, int]
    threads: int | None = None
    processes: int | None = None
    terms_s: dict[str, list[float]] | None = None
    side: int | None = None
    clock_mhz: float | None = None
    cycles: dict[str, int] | None = None
    equation_5_cycles: dict[str, int] | None = None
    core: str | None = None
    transfers: float | None = None
    design_mhz: float | None = None


EXPERIMENT = Experiment(
    "PPO-T2", "PPO's iterations", "time_per_iteration cycles_per_iteration", IterationColumns
)
TIME, CYCLES = "time_per_iteration", "cycles_per_iteration"
BENCHMARKS = {"Hopper": "hopper-ppo", "Humanoid": "humanoid-ppo", "Pong": "pong-ppo"}
"""The workload of each benchmark of PPO Table 2."""
LEARNERS = {"Hopper": "native", "Humanoid": "native", "Pong": "torch"}
"""The fastest of this project's learners on a CPU, by benchmark (`placerl bench learner`)."""
DEVICES = {"cpu": "{}-native-cpu", "cuda": "torch:cuda-native-cpu"}
SIDES = {"Hopper": 16, "Humanoid": 16, "Pong": 32}  # PPO 5.2
TIERS = {"quick": ("N", 7.0), "standard": ("MN", 60.0), "full": ("MNT", 600.0), GPU_TIER: ("M", 12.0)}
"""By tier: which of M, N and T is varied, and approximate seconds per benchmark to time it.

The quick tier has only Hopper's shortest iterations.
"""
COUNT_S = 1.0  # of counting the cycles of a benchmark's iterations


def table_columns(benchmark: str, library: str) -> dict[str, PpoIteration]:
    """Return the iteration of PPO that each column of PPO Table 2 stands for."""
    by_column = {}
    for cell in published.table("ppo_table_2").cells:
        if cell.row == f"{benchmark}, {library}, CPU":
            names, values = (part.split(", ") for part in re.findall(r"\[(.*?)\]", cell.note))
            size = dict(zip(names, map(int, values), strict=True))
            letter, _, value = cell.column.partition("=")
            size[letter] = int(value)
            by_column[cell.column] = PpoIteration(size["N"], size["T"], size["M"], size["K"])
    return by_column


def iterations(benchmark: str, varied: str) -> list[PpoIteration]:
    """Return the iterations of PPO that some columns of PPO Table 2 stand for, of both libraries, each once.

    Args:
        varied: which columns: "M", "N", "T" or several of these letters, each the size that varies.
    """
    columns = [
        item for library in ("Spinning Up", "Baselines") for item in table_columns(benchmark, library).items()
    ]
    return list(dict.fromkeys(iteration for name, iteration in columns if name[0] in varied))


def sized(item: Workload, iteration: PpoIteration, *, early_stopping: bool = False) -> Workload:
    """Return a PPO workload with the sizes of an iteration.

    Args:
        early_stopping: whether the policy stops as the workload says; otherwise every epoch trains both networks.
    """
    tables = item.tables()
    tables["algorithm"] |= {"trajectory_length": iteration.steps, "epochs": iteration.epochs}
    if not early_stopping:
        tables["algorithm"].pop("target_kl", None)
    tables["replay"]["capacity"] = iteration.samples
    tables["training"] |= {
        "actors": iteration.agents,
        "batch_size": iteration.minibatch,
        "batch_sizes": [iteration.minibatch],
        "learning_starts": iteration.samples,
        "update_interval": max(1, iteration.minibatch // iteration.epochs),
    }
    return workloads.from_tables(tables, EXPERIMENT)


def cores_used(iteration: PpoIteration) -> dict[str, Any]:
    """Return with how many threads and processes an iteration is timed on this machine.

    Args:
        iteration: the iteration; no more processes are used than it has agents.

    Returns:
        "threads", those of the learner, and "processes", those that step the environments in parallel; 0 processes
        mean that this process steps them.
    """
    cores = len(usable_cores())
    return {"threads": cores, "processes": min(cores, iteration.agents) if cores > 1 else 0}


def timed(
    benchmark: str, device: str, wanted: Sequence[PpoIteration], budget_s: float, report: Report
) -> Sequence[Row]:
    """Time iterations of PPO's training on a device of this machine, all in the same interleaved rounds.

    Returns:
        One row per iteration: its seconds, with the seconds of each part in columns.
    """
    item, mapping = workloads.load(BENCHMARKS[benchmark]), DEVICES[device].format(LEARNERS[benchmark])
    used = {iteration: cores_used(iteration) for iteration in wanted}
    what = f"{benchmark} on {device}"
    with ExitStack() as stack:
        trainings = {}
        for iteration in wanted:
            cores = used[iteration]
            schedule = Schedule(**cores, environments=Environments.GYMNASIUM)
            resolved = resolve(schedule, sized(item, iteration), Mapping.parse(mapping))
            trainings[iteration] = OnPolicyTraining(resolved)
            stack.callback(trainings[iteration].close)
        begin_s = perf_counter()
        for training in trainings.values():
            report(0.0, 1.0, f"{what}: warm-up")
            training.warm_up()
        rounds = in_rounds(
            {iteration: partial(training.advance, 1) for iteration, training in trainings.items()},
            Rounds(budget_s=budget_s - (perf_counter() - begin_s)),
            report=part(report, 0.0, 1.0, 1.0, what),
        )
    return [
        EXPERIMENT.summary(
            [progress.wall_s for progress in rounds[iteration]],
            IterationColumns(
                benchmark,
                asdict(iteration),
                **used[iteration],
                terms_s={
                    name: [progress.terms_s[name] for progress in rounds[iteration]]
                    for name in rounds[iteration][0].terms_s
                },
            ),
            workload=item.name,
            primitive="training",
            backend=mapping,
            device=device,
            batch_size=iteration.minibatch,
            quantity=TIME,
        )
        for iteration in wanted
    ]


def counted(benchmark: str, wanted: Sequence[PpoIteration], report: Report) -> Sequence[Row]:
    """Count the accelerator's clock cycles for iterations of PPO, which simulations of its RTL gave.

    Returns:
        One row per iteration: its cycles, with those of inference, training and PPO's Equation 5 in columns. The
        rows were not run if the hardware's description is missing.
    """
    side, clock_mhz = SIDES[benchmark], published_clock_mhz(benchmark)
    reason, rows = timed_block.unavailable_reason(), []
    for number, iteration in enumerate(wanted):
        report(number, len(wanted), f"{benchmark} on the accelerator")
        fields: dict[str, Any] = {
            "workload": BENCHMARKS[benchmark],
            "primitive": "training",
            "backend": "fpga",
            "device": "fpga:u200",
            "batch_size": iteration.minibatch,
            "quantity": CYCLES,
            "provenance": Provenance.SIMULATED,
        }
        columns = IterationColumns(benchmark, asdict(iteration), side=side, clock_mhz=clock_mhz, core=FLOAT32)
        if reason:
            rows.append(EXPERIMENT.not_run(reason, columns, **fields))
            continue
        cycles, stated = (
            ppo.iteration_cycles(networks.PPO_NETWORKS[benchmark], iteration, side=side, product_cycles=model)
            for model in (_simulated(benchmark, iteration), gemm.ppo_cycles)
        )
        columns = replace(columns, cycles=asdict(cycles), equation_5_cycles=asdict(stated))
        rows.append(EXPERIMENT.row(columns, value=float(cycles.total), **fields))
    return rows


def _products(benchmark: str, iteration: PpoIteration) -> list[tuple[GemmShape, str]]:
    """Return the products of an iteration, in every dataflow."""
    processes = [("FW", iteration.agents), *((process, iteration.minibatch) for process in ppo.PROCESSES)]
    return [
        (shape, dataflow)
        for process, batch in processes
        for shape in ppo.shapes(networks.PPO_NETWORKS[benchmark], process, batch)
        for dataflow in DATAFLOWS
    ]


def _unit(benchmark: str) -> "SimulatedProducts":
    """Return a unit of float32, whose stationary blocks are loaded at once (PPO 5.1, Fig. 6); each of two networks
    has its own unit.
    """
    from placerl.primitives.fpga.cycles.simulated_products import SimulatedProducts

    return SimulatedProducts(side=SIDES[benchmark], **CORES[FLOAT32])


def _simulated(benchmark: str, iteration: PpoIteration) -> ppo.ProductCycles:
    unit = _unit(benchmark)
    unit.prepare(_products(benchmark, iteration))
    return unit.product_cycles


def iterations_of(tier: TierLimits) -> dict[str, list[PpoIteration]]:
    """Return the iterations of PPO that a tier measures, by benchmark; none in a tier that a command made itself."""
    if tier.name not in TIERS:
        return {}
    by_benchmark = {benchmark: iterations(benchmark, TIERS[tier.name][0]) for benchmark in BENCHMARKS}
    if tier.name != "quick":
        return by_benchmark
    hopper = by_benchmark["Hopper"]
    fewest = min(iteration.agents for iteration in hopper)
    return {"Hopper": [iteration for iteration in hopper if iteration.agents == fewest]}


def cycle_requests(tier: TierLimits) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield functions that look up the clock cycles that the cells of a tier need, each with a name."""
    for benchmark, wanted in iterations_of(tier).items():
        yield f"PPO-T2, {benchmark}, {tier.name}", partial(counted, benchmark, wanted, silent)


def cells(tier: TierLimits, benchmarks: Collection[str]) -> list[Cell]:
    """Return the cells (pieces of the plan) that time iterations of PPO or count their cycles.

    There is one per benchmark and device, the FPGA among them, and none in a tier that a command made itself.
    """
    tier_cells: list[Cell] = []
    for benchmark, wanted in iterations_of(tier).items():
        if benchmark not in benchmarks:
            continue
        _, budget_s = TIERS[tier.name]
        key = f"{EXPERIMENT}/{benchmark.lower()}"
        for device in DEVICES if tier.name == GPU_TIER or torch.cuda.is_available() else ("cpu",):
            run = partial(timed, benchmark, device, wanted, budget_s)
            tier_cells.append(claim_cell(f"{key}/{device}", budget_s, run))
        tier_cells.append(claim_cell(f"{key}/fpga", COUNT_S, partial(counted, benchmark, wanted)))
    return tier_cells
