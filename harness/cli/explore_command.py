"""The commands `placerl explore map` and `placerl explore ppo`, which search for an accelerator that fits an FPGA.

The papers' own models give the designs' cycles and the resources that they need.
"""

import math
from dataclasses import asdict
from typing import Annotated, Any

import typer

from placerl.harness.cli.app import OneLineErrors, app
from placerl.harness.cli.bench.command import numbers, section
from placerl.harness.cli.common import JsonOption, print_json, print_markdown
from placerl.harness.cli.explored import (
    DEVICE_HELP,
    NETWORK_HELP,
    explored_device,
    layers_of,
    learner_designs,
)
from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.primitives.fpga.cycles.communication import Channel, Communication
from placerl.primitives.fpga.cycles.ppo import PpoIteration
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.explore import map_replay, ppo_array
from placerl.primitives.fpga.map_accelerator.described import described
from placerl.primitives.learner.fpga import pipeline, pipeline_resources

MODELLED = str(Provenance.MODELLED)
BITS = {32: ppo_array.FIXED_32, 16: ppo_array.FIXED_16}
SHOWN = 8
"""Designs shown in a table; `--json` shows all."""
LARGEST_SIDE = 512
SLOWEST_GB_S = 1e-3
RESOURCES = pipeline_resources.NAMES

NetworkArgument = Annotated[str, typer.Argument(metavar="NETWORK", help=NETWORK_HELP)]
ExploredDeviceOption = Annotated[str, typer.Option("--device", help=DEVICE_HELP)]

explorer = typer.Typer(cls=OneLineErrors, no_args_is_help=True)


@explorer.callback(epilog="Example: `placerl explore ppo Hopper --device u200`")
def explore() -> None:
    """Choose an accelerator's design parameters: which fit an FPGA, and how fast they are by a paper's model."""


@explorer.command("map", epilog="Example: `placerl explore map hopper-ddpg --device u200`")
def explore_map(
    network: NetworkArgument,
    device: ExploredDeviceOption = "u200",
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            help="dqn, or ddpg: NETWORK is its actor, the critic has its hidden layers. By default a workload's own, "
            "or dqn.",
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, max=2**14, help="Items of a batch.")
    ] = 256,
    capacity: Annotated[int, typer.Option("--capacity", min=1, max=2**31, help="Leaves of the sum tree.")] = 2
    ** 20,
    fanout: Annotated[int, typer.Option("--fanout", min=2, max=256, help="K, children of a node.")] = 16,
    as_json: JsonOption = False,
) -> None:
    """Choose the number (DP) of MAP's learner pipelines, their parallel lanes, and the replay's sub-trees (VI-A2)."""
    board = explored_device(device)
    designs, limit = (
        learner_designs(network, algorithm, batch_size, board),
        pipeline_resources.available(board),
    )
    replay = map_replay.replay_design(batch_size, capacity, fanout, board)
    if as_json:
        learner = [_learner(design) for design in designs]
        print_json(
            {
                **_stated(device, board),
                "available": asdict(limit),
                "learner": learner,
                "replay": asdict(replay),
            }
        )
    else:
        columns = (
            "DP",
            "items of each",
            "lanes",
            "updates",
            "cycles a step",
            "steps/s",
            *RESOURCES.values(),
            "bound by",
        )
        rows = [
            (
                f"{design.pipelines:,}",
                f"{design.samples:,}",
                *(described(tuple(design.networks.values()))[name] for name in ("lanes", "updates")),
                f"{design.formula_cycles:,}",
                _per_second(design.formula_cycles, board),
                *(f"{getattr(design.resources, name):,} of {getattr(limit, name):,}" for name in RESOURCES),
                RESOURCES[design.resources.scarcest(limit)],
            )
            for design in designs[:SHOWN]
        ]
        title = f"Learner pipelines on {board.name}, batch size {batch_size}: {len(designs)} fit, {MODELLED}"
        lines = section(title, columns, rows) if rows else []
        values = (replay.banks, replay.sample_cycles, replay.update_cycles, replay.memory_bits, replay.luts)
        lines += section(
            f"Replay in one die: {capacity:,} leaves, K = {fanout}, {MODELLED}",
            (
                *(
                    "sub-trees",
                    "cycles of a batch of samples",
                    "cycles of a batch of updates",
                    "memory, bits",
                ),
                *("LUTs", "flip-flops", "bound by"),
            ),
            [(*(f"{value:,.10g}" for value in (*values, replay.flip_flops)), replay.bound_by)],
        )
        print_markdown(lines)
    _exit_unless(bool(designs), f"no learner pipeline of {network} fits {board.name}, not even DP = 1")


def _learner(design: pipeline.PipelineDesign) -> dict[str, Any]:
    return {**asdict(design), "cycles": design.formula_cycles, "resources": asdict(design.resources)}


@explorer.command("ppo", epilog="Example: `placerl explore ppo Hopper --device u200 --sides 8,16,32`")
def explore_ppo(  # noqa: PLR0913 (a command: its options)
    network: NetworkArgument,
    device: ExploredDeviceOption = "u200",
    agents: Annotated[int, typer.Option("--agents", min=1, max=2**14, help="N, number of agents.")] = 16,
    steps: Annotated[int, typer.Option("--steps", min=1, max=2**20, help="T, steps per agent.")] = 512,
    minibatch: Annotated[int, typer.Option("--minibatch", min=1, max=2**20, help="M, samples.")] = 512,
    epochs: Annotated[int, typer.Option("--epochs", min=1, max=2**10, help="K, epochs.")] = 10,
    units: Annotated[
        int,
        typer.Option("--units", min=1, max=16, help="Number of arrays: one per separately trained network."),
    ] = 2,
    bits: Annotated[int, typer.Option("--bits", help="Bits of a word: 32 or 16.")] = 32,
    sides: Annotated[
        str, typer.Option("--sides", help="P of the P x P arrays to try, separated by commas.")
    ] = ",".join(map(str, ppo_array.POWERS_OF_TWO)),
    external_activations: Annotated[
        bool,
        typer.Option("--external-activations", help="Only the weights are on chip (PPO 3.1, CNNs)."),
    ] = False,
    link_gb_s: Annotated[
        float | None,
        typer.Option(
            "--link-gb-s",
            min=SLOWEST_GB_S,
            help="Bandwidth to the host, GB/s; by default not counted (T_comm).",
        ),
    ] = None,
    link_us: Annotated[float, typer.Option("--link-us", min=0, help="Latency of a transfer, us.")] = 0.0,
    memory_gb_s: Annotated[
        float | None,
        typer.Option(
            "--memory-gb-s",
            min=SLOWEST_GB_S,
            help="Bandwidth of the memory of --external-activations, GB/s; by default not counted.",
        ),
    ] = None,
    memory_us: Annotated[
        float, typer.Option("--memory-us", min=0, help="Latency of that memory for a product, us.")
    ] = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Choose the P rows and columns of PPO's systolic arrays, and the dataflow of each process (PPO 4, Equation 9)."""
    layers, board = layers_of(network), explored_device(device)
    tried = numbers("--sides", sides)
    if wrong := [side for side in tried if not 2 <= side <= LARGEST_SIDE]:
        raise UserError("command line", "--sides", str(wrong[0]), f"2 to {LARGEST_SIDE}")
    if bits not in BITS:
        raise UserError("command line", "--bits", str(bits), ", ".join(map(str, BITS)))
    if minibatch > agents * steps:
        allowed = f"at most the {agents * steps} samples of --agents x --steps"
        raise UserError("command line", "--minibatch", str(minibatch), allowed)
    if not external_activations and (memory_gb_s or memory_us):
        given = "--memory-gb-s" if memory_gb_s else "--memory-us"
        raise UserError("command line", given, "no --external-activations", "with --external-activations")
    memory = _channel(board, memory_gb_s, memory_us) if external_activations else None
    designs = ppo_array.ppo_designs(
        layers,
        PpoIteration(agents, steps, minibatch, epochs),
        board,
        units=units,
        datapath=BITS[bits],
        sides=dict.fromkeys(tried),
        communication=Communication(_channel(board, link_gb_s, link_us), memory),
    )
    fitting = sum(design.fits for design in designs)
    if as_json:
        print_json({**_stated(device, board), "designs": [asdict(design) for design in designs]})
    else:
        rows = [
            (
                str(design.side),
                "yes" if design.fits else "no",
                *design.dataflows.values(),
                f"{design.cycles:,}",
                _per_second(design.cycles, board),
                f"{design.dsps:,} of {board.dsps:,}",
                f"{design.block_rams:,} of {board.block_rams:,}",
            )
            for design in designs[:SHOWN]
        ]
        title = f"{units} arrays of P x P on {board.name}, {bits} bits: {fitting} of {len(designs)} fit, {MODELLED}"
        columns = ("P", "fits", *designs[0].dataflows, "cycles an iteration", "iterations/s")
        print_markdown(section(title, (*columns, "DSPs", "block RAMs"), rows))
    _exit_unless(bool(fitting), f"none of the arrays that were tried fits {board.name}")


def _channel(board: catalogue.FpgaDevice, gb_s: float | None, latency_us: float) -> Channel:
    """Return a path from its bandwidth and latency; one that takes no time if neither is stated."""
    if gb_s is None and not latency_us:
        return Channel()
    if not board.clock_hz:
        raise UserError(
            "command line", "--device", f"{board.name}, without a clock", "one with a stated clock"
        )
    return Channel.at_clock(math.inf if gb_s is None else 1e9 * gb_s, 1e-6 * latency_us, board.clock_hz)


def _stated(key: str, device: catalogue.FpgaDevice) -> dict[str, Any]:
    return {
        "device": key,
        "clock_hz": device.clock_hz or None,
        "clock_source": device.clock_source or None,
        "provenance": MODELLED,
    }


def _per_second(cycles: int, device: catalogue.FpgaDevice) -> str:
    """How often a second, at the clock that is assumed on the device."""
    if not device.clock_hz:
        return "no clock stated"
    return f"{device.clock_hz / cycles:,.4g} at {device.clock_hz / 1e6:g} MHz"


def _exit_unless(fits: bool, reason: str) -> None:
    if not fits:
        typer.echo(f"placerl: {reason}", err=True)
        raise typer.Exit(1)


app.add_typer(explorer, name="explore")
