"""Checks PPO's Fig. 12 to 15 with formulas for the cycles of the FPGA blocks (`primitives.fpga.cycles`).

This project's formulas equal the RTL's cycles exactly (`tests/primitives/fpga`); the papers' formulas are compared
with them. Neither includes communication and the host. Formulas cannot reproduce a claim: if they agree with the
paper it is consistent, otherwise there is no verdict.

The dataflow of the systolic array is NS, WS or IS: sums, blocks of A or blocks of B stay in its elements. In the order
of Equation 6 the samples are the rows of A in a forward or backward pass, so that there WS keeps samples and IS weights
(`primitives.fpga.cycles.ppo.shapes`). P is the side of the array, N the number of agents.
"""

import itertools
from collections.abc import Callable, Collection
from dataclasses import replace

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers import gains_rule
from placerl.harness.papers.base import Finding, Outcome, by_a_model
from placerl.harness.papers.clocks import OTHER, merged, placed_clock, unplaced, without_placement
from placerl.harness.papers.number import Number, from_cell, from_text
from placerl.harness.papers.ppo.figures_12_15_cycles import AGENTS, BASELINES, SPINNING_UP
from placerl.harness.papers.ppo.published_clocks import published_clock_mhz
from placerl.primitives.fpga.cycles import gains, gemm, networks, ppo

MODELS: dict[str, Callable[..., int]] = {
    "Equation 5": gemm.ppo_cycles,
    "blocks at once": gemm.block_load_cycles,
    "blocks row by row": gemm.core_cycles,
}
UNITS = 2
"""Number of units that train one network together under load balancing, and so its largest speedup."""
CLOCKS = f"PPO's clocks ({published_clock_mhz('Hopper'):g} MHz; Pong {published_clock_mhz('Pong'):g} MHz)"
NO_CLOCK = "These are cycles over cycles: no clock is in them."
LAYOUT_GAINS = ("PPO.layout_gain_hopper", "PPO.layout_gain_humanoid", "PPO.layout_gain_pong")
BALANCE_GAINS = {
    "Hopper": ("PPO.balance_gain_hopper_low", "PPO.balance_gain_hopper_high"),
    "Humanoid": ("PPO.balance_gain_humanoid_low", "PPO.balance_gain_humanoid_high"),
}
"""Keys of the lowest and the highest published gain of load balancing, by benchmark."""


def _modelled(quantity: str, value: float, unit: str, source: str) -> Number:
    return Number(quantity, value, unit, Provenance.MODELLED, source)


def _dataflows(benchmark: str, side: int, iteration: ppo.PpoIteration) -> tuple[list[Number], bool]:
    """Return gains over NS for few and many agents under each model, and whether Equation 5's grow as N falls
    below P.
    """
    layers, numbers, grows = networks.PPO_NETWORKS[benchmark], [], True
    for name, product_cycles in MODELS.items():
        gain = {
            agents: 100
            * ppo.dataflow_gain(
                layers,
                replace(iteration, agents=agents),
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


UNKNOWN = "The formulas know neither how memory feeds the array nor what else bounds it."


def dataflow_mujoco() -> Finding:
    """Check PPO Fig. 12: the best dataflow's gain over NS on MuJoCo grows as agents become fewer than the array's side.

    A dataflow says what stays in the elements of the systolic array: sums (NS), samples (WS) or weights (IS) of a
    forward pass.
    """
    hopper, hopper_grows = _dataflows("Hopper", 16, SPINNING_UP)
    humanoid, humanoid_grows = _dataflows("Humanoid", 16, SPINNING_UP)
    holds = hopper_grows and humanoid_grows
    said = f"{SHORT_PASSES if holds else 'The gain does not grow.'} {NO_CLOCK}"
    return by_a_model(holds, (*hopper, *humanoid), said, unknown=UNKNOWN)


def dataflow_pong() -> Finding:
    """Check PPO Fig. 13: on Pong the best dataflow's gain over NS grows as agents become fewer than the array's side.

    The side is 32. The gain also has to be larger on an array of 38 x 38, a side that divides no layer. A dataflow
    says what stays in the elements of the systolic array: sums (NS), samples (WS) or weights (IS) of a forward pass.
    """
    numbers, grows = _dataflows("Pong", 32, BASELINES)
    odd: dict[str, float] = {}
    for side in (32, 38):
        for name, product_cycles in MODELS.items():
            iteration = replace(BASELINES, agents=16)
            layers = networks.PPO_NETWORKS["Pong"]
            gain = ppo.dataflow_gain(layers, iteration, side=side, product_cycles=product_cycles).total
            odd[f"{name} {side}"] = gain
            title = f"Pong, P = {side}, {name}: gain of an iteration over NS, N = 16"
            numbers.append(_modelled(title, 100 * gain, "%", f"PPO Equations 5 to 8, {name}"))
    holds = grows and all(odd[f"{name} 38"] > odd[f"{name} 32"] for name in MODELS)
    words = f"{SHORT_PASSES} An array of 38 x 38 gains more than one of 32 x 32 under every model."
    said = f"{words if holds else 'The gain does not grow, or is no larger at 38 x 38.'} {NO_CLOCK}"
    return by_a_model(holds, tuple(numbers), said, unknown=UNKNOWN)


def published_throughput(benchmark: str, clock_mhz: float | None = None) -> gains.PublishedThroughput:
    """Return the inferences per second of the accelerator in PPO Table 2, with a clock frequency.

    Args:
        clock_mhz: the clock frequency to return with them, MHz; by default that of PPO 5.2.
    """
    row, column = f"{benchmark}, Spinning Up, CPU-FPGA", "T=512"
    if benchmark == "Pong":
        row, column = "Pong, Baselines, CPU-FPGA", "N=8"
    clock_hz = 1e6 * (published_clock_mhz(benchmark) if clock_mhz is None else clock_mhz)
    return gains.PublishedThroughput(from_cell("ppo_table_2", row, column).value, clock_hz)


PRINTED_TWICE = {"Pong": ("N=8", "T=128")}
"""Columns of PPO Table 2 that print the same iteration with different throughputs (the note `PPO-T2-twice`)."""


def over_every_print(gain: Number, benchmark: str) -> Number:
    """Return a gain in throughput with the interval that the throughputs printed for its iteration span."""
    if benchmark not in PRINTED_TWICE:
        return gain
    row = f"{benchmark}, Baselines, CPU-FPGA"
    printed = [from_cell("ppo_table_2", row, column).value for column in PRINTED_TWICE[benchmark]]
    ends = [gain.value * one / published_throughput(benchmark).samples_per_s for one in printed]
    return replace(gain, low=min(ends), high=max(ends))


def at_both_clocks(finding_at: Callable[[float | None], Finding], blocks: Collection[str]) -> Finding:
    """Return one finding from the findings at PPO's clock frequencies and at the placed clock.

    The placed clock is that of the slowest placed block of the design. If the two outcomes differ,
    `harness.papers.clocks.merged` says which one is returned; if a block was not placed, `without_placement` does.

    Args:
        finding_at: returns the finding at a clock frequency in MHz; called with None for PPO's own frequencies.
    """
    assumed = finding_at(None)
    if missing := unplaced(blocks):
        other_mhz = OTHER * published_clock_mhz("Hopper")
        return without_placement(assumed, finding_at(other_mhz), missing)
    placed = placed_clock(blocks)
    return merged(assumed, finding_at(placed.mhz), CLOCKS, placed)


def _as_formula(outcome: Outcome, ours: list[Number], said: str, unknown: str) -> Finding:
    """Return the outcome of the rule for modelled gains: a formula agrees only if the factor also does."""
    return by_a_model(outcome is Outcome.REPRODUCED, tuple(ours), said, unknown=unknown)


def blocked_layout(decides: str) -> Finding:
    """Check PPO Fig. 14 by formulas: the blocked layout of operands in memory raises throughput.

    The gain is the number of stall cycles that the layout saves, relative to the published time of an iteration, both
    at PPO's clock.

    Args:
        decides: what would decide an outcome `no verdict`.
    """
    numbers: list[Number] = []
    stated_gains: list[Number] = []
    for benchmark in ("Hopper", "Humanoid", "Pong"):
        side, iteration = (32, BASELINES) if benchmark == "Pong" else (16, SPINNING_UP)
        layers, throughput = networks.PPO_NETWORKS[benchmark], published_throughput(benchmark)
        stated = 100 * gains.layout_gain(layers, iteration, throughput, side=side)
        gathered = 100 * gains.layout_gain(layers, iteration, throughput, side=side, dataflow="NS")
        alone = 100 * gains.accelerator_layout_gain(layers, iteration, side=side)
        busy_s = ppo.iteration_cycles(layers, iteration, side=side).total / throughput.clock_hz
        busy = 100 * busy_s * throughput.samples_per_s / iteration.samples
        title, source = f"{benchmark}: gain of the blocked layout", "over PPO Table 2's iteration"
        gain = _modelled(f"{title}, stalls as PPO states them", stated, "%", source)
        stated_gains.append(over_every_print(gain, benchmark))
        numbers += [
            stated_gains[-1],
            _modelled(f"{title}, stalls of the RTL in NS", gathered, "%", source),
            _modelled(f"{title}, were the accelerator all", alone, "%", "PPO Equations 5 to 8"),
            _modelled(
                f"{benchmark}: share of the published iteration that the array computes", busy, "%", source
            ),
        ]
    said = (
        "At PPO's clock and by its own stalls, a cycle for every P elements read across the layout, the blocked layout "
        "gains less than published, since the array computes for a part of the published iterations only."
    )
    unknown = (
        "The formulas do not know the plain layout that PPO measured, whose cycles only the lost Fig. 14 shows, nor "
        "the time of host and transfers."
    )
    published = [(n.value, n.value) for n in from_text(*LAYOUT_GAINS)]
    found = _as_formula(gains_rule.judged(stated_gains, published), numbers, said, unknown)
    return replace(found, decides=decides) if found.outcome is Outcome.NO_VERDICT else found
