"""Runs PPO's iterations on CPU and accelerator in virtual time (PPO Table 2, Fig. 10 and 11).

The host's work (environments, advantages, mini-batches, the objective) is timed here. The networks take the cycles of
this project's float32 accelerator by its closed form. Transfers take the time of their bytes on the platform's link.
MAP states no latency for its link, which is PPO's too: the rows state how many transfers there are, so that claims can
be judged without a latency and with the 1 ms that PRL's authors list for another board. Only the robots' iterations
run: Pong's claims are about a GPU.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from time import perf_counter
from typing import Any

from placerl.harness import platforms, workloads
from placerl.harness.core.progress import Report, part
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.loop.schedule import Environments, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.measure.turns import Rounds, in_rounds
from placerl.harness.papers.cells import TierLimits, claim_cell
from placerl.harness.papers.ppo.published_clocks import published_clock_mhz
from placerl.harness.papers.ppo.table_2_iterations import (
    BENCHMARKS,
    EXPERIMENT,
    LEARNERS,
    SIDES,
    TIERS,
    TIME,
    IterationColumns,
    cores_used,
    iterations_of,
    sized,
)
from placerl.harness.runtime.accelerated import AcceleratedTraining, NetworkAccelerator
from placerl.harness.runtime.resolve import resolve
from placerl.harness.store.cell import Cell
from placerl.primitives.fpga.cycles import networks, timed_block
from placerl.primitives.fpga.cycles.networks import GemmLayer
from placerl.primitives.fpga.cycles.ppo import PpoIteration
from placerl.primitives.fpga.cycles.ppo_steps import DesignSteps
from placerl.primitives.fpga.ppo_accelerator.program import NetworkProgram

DEVICE, PLATFORM, KEY = "fpga:u200", "ppoaccel", "fpga"
ROBOTS = ("Hopper", "Humanoid")
"""The benchmarks that run in virtual time."""


def networks_of(benchmark: str) -> tuple[tuple[GemmLayer, ...], ...]:
    """Return the layers of a benchmark's networks, one per compute unit: the policy's and the value's (PPO 5.1)."""
    *hidden, last = networks.PPO_NETWORKS[benchmark]
    return ((*hidden, last), (*hidden, GemmLayer(last.inputs, 1)))


def accelerator(benchmark: str) -> NetworkAccelerator:
    """Return this project's float32 accelerator for a benchmark, at the clock that PPO states."""
    programs = tuple(
        NetworkProgram((network[0].inputs, *(layer.outputs for layer in network)), 1, SIDES[benchmark])
        for network in networks_of(benchmark)
    )
    clock_hz = 1e6 * published_clock_mhz(benchmark)
    activation = workloads.load(BENCHMARKS[benchmark]).network.activation
    return NetworkAccelerator(KEY, DesignSteps(programs, activation), clock_hz, Provenance.MODELLED)


def virtual(benchmark: str, wanted: Sequence[PpoIteration], budget_s: float, report: Report) -> Sequence[Row]:
    """Run iterations of PPO's training on CPU and accelerator in virtual time, all in the same interleaved rounds.

    Returns:
        One row per iteration: its seconds without latencies, and in columns those of its parts, the transfers and
        the cycles. The rows were not run if the hardware's description is missing, as the claims need its cycles too.
    """
    item, mapping = workloads.load(BENCHMARKS[benchmark]), f"{LEARNERS[benchmark]}-native-cpu"
    fields: dict[str, Any] = {
        "workload": item.name,
        "primitive": "training",
        "device": DEVICE,
        "quantity": TIME,
    }
    columns = {iteration: IterationColumns(benchmark, asdict(iteration)) for iteration in wanted}
    if reason := timed_block.unavailable_reason():
        fields["provenance"] = Provenance.MODELLED
        return [
            EXPERIMENT.not_run(reason, stated, batch_size=iteration.minibatch, **fields)
            for iteration, stated in columns.items()
        ]
    design, platform = accelerator(benchmark), platforms.load(PLATFORM)
    with ExitStack() as stack:
        trainings = {}
        for iteration in wanted:
            used = cores_used(iteration)
            schedule = Schedule(**used, environments=Environments.GYMNASIUM)
            resolved = resolve(schedule, sized(item, iteration), Mapping.parse(mapping))
            trainings[iteration] = AcceleratedTraining(resolved, design, lambda: platform)
            stack.callback(trainings[iteration].close)
        begin_s = perf_counter()
        for training in trainings.values():
            training.warm_up()
        counted = {iteration: training.transfers.count for iteration, training in trainings.items()}
        done = in_rounds(
            {iteration: partial(training.advance, 1) for iteration, training in trainings.items()},
            Rounds(budget_s=budget_s - (perf_counter() - begin_s)),
            report=part(report, 0.0, 1.0, 1.0, f"{benchmark} on CPU and accelerator"),
        )
    rows = []
    for iteration, progress in done.items():
        transfers = (trainings[iteration].transfers.count - counted[iteration]) / len(progress)
        steps = design.cycles
        forward, training_cycles = (
            steps.forward_cycles(iteration.minibatch),
            steps.training_cycles(iteration.minibatch),
        )
        terms_s = {name: [one.terms_s[name] for one in progress] for name in progress[0].terms_s}
        stated = replace(
            columns[iteration],
            **cores_used(iteration),
            terms_s=terms_s,
            transfers=transfers,
            design_mhz=1e-6 * design.clock_hz,
            cycles={
                "inference": steps.forward_cycles(iteration.agents) * (iteration.steps + 1),
                "training": (forward + training_cycles) * iteration.updates,
            },
        )
        row = EXPERIMENT.summary(
            [one.wall_s for one in progress],
            stated,
            backend=f"{mapping} and {DEVICE}",
            batch_size=iteration.minibatch,
            **fields,
        )
        rows.append(replace(row, provenance=Provenance.MODELLED))
    return rows


def cells(tier: TierLimits) -> list[Cell]:
    """Return the cells (pieces of the plan) that run iterations of PPO in virtual time, one per robot.

    The quick tier, whose time is short, has none.
    """
    if tier.name == "quick":
        return []
    tier_cells: list[Cell] = []
    for benchmark, wanted in iterations_of(tier).items():
        if benchmark in ROBOTS:
            budget_s = TIERS[tier.name][1] / 2
            run = partial(virtual, benchmark, wanted, budget_s)
            key = f"{EXPERIMENT}/{benchmark.lower()}/virtual"
            tier_cells.append(claim_cell(key, budget_s, run, Provenance.MODELLED))
    return tier_cells
