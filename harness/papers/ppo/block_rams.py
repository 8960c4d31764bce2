"""Checks PPO Table 1's block RAMs by mini-batch, and the choice of the array's side, for this project's accelerator."""

from collections.abc import Sequence

import pandas as pd

from placerl.harness import platforms
from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.base import Claim, Finding, by_a_model
from placerl.harness.papers.number import Number, from_cell, from_text
from placerl.harness.papers.ppo.published_clocks import published_clock_mhz
from placerl.harness.papers.resources import FACTOR
from placerl.primitives.fpga.cycles import gemm_float32, networks, ppo
from placerl.primitives.fpga.cycles.communication import Channel, Communication
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.explore.ppo_array import Datapath, Design, ppo_designs
from placerl.primitives.fpga.ppo_accelerator.memory_banks import block_rams, programs_for

BENCHMARKS = ("Hopper", "Humanoid")
MINIBATCHES = (64, 128, 256, 512)
SIDE = 16  # PPO 5.2
DEVICE, PLATFORM = "u200", "ppoaccel"
SOURCE = "placerl.primitives.fpga.ppo_accelerator.memory_banks: P x P banks in whole halves of a block RAM"
EXPLORED = "placerl.primitives.fpga.explore.ppo_array on the U200, cycles of float32 products and transfers"
FLOAT32 = Datapath(width=32, dsps=2, update_dsps=2)
"""A float32 multiplier takes 2 DSPs, as Yosys maps it (`gemm-core side=16 float32=true`: 512); adders are in logic."""


def published() -> tuple[Number, ...]:
    """Return the block RAMs of PPO Table 1 for MuJoCo: each benchmark's by mini-batch."""
    return tuple(
        from_cell("ppo_table_1", benchmark, f"BRAM, M={batch}")
        for benchmark in BENCHMARKS
        for batch in MINIBATCHES
    )


def _counts(benchmark: str) -> Sequence[float]:
    """Return the block RAMs of this project's accelerator for a benchmark, by mini-batch."""
    return [block_rams(programs_for(benchmark.lower(), side=SIDE, batch=batch)) for batch in MINIBATCHES]


def _designs(benchmark: str) -> list[Design]:
    """Return the designs for a benchmark's largest mini-batch, those that fit the device first, the fastest first.

    Transfers take the time of their bytes on the platform's link (Equation 9).
    """
    iteration = ppo.PpoIteration(32, 512, max(MINIBATCHES), 10)  # PPO 5.3.3: N = 32, T = 512, K = 10
    link = Channel.at_clock(
        platforms.load(PLATFORM).bytes_per_s("cpu", "fpga"), 0.0, 1e6 * published_clock_mhz(benchmark)
    )
    return ppo_designs(
        networks.PPO_NETWORKS[benchmark],
        iteration,
        catalogue.device(DEVICE),
        datapath=FLOAT32,
        product_cycles=gemm_float32.core_cycles,
        communication=Communication(link),
    )


class BlockRamsGrow(Claim):
    """Checks PPO 5.2: block RAMs grow with the mini-batch and with the network, and are about as many as printed.

    Table 1 itself prints fewer for the larger network at the smallest mini-batch (note PPO-T1-smallest).
    """

    key, place, position = "PPO-T1-memory", "5.2, Table 1", 1
    statement = "Block RAMs grow with the mini-batch and with the network: MuJoCo"
    published = published()

    def judge(self, _: pd.DataFrame) -> Finding:
        counts = {benchmark: _counts(benchmark) for benchmark in BENCHMARKS}
        ours = tuple(
            Number(
                f"{benchmark}, P = {SIDE}, M = {batch}: block RAMs",
                value,
                "count",
                Provenance.MODELLED,
                SOURCE,
            )
            for benchmark, values in counts.items()
            for batch, value in zip(MINIBATCHES, values, strict=True)
        )
        grows = all(list(values) == sorted(values) and values[-1] > values[0] for values in counts.values())
        larger = all(b >= a for a, b in zip(counts["Hopper"], counts["Humanoid"], strict=True))
        ratios = [mine.value / printed.value for mine, printed in zip(ours, self.published, strict=True)]
        alike = all(1 / FACTOR <= each <= FACTOR for each in ratios)
        said = (
            f"Ours over the printed ones: {min(ratios):.2g} to {max(ratios):.2g} times; within a factor of {FACTOR} "
            "they agree. Each of four memories a unit (weights, activations with deltas, deltas, products) has P x P "
            "banks, and a bank takes at least half of a block RAM, so small mini-batches take no fewer. This is a "
            "reading: the paper does not say how wide its banks are."
        )
        unknown = "The paper does not say which of its memories are in block RAM."
        return by_a_model(grows and larger and alike, ours, said, unknown=unknown)


class SideIsExplored(Claim):
    """Checks PPO 4 and 5.2: the exploration chooses an array of 16 x 16 for MuJoCo on the U200."""

    key, place, position = "PPO-5.2-choice", "4, 5.2", 5
    statement = "The exploration chooses an array of 16 x 16 for MuJoCo on an Alveo U200"
    published = from_text("PPO.systolic_mujoco")

    def judge(self, _: pd.DataFrame) -> Finding:
        ours, chosen = [], []
        for benchmark in BENCHMARKS:
            best, *others = _designs(benchmark)
            designs = {design.side: design for design in (best, *others)}
            chosen.append(best.side if best.fits else 0)
            title = f"{benchmark}: side of the fastest array that fits"
            ours.append(Number(title, float(chosen[-1]), "count", Provenance.MODELLED, EXPLORED))
            twice = designs[2 * SIDE]
            for resource, value in (("DSPs", twice.dsps), ("block RAMs", twice.block_rams)):
                title = f"{benchmark}, P = {2 * SIDE}: {resource}"
                ours.append(Number(title, float(value), "count", Provenance.MODELLED, EXPLORED))
        device = catalogue.device(DEVICE)
        said = (
            f"The U200 has {device.dsps:,} DSPs and {device.block_rams:,} block RAMs; sides are powers of two, as in "
            "the paper. At 32 x 32 the banks keep the design from fitting, if each of the P x P banks of four memories "
            "in two units takes at least half of a block RAM: this is the assumption on which the choice rests."
        )
        unknown = (
            "The paper states neither its DSPs for an element nor its exploration's result for other sides."
        )
        return by_a_model(chosen == [SIDE] * len(BENCHMARKS), tuple(ours), said, unknown=unknown)
