"""Checks of PPO's Fig. 12 to 15 over the cycle models of the FPGA blocks (`primitives.fpga.cycles`).

The models' closed forms hold for the RTL to the cycle (`tests/primitives/fpga`); the papers' formulas stand beside
them. Communication and the host are in neither.
"""

import itertools
from collections.abc import Callable

import pandas as pd

from harness.accelerator_simulation import AGENTS, BASELINES, SPINNING_UP
from harness.claims.base import Finding, Outcome
from harness.claims.number import Number, from_cell, from_text
from harness.provenance import Provenance
from primitives.fpga.cycles import gains, gemm, networks, ppo

MODELS: dict[str, Callable[..., int]] = {
    "Equation 5": gemm.ppo_cycles,
    "blocks at once": gemm.block_load_cycles,
    "blocks row by row": gemm.core_cycles,
}
CLOCKS_HZ = {"Hopper": 285e6, "Humanoid": 285e6, "Pong": 300e6}  # PPO 5.2


def _modelled(quantity: str, value: float, unit: str, source: str) -> Number:
    return Number(quantity, value, unit, Provenance.MODELLED, source)


def _dataflows(
    benchmark: str, side: int, steps: int, minibatch: int, epochs: int
) -> tuple[list[Number], bool]:
    """Gains over NS for few and many agents under each model; whether Equation 5's grow as N falls under P."""
    layers, numbers, grows = networks.PPO_NETWORKS[benchmark], [], True
    for name, product_cycles in MODELS.items():
        gain = {
            agents: 100
            * ppo.dataflow_gain(
                layers,
                ppo.Iteration(agents, steps, minibatch, epochs),
                side=side,
                product_cycles=product_cycles,
            ).inference
            for agents in AGENTS
        }
        for agents in (4, side):
            value = gain.get(agents, gain[max(n for n in AGENTS if n <= agents)])
            title = f"{benchmark}, P = {side}, {name}: gain of inferences over NS, N = {min(agents, side)}"
            numbers.append(_modelled(title, value, "%", f"PPO Equations 5 to 8, {name}"))
        if name == "Equation 5":
            below = [gain[agents] for agents in AGENTS if agents <= side]
            grows = all(a > b for a, b in itertools.pairwise(below))
    return numbers, grows


SHORT_PASSES = (
    "Under Equation 5 the gain grows as N falls under P and is never below 0. It rests on stationary blocks that "
    "come in at once, from a memory for every element. Where a block comes in row by row, as over the array's "
    "columns, a pass of N < P vectors waits for the next block, and nearly all of the gain is gone."
)


def dataflow_mujoco(_: pd.DataFrame) -> Finding:
    """PPO Fig. 12."""
    hopper, hopper_grows = _dataflows("Hopper", 16, 512, 512, 10)
    humanoid, humanoid_grows = _dataflows("Humanoid", 16, 512, 512, 10)
    holds = hopper_grows and humanoid_grows
    outcome = Outcome.IN_KIND if holds else Outcome.NOT_REPRODUCED
    return Finding(outcome, (*hopper, *humanoid), SHORT_PASSES if holds else "The gain does not grow.")


def dataflow_pong(_: pd.DataFrame) -> Finding:
    """PPO Fig. 13: P = 32, and the array of 38 x 38 that divides no layer."""
    numbers, grows = _dataflows("Pong", 32, 128, 128, 3)
    odd: dict[str, float] = {}
    for side in (32, 38):
        for name, product_cycles in MODELS.items():
            iteration = ppo.Iteration(16, 128, 128, 3)
            layers = networks.PPO_NETWORKS["Pong"]
            gain = ppo.dataflow_gain(layers, iteration, side=side, product_cycles=product_cycles).total
            odd[f"{name} {side}"] = gain
            title = f"Pong, P = {side}, {name}: gain of an iteration over NS, N = 16"
            numbers.append(_modelled(title, 100 * gain, "%", f"PPO Equations 5 to 8, {name}"))
    holds = grows and all(odd[f"{name} 38"] > odd[f"{name} 32"] for name in MODELS)
    outcome = Outcome.IN_KIND if holds else Outcome.NOT_REPRODUCED
    words = f"{SHORT_PASSES} An array of 38 x 38 gains more than one of 32 x 32 under every model."
    return Finding(outcome, tuple(numbers), words if holds else "The gain is no larger at 38 x 38.")


def published_throughput(benchmark: str) -> gains.Throughput:
    """Inferences a second of PPO Table 2, at the clock of PPO 5.2."""
    row, column = f"{benchmark}, Spinning Up, CPU-FPGA", "T=512"
    if benchmark == "Pong":
        row, column = "Pong, Baselines, CPU-FPGA", "N=8"
    return gains.Throughput(from_cell("ppo_table_2", row, column).value, CLOCKS_HZ[benchmark])


def blocked_layout(_: pd.DataFrame) -> Finding:
    """PPO Fig. 14: stalls that the blocked layout saves, over the published time of an iteration."""
    published = from_text("PPO.layout_gain_hopper", "PPO.layout_gain_humanoid", "PPO.layout_gain_pong")
    numbers, outcomes, shares = [], [], []
    for benchmark, number in zip(("Hopper", "Humanoid", "Pong"), published, strict=True):
        side, iteration = (32, BASELINES) if benchmark == "Pong" else (16, SPINNING_UP)
        layers, throughput = networks.PPO_NETWORKS[benchmark], published_throughput(benchmark)
        stated = 100 * gains.layout_gain(layers, iteration, throughput, side=side)
        gathered = 100 * gains.layout_gain(layers, iteration, throughput, side=side, dataflow="NS")
        alone = 100 * gains.accelerator_layout_gain(layers, iteration, side=side)
        title, source = f"{benchmark}: gain of the blocked layout", "over PPO Table 2's iteration"
        numbers += [
            _modelled(f"{title}, stalls as PPO states them", stated, "%", source),
            _modelled(f"{title}, stalls of the RTL in NS", gathered, "%", source),
            _modelled(f"{title}, were the accelerator all", alone, "%", "PPO Equations 5 to 8"),
        ]
        cycles = ppo.iteration_cycles(layers, iteration, side=side).total
        shares.append(cycles / CLOCKS_HZ[benchmark] * throughput.samples_per_s / iteration.samples)
        outcomes.append(max(stated, gathered) >= 0.8 * number.value)
    explanation = (
        "The layout saves cycles for every benchmark, but fewer than published: by Equations 5 to 8 the array "
        f"computes for {min(shares):.0%} to {max(shares):.0%} of the published iterations. Were the accelerator all, "
        "without host and transfers, PPO's own stalls, a cycle for every P elements, would bound the gain."
    )
    return Finding(
        Outcome.REPRODUCED if all(outcomes) else Outcome.NOT_REPRODUCED, tuple(numbers), explanation
    )


def balancing(_: pd.DataFrame) -> Finding:
    """PPO Fig. 15: the policy stops early, after epochs that the paper does not give; the range over all of them."""
    numbers: list[Number] = []
    most: dict[str, float] = {}
    for benchmark in ("Hopper", "Humanoid"):
        policy = networks.PPO_NETWORKS[benchmark]
        value = (*policy[:-1], networks.Layer(policy[-1].inputs, 1))
        for epochs in (1, 9):
            gain = 100 * gains.balance_gain(
                policy,
                value,
                SPINNING_UP,
                published_throughput(benchmark),
                policy_epochs=epochs,
                side=16,
            )
            title = f"{benchmark}: gain of load balancing, policy stops after {epochs} of 10 epochs"
            numbers.append(_modelled(title, gain, "%", "PPO Equations 5 to 8 over PPO Table 2's iteration"))
            most.setdefault(benchmark, gain)
    lowest = from_text("PPO.balance_gain_hopper_low", "PPO.balance_gain_humanoid_low")
    reached = all(most[name] >= n.value for name, n in zip(most, lowest, strict=True))
    ordered = most["Humanoid"] > most["Hopper"] > 0
    explanation = (
        "Balancing gains, and more for the larger network; but even a policy that stops after one epoch gains less "
        "than the paper's smallest, since by Equations 5 to 8 training is a small share of the published iteration."
    )
    if reached:
        return Finding(Outcome.REPRODUCED, tuple(numbers), "The published gains lie within the range.")
    return Finding(Outcome.IN_KIND if ordered else Outcome.NOT_REPRODUCED, tuple(numbers), explanation)
