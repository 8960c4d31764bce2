"""Counts the cycles of PPO's accelerator for the comparisons of Fig. 12 to 15.

Cycles are those of the RTL's controllers and layouts at the paper's sizes (`primitives.fpga.gemm.timer`,
`primitives.fpga.pair`); tests compare them with the whole units with data. The timers contain the compute unit's own
controller and plain layout, which decide in every cycle what enters, so no formula gives them a result. Each row, of
suite "claim", also gives the cycles of PPO's formula, modelled.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from placerl.harness.core.progress import Report, silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers.cells import TierLimits, experiment_cells
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.store.cell import Cell
from placerl.primitives.fpga.cycles import gains, gemm, load_balancing, networks, ppo, timed_block
from placerl.primitives.fpga.cycles.networks import GemmLayer
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape


@dataclass(frozen=True)
class AcceleratorCycles(Columns):
    """Columns of the rows.

    Attributes:
        benchmark, side: the network, and the side P of the array.
        cycles, equation_5_cycles: cycles by dataflow, by layout and process, or "alone" and "balanced"; and those of
            PPO's formula.
        process, agents: of a dataflow: FW, BW or WU, and N, where it is one of `AGENTS`.
        core: whose cycles they are (`CORES`); rows of earlier versions without it are of integers, blocks row by row.
        stalls, stated_stalls, forward_cycles, inference_cycles: of layouts.
        policy_epochs, policy_updates, value_updates, minibatch: of load balancing.
    """

    benchmark: str
    side: int
    cycles: dict[str, Any]
    equation_5_cycles: dict[str, int] | None = None
    process: str | None = None
    core: str | None = None
    agents: int | None = None
    stalls: dict[str, int] | None = None
    stated_stalls: int | None = None
    forward_cycles: int | None = None
    inference_cycles: int | None = None
    policy_epochs: int | None = None
    policy_updates: int | None = None
    value_updates: int | None = None
    minibatch: int | None = None


_experiment = partial(Experiment, quantities="cycles", columns=AcceleratorCycles, of_machine=False)
DATAFLOWS_MUJOCO = _experiment("PPO-F12", "cycles of the dataflows, MuJoCo")
DATAFLOWS_PONG = _experiment("PPO-F13", "cycles of the dataflows, Pong")
LAYOUTS = _experiment("PPO-F14", "cycles with the blocked and the plain layout")
BALANCING = _experiment("PPO-F15", "cycles of training on two units")
FLOAT32, AT_ONCE, ROW_BY_ROW = "float32", "blocks at once", "blocks row by row"
CORES: dict[str, dict[str, Any]] = {
    FLOAT32: {"float32": True},
    AT_ONCE: {"block_load": True},
    ROW_BY_ROW: {"block_load": False},
}
"""The cores that are compared: one of float32, as PPO's (5.1), and two of integers, with the options of each."""
AGENTS = (1, 2, 4, 8, 16, 32, 64)
SPINNING_UP = ppo.PpoIteration(agents=32, steps=512, minibatch=512, epochs=10)  # PPO 5.3.3, MuJoCo
BASELINES = ppo.PpoIteration(agents=8, steps=128, minibatch=128, epochs=3)  # PPO 5.3.3, Pong
MUJOCO = {"Hopper": ((16, SPINNING_UP),), "Humanoid": ((16, SPINNING_UP),)}
PONG = {"Pong": ((32, BASELINES), (38, BASELINES))}
LAYOUT_CORES = (FLOAT32, ROW_BY_ROW)
"""The cores whose layouts are compared: PPO's, and one of integers."""
LAYOUT_CASES = (("Hopper", 16, SPINNING_UP), ("Humanoid", 16, SPINNING_UP), ("Pong", 32, BASELINES))
STOPPED_EPOCHS = (1, 9)
UPDATES_AN_EPOCH = 4
"""Mini-batches per epoch that are simulated; the cycles are proportional to their number."""


def _layouts(report: Report) -> Iterator[Row]:
    """Yield rows with the cycles of a mini-batch with its operands in a blocked and in a plain layout (Fig. 14)."""
    steps = [(*case, core) for case in LAYOUT_CASES for core in LAYOUT_CORES]
    for number, (benchmark, side, iteration, core) in enumerate(steps):
        report(number, len(steps), f"layouts, {benchmark}, {core}")
        yield from _layout_rows(benchmark, side, iteration, core)


def _balancing(report: Report) -> Iterator[Row]:
    """Yield rows by benchmark and by the epoch after which the policy stops training on two compute units (Fig. 15).

    Each has the cycles with and without load balancing between the units: those of two units of integers, which are
    simulated together, and those of float32 products, in the order in which the two units compute.
    """
    from placerl.primitives.fpga.cycles.blocks import pair

    for number, benchmark in enumerate(MUJOCO):
        report(number, len(MUJOCO), f"two units, {benchmark}")
        policy = networks.PPO_NETWORKS[benchmark]
        of_float32 = _update_cycles(benchmark)
        value = (*policy[:-1], GemmLayer(policy[-1].inputs, 1))
        for epochs in STOPPED_EPOCHS:
            arguments: dict[str, Any] = {
                "policy_updates": epochs * UPDATES_AN_EPOCH,
                "value_updates": SPINNING_UP.epochs * UPDATES_AN_EPOCH,
                "minibatch": SPINNING_UP.minibatch,
            }
            updates = arguments["policy_updates"], arguments["value_updates"]
            cycles: dict[str, dict[str, int]] = {FLOAT32: {}, AT_ONCE: {}}
            stated = {}
            for balanced in (False, True):
                name = "balanced" if balanced else "alone"
                neurons = [networks.neurons(policy), networks.neurons(value)]
                cycles[AT_ONCE][name] = pair.BLOCK([16], [*neurons, *arguments.values(), balanced])
                cycles[FLOAT32][name] = load_balancing.trained_cycles(*of_float32, updates, balanced=balanced)
                stated[name] = load_balancing.training_cycles(
                    policy, value, side=16, balanced=balanced, **arguments
                )
            for core, of_core in cycles.items():
                columns = AcceleratorCycles(
                    benchmark, 16, of_core, stated, core=core, policy_epochs=epochs, **arguments
                )
                yield _row(BALANCING, columns, SPINNING_UP.minibatch, of_core["balanced"])


def _update_cycles(benchmark: str) -> tuple[list[int], list[int]]:
    """Return the cycles of the float32 products of an update of the policy and of the value network.

    The first two are those of a whole mini-batch on one unit, the second those of half of it on each of two.
    """
    from placerl.primitives.fpga.cycles.simulated_products import SimulatedProducts

    policy = networks.PPO_NETWORKS[benchmark]
    value = (*policy[:-1], GemmLayer(policy[-1].inputs, 1))
    products = SimulatedProducts(side=16, **CORES[FLOAT32])
    whole, half = (
        [
            load_balancing.update_cycles(layers, batch, side=16, product_cycles=products.product_cycles)
            for layers in (policy, value)
        ]
        for batch in (SPINNING_UP.minibatch, SPINNING_UP.minibatch // 2)
    )
    return whole, half


def _dataflow_rows(
    key: Experiment, cases: Mapping[str, Sequence[tuple[int, ppo.PpoIteration]]], report: Report
) -> Iterator[Row]:
    """Yield rows with the cycles of each process (FW, BW or WU: forward pass, backward pass, weight update).

    They are those in each dataflow, which says what stays in the array's elements (`cycle_models`).
    """
    from placerl.primitives.fpga.cycles.simulated_products import SimulatedProducts

    steps = [(b, *case, core) for b, some in cases.items() for case in some for core in CORES]
    for number, (benchmark, side, iteration, core) in enumerate(steps):
        report(number, len(steps), f"dataflows, {benchmark}, {side} x {side}, {core}")
        layers = networks.PPO_NETWORKS[benchmark]
        products = SimulatedProducts(side=side, **CORES[core])
        wanted = [("FW", agents) for agents in AGENTS]
        wanted += [(process, iteration.minibatch) for process in ppo.PROCESSES]
        for process, batch in wanted:
            shapes = ppo.shapes(layers, process, batch)
            products.prepare((shape, dataflow) for shape in shapes for dataflow in DATAFLOWS)
            options: dict[str, Any] = {"side": side}
            cycles, stated = (
                {
                    dataflow: ppo.process_cycles(
                        layers, process, batch, dataflow=dataflow, product_cycles=model, **options
                    )
                    for dataflow in DATAFLOWS
                }
                for model in (products.product_cycles, gemm.ppo_cycles)
            )
            agents = batch if (process, batch) in wanted[: len(AGENTS)] else None
            columns = AcceleratorCycles(benchmark, side, cycles, stated, process, core, agents)
            yield _row(key, columns, batch, min(cycles.values()))


def _layout_rows(benchmark: str, side: int, iteration: ppo.PpoIteration, core: str) -> Iterator[Row]:
    from placerl.primitives.fpga.cycles.simulated_products import SimulatedProducts

    layers, batch = networks.PPO_NETWORKS[benchmark], iteration.minibatch
    across: dict[str, list[GemmShape]] = {
        "BW": gains.backward_operands(layers, batch),
        "WU": ppo.shapes(layers, "WU", batch),
    }
    cycles: dict[str, dict[str, int]] = {}
    stalls: dict[str, dict[str, int]] = {}
    for layout in ("blocked", "plain"):
        products = SimulatedProducts(side=side, layout=layout, **CORES[core])
        products.prepare(
            (s, dataflow) for shapes in across.values() for s in shapes for dataflow in DATAFLOWS
        )
        cycles[layout], stalls[layout] = {}, {}
        for process, shapes in across.items():
            of_each = {
                dataflow: sum(products.product_cycles(s, side=side, dataflow=dataflow) for s in shapes)
                for dataflow in DATAFLOWS
            }
            best = min(of_each, key=lambda dataflow: of_each[dataflow])
            cycles[layout][process] = of_each[best]
            stalls[layout][process] = sum(products.stalls(shape, best) for shape in shapes)
    rest = SimulatedProducts(side=side, **CORES[core])
    forward = ppo.best_dataflows(layers, batch, side=side, product_cycles=rest.product_cycles)["FW"]
    inference = ppo.best_dataflows(
        layers, iteration.agents, side=side, processes=("FW",), product_cycles=rest.product_cycles
    )["FW"]
    model: dict[str, Any] = {"side": side, "product_cycles": rest.product_cycles}
    columns = AcceleratorCycles(
        benchmark,
        side,
        cycles,
        core=core,
        stalls=stalls["plain"],
        stated_stalls=gains.update_stalls(layers, batch, side=side),
        forward_cycles=ppo.process_cycles(layers, "FW", batch, dataflow=forward, **model),
        inference_cycles=ppo.process_cycles(layers, "FW", iteration.agents, dataflow=inference, **model),
    )
    yield _row(LAYOUTS, columns, batch, sum(cycles["blocked"].values()))


def _row(key: Experiment, columns: AcceleratorCycles, batch: int, cycles: int) -> Row:
    return key.row(
        columns,
        primitive="matrix_products",
        backend="fpga",
        device=columns.benchmark,
        batch_size=batch,
        quantity="cycles",
        provenance=Provenance.SIMULATED,
        value=float(cycles),
    )


def _counted(key: Experiment, rows: Callable[[Report], Iterator[Row]], report: Report) -> Sequence[Row]:
    """Return the rows of an experiment; one that was not run if the hardware's description is missing."""
    if reason := timed_block.unavailable_reason():
        fields = {"primitive": "matrix_products", "backend": "fpga", "quantity": "cycles"}
        return [key.not_run(reason, provenance=Provenance.SIMULATED, **fields)]
    return list(rows(report))


COUNT_S = 1.0
_ROWS: dict[Experiment, Callable[[Report], Iterator[Row]]] = {
    DATAFLOWS_MUJOCO: partial(_dataflow_rows, DATAFLOWS_MUJOCO, MUJOCO),
    DATAFLOWS_PONG: partial(_dataflow_rows, DATAFLOWS_PONG, PONG),
    LAYOUTS: _layouts,
    BALANCING: _balancing,
}
EXPERIMENTS: dict[str, Callable[[Report], Sequence[Row]]] = {
    key: partial(_counted, key, rows) for key, rows in _ROWS.items()
}
"""What counts the cycles of each experiment."""
TIERS = ("standard", "full")


def cycle_requests(tier: TierLimits) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield functions that look up the clock cycles that the cells of a tier need, each with a name."""
    if tier.name in TIERS:
        for key, measure in EXPERIMENTS.items():
            yield str(key), partial(measure, silent)


def cells(experiment: Experiment) -> Callable[[TierLimits], list[Cell]]:
    """Return a function that returns the cell that simulates PPO's accelerator for a claim; none in the quick tier."""
    return experiment_cells(experiment, EXPERIMENTS[experiment], TIERS, COUNT_S)
