"""PPO's iterations, on what is here and on its accelerator, as rows of suite "claim" (PPO Table 2, Fig. 10 and 11).

Whole iterations of training are timed, with the seconds of their parts, early stopping off, on every core that this
process may use. Of the accelerator the cycles of RTL are counted: the products of inferences and updates in the
dataflows of fewest cycles (PPO 4). Transfers are in neither: PPO gives the time of none. What both cost together is the
claims' to say.
"""

import os
import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import torch

from harness import workloads
from harness.core.progress import Report, part
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.mapping import Mapping
from harness.measure.conditions import conditions
from harness.measure.rows import sampled
from harness.measure.turns import Rounds, in_rounds
from harness.papers import published
from harness.papers.cells import Tier, claim_cell
from harness.papers.ppo.published_clocks import published_clock_mhz
from harness.runtime.on_policy import OnPolicyTraining
from harness.store.cell import Cell
from harness.workloads import Workload
from primitives.fpga.cycles import gemm, networks, ppo
from primitives.fpga.cycles.ppo import Iteration
from primitives.fpga.export import toolchain
from primitives.fpga.gemm.plan import DATAFLOWS, GemmShape

if TYPE_CHECKING:
    from primitives.fpga.cycles.simulated_products import SimulatedProducts

EXPERIMENT = "PPO-T2"
TIME, CYCLES = "time_per_iteration", "cycles_per_iteration"
BENCHMARKS = {"Hopper": "hopper-ppo", "Humanoid": "humanoid-ppo", "Pong": "pong-ppo"}
"""The workload of each."""
LEARNERS = {"Hopper": "native", "Humanoid": "native", "Pong": "torch"}
"""The fastest here on a CPU (`make bench-learner`)."""
DEVICES = {"cpu": "{}-native-cpu", "cuda": "torch:cuda-native-cpu"}
SIDES = {"Hopper": 16, "Humanoid": 16, "Pong": 32}  # PPO 5.2
TIERS = {"quick": ("N", 7.0, 15.0), "standard": ("MN", 60.0, 60.0), "full": ("MNT", 600.0, 120.0)}
"""Which of M, N and T is varied, and rough seconds of a benchmark timed, and counted for the first time.

The quick tier has Hopper's shortest iterations alone.
"""


def table_2(benchmark: str, library: str) -> dict[str, Iteration]:
    """The iteration that each column of PPO Table 2 is about.

    Args:
        benchmark: "Hopper", "Humanoid" or "Pong".
        library: "Spinning Up" or "Baselines".
    """
    found = {}
    for cell in published.table("ppo_table_2").cells:
        if cell.row == f"{benchmark}, {library}, CPU":
            names, values = (part.split(", ") for part in re.findall(r"\[(.*?)\]", cell.note))
            size = dict(zip(names, map(int, values), strict=True))
            letter, _, value = cell.column.partition("=")
            size[letter] = int(value)
            found[cell.column] = Iteration(size["N"], size["T"], size["M"], size["K"])
    return found


def iterations(benchmark: str, varied: str) -> list[Iteration]:
    """Those of both libraries' columns, once each.

    Args:
        benchmark: as for `table_2`.
        varied: letters of the columns: "M", "N", "T" or several of them.
    """
    columns = [
        item for library in ("Spinning Up", "Baselines") for item in table_2(benchmark, library).items()
    ]
    return list(dict.fromkeys(iteration for name, iteration in columns if name[0] in varied))


def sized(item: Workload, iteration: Iteration) -> Workload:
    """A PPO workload with another iteration, and without early stopping: every epoch is one of both networks."""
    tables = item.tables()
    tables["algorithm"] |= {"trajectory_length": iteration.steps, "epochs": iteration.epochs}
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


def cores_used(iteration: Iteration) -> dict[str, int]:
    """Threads of the learner, and processes that step the environments side by side (0: none but this one)."""
    cores = len(os.sched_getaffinity(0))
    return {"threads": cores, "processes": min(cores, iteration.agents) if cores > 1 else 0}


def timed(
    benchmark: str, device: str, wanted: Sequence[Iteration], budget_s: float, report: Report
) -> list[Measurement]:
    """Seconds of iterations, all in the same interleaved rounds.

    Args:
        benchmark: as for `table_2`.
        device: "cpu" or "cuda".
        wanted: the iterations.
        budget_s: begin no further round after this time, seconds, once there are enough for intervals.
        report: called with the share of the work that is done.
    """
    item, mapping = workloads.load(BENCHMARKS[benchmark]), DEVICES[device].format(LEARNERS[benchmark])
    used = {iteration: cores_used(iteration) for iteration in wanted}
    what = f"{benchmark} on {device}"
    with ExitStack() as stack:
        trainings = {}
        for iteration in wanted:
            threads, processes = used[iteration]["threads"], used[iteration]["processes"]
            trainings[iteration] = OnPolicyTraining(
                sized(item, iteration), Mapping.parse(mapping), threads=threads, processes=processes
            )
            stack.callback(trainings[iteration].close)
        begin_s = perf_counter()
        for training in trainings.values():
            report(0.0, 1.0, f"{what}: warm-up")
            training.warm_up()
        made = in_rounds(
            {iteration: partial(training.advance, 1) for iteration, training in trainings.items()},
            Rounds(budget_s=budget_s - (perf_counter() - begin_s)),
            report=part(report, 0.0, 1.0, 1.0, what),
        )
    return [
        sampled(
            [progress.wall_s for progress in made[iteration]],
            suite="claim",
            workload=item.name,
            primitive="training",
            backend=mapping,
            device=device,
            batch_size=iteration.minibatch,
            quantity=TIME,
            details=_details(benchmark, iteration)
            | used[iteration]
            | {
                "terms_s": {
                    name: [progress.terms_s[name] for progress in made[iteration]]
                    for name in made[iteration][0].terms_s
                },
                "conditions": conditions(),
            },
        )
        for iteration in wanted
    ]


def _details(benchmark: str, iteration: Iteration) -> dict[str, object]:
    return {"experiment": EXPERIMENT, "benchmark": benchmark, "iteration": asdict(iteration)}


def counted(benchmark: str, wanted: Sequence[Iteration], report: Report) -> list[Measurement]:
    """Cycles of the accelerator for the same iterations; not run where hardware cannot be simulated.

    Args:
        benchmark, wanted: as for `timed`.
        report: called with the progress.
    """
    side, clock_mhz = SIDES[benchmark], published_clock_mhz(benchmark)
    reason, rows = toolchain.unavailable_reason(), []
    for number, iteration in enumerate(wanted):
        report(number, len(wanted), f"{benchmark} on the accelerator")
        row = partial(
            Measurement,
            suite="claim",
            workload=BENCHMARKS[benchmark],
            primitive="training",
            backend="fpga",
            device="fpga:u200",
            batch_size=iteration.minibatch,
            quantity=CYCLES,
            provenance=Provenance.SIMULATED,
        )
        details = _details(benchmark, iteration) | {"side": side, "clock_mhz": clock_mhz}
        if reason:
            rows.append(row(status="not_run", reason=reason, details=details))
            continue
        cycles, stated = (
            ppo.iteration_cycles(networks.PPO_NETWORKS[benchmark], iteration, side=side, product_cycles=model)
            for model in (_simulated(benchmark, iteration), gemm.ppo_cycles)
        )
        details |= {"cycles": asdict(cycles), "equation_5_cycles": asdict(stated)}
        rows.append(row(value=float(cycles.total), details=details))
    return rows


def _products(benchmark: str, iteration: Iteration) -> list[tuple[GemmShape, str]]:
    """What an iteration multiplies, in every dataflow."""
    processes = [("FW", iteration.agents), *((process, iteration.minibatch) for process in ppo.PROCESSES)]
    return [
        (shape, dataflow)
        for process, batch in processes
        for shape in ppo.shapes(networks.PPO_NETWORKS[benchmark], process, batch)
        for dataflow in DATAFLOWS
    ]


def _unit(benchmark: str) -> "SimulatedProducts":
    """Whose stationary blocks come in at once (PPO Fig. 6); each of two networks has one of its own."""
    from primitives.fpga.cycles.simulated_products import SimulatedProducts

    return SimulatedProducts(side=SIDES[benchmark], block_load=True)


def _simulated(benchmark: str, iteration: Iteration) -> ppo.ProductCycles:
    unit = _unit(benchmark)
    unit.simulate(_products(benchmark, iteration))
    return unit.product_cycles


def is_counted(benchmark: str, wanted: Sequence[Iteration]) -> bool:
    """Whether all cycles are known from an earlier run."""
    if toolchain.unavailable_reason():
        return True
    unit = _unit(benchmark)
    return all(unit.is_known(product) for item in wanted for product in _products(benchmark, item))


def cells(tier: Tier) -> list[Cell]:
    """A cell for each benchmark and device; none in a tier without a name."""
    made: list[Cell] = []
    if tier.name not in TIERS:
        return made
    varied, budget_s, build_s = TIERS[tier.name]
    for benchmark in BENCHMARKS if tier.name != "quick" else ("Hopper",):
        wanted = iterations(benchmark, varied)
        if tier.name == "quick":
            fewest = min(iteration.agents for iteration in wanted)
            wanted = [iteration for iteration in wanted if iteration.agents == fewest]
        key = f"{EXPERIMENT}/{benchmark.lower()}"
        for device in DEVICES if torch.cuda.is_available() else ("cpu",):
            run = partial(timed, benchmark, device, wanted, budget_s)
            made.append(claim_cell(f"{key}/{device}", budget_s, run))
        count_s = 1.0 if is_counted(benchmark, wanted) else build_s
        made.append(claim_cell(f"{key}/fpga", count_s, partial(counted, benchmark, wanted)))
    return made
