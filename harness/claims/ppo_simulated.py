"""Checks of PPO's Fig. 12 to 15 over simulated cycles (`harness.accelerator_simulation`).

Where a run holds no such rows, what the formulas say stands alone (`accelerator_cycles`).
"""

import itertools
from typing import Any

import pandas as pd

from harness.accelerator_simulation import AT_ONCE, CORES, LAYOUT_CASES, SPINNING_UP, UPDATES_AN_EPOCH
from harness.claims import accelerator_cycles as modelled
from harness.claims.base import Finding, Outcome
from harness.claims.evidence import detail, last_attempts, records, select
from harness.claims.number import Number, from_text
from harness.provenance import Provenance
from primitives.fpga.gemm_plan import blocks

NS = "NS"


def _rows(frame: pd.DataFrame, key: str) -> list[Any]:
    chosen = select(last_attempts(frame), suite="claim", primitive="matrix_products", quantity="cycles")
    return [row for row in records(chosen) if detail(row, "experiment") == key]


def _number(
    quantity: str, value: float, rows: list[Any], provenance: Provenance = Provenance.SIMULATED
) -> Number:
    source = "cycles of the RTL"
    if provenance is Provenance.PUBLISHED:
        source += " over PPO Table 2's iteration"
    return Number(quantity, value, "%", provenance, source, rows=tuple(sorted({int(r.Index) for r in rows})))


def _gain(row: Any) -> float:
    """By how much the best dataflow is faster than NS, percent."""
    cycles = detail(row, "cycles")
    return float(100 * (cycles[NS] / min(cycles.values()) - 1))


def _chosen_gain(row: Any) -> float:
    """By how much that which Equation 5 chooses is faster than NS on the simulated core, percent."""
    cycles, stated = detail(row, "cycles"), detail(row, "equation_5_cycles")
    return float(100 * (cycles[NS] / cycles[min(stated, key=lambda dataflow: stated[dataflow])] - 1))


def _inferences(rows: list[Any], benchmark: str, side: int, core: str) -> dict[int, Any]:
    """Rows of FW by agents."""
    return {
        int(detail(row, "agents")): row
        for row in rows
        if (detail(row, "benchmark"), detail(row, "side"), detail(row, "core")) == (benchmark, side, core)
        and detail(row, "agents") is not None
    }


def _dataflows(rows: list[Any], benchmark: str, side: int) -> tuple[list[Number], bool, float]:
    """Gains by core and agents; whether those of blocks at once grow as N falls under P; the least by Equation 5."""
    numbers, grows, least = [], True, 0.0
    for core in CORES:
        found = _inferences(rows, benchmark, side, core)
        gains = {agents: _gain(row) for agents, row in sorted(found.items()) if agents <= side}
        for agents in (4, max(gains)):
            title = f"{benchmark}, P = {side}, {core}: gain of inferences over NS, N = {agents}"
            numbers.append(_number(title, gains[agents], [found[agents]]))
        same = [r for r in rows if detail(r, "benchmark") == benchmark and detail(r, "core") == core]
        same = [row for row in same if detail(row, "side") == side]
        worst = min(same, key=_chosen_gain)
        title = f"{benchmark}, P = {side}, {core}: least gain of any process, dataflow by Equation 5"
        numbers.append(_number(title, _chosen_gain(worst), [worst]))
        if core == AT_ONCE:
            grows = all(a > b for a, b in itertools.pairwise(gains.values()))
            least = _chosen_gain(worst)
    return numbers, grows, least


SHORT_PASSES = (
    "Where stationary blocks come in at once, from a memory for every element (PPO Fig. 6), the gain grows as N falls "
    "under P, and the dataflow that Equation 5 chooses is never slower than NS. Where a block comes in row by row, a "
    "pass of N < P vectors waits for the next block, which Equation 5 leaves out: nearly all of the gain is gone, and "
    "its choice can be slower than NS."
)


def dataflow_mujoco(frame: pd.DataFrame) -> Finding:
    """PPO Fig. 12."""
    rows = _rows(frame, "PPO-F12")
    if not rows:
        return modelled.dataflow_mujoco(frame)
    found = [_dataflows(rows, benchmark, 16) for benchmark in ("Hopper", "Humanoid")]
    numbers = tuple(number for numbers, _, _ in found for number in numbers)
    if all(grows and least >= 0 for _, grows, least in found):
        return Finding(Outcome.IN_KIND, numbers, SHORT_PASSES)
    return Finding(
        Outcome.NOT_REPRODUCED, numbers, "The gain does not grow, or the choice is slower than NS."
    )


def dataflow_pong(frame: pd.DataFrame) -> Finding:
    """PPO Fig. 13: P = 32, and the array of 38 x 38 that divides no layer."""
    rows = _rows(frame, "PPO-F13")
    if not rows:
        return modelled.dataflow_pong(frame)
    found = {side: _dataflows(rows, "Pong", side) for side in (32, 38)}
    numbers = [number for numbers, _, _ in found.values() for number in numbers]
    means = {}
    for side in found:
        of_agents = _inferences(rows, "Pong", side, AT_ONCE)
        means[side] = sum(map(_gain, of_agents.values())) / len(of_agents)
        title = f"Pong, P = {side}, {AT_ONCE}: mean gain over {min(of_agents)} to {max(of_agents)} agents"
        numbers.append(_number(title, means[side], list(of_agents.values())))
    holds = found[32][1] and all(least >= 0 for _, _, least in found.values())
    if holds and means[38] > means[32]:
        words = f"{SHORT_PASSES} On average over N an array of 38 x 38 gains more than one of 32 x 32."
        return Finding(Outcome.IN_KIND, tuple(numbers), words)
    words = f"Gains grow: {found[32][1]}; mean gain at 38 x 38 {means[38]:.1f}%, at 32 x 32 {means[32]:.1f}%."
    return Finding(Outcome.NOT_REPRODUCED, tuple(numbers), words)


def blocked_layout(frame: pd.DataFrame) -> Finding:
    """PPO Fig. 14: cycles with the plain layout, each process in its own best dataflow, over those with the blocked."""
    rows = {detail(row, "benchmark"): row for row in _rows(frame, "PPO-F14")}
    if len(rows) < len(LAYOUT_CASES):
        return modelled.blocked_layout(frame)
    published = from_text("PPO.layout_gain_hopper", "PPO.layout_gain_humanoid", "PPO.layout_gain_pong")
    numbers, reached, saves = [], [], []
    for (benchmark, _, iteration), number in zip(LAYOUT_CASES, published, strict=True):
        row, throughput = rows[benchmark], modelled.published_throughput(benchmark)
        update = {layout: sum(cycles.values()) for layout, cycles in detail(row, "cycles").items()}
        saved = (update["plain"] - update["blocked"]) * iteration.updates
        whole = iteration.steps * detail(row, "inference_cycles")
        whole += iteration.updates * (detail(row, "forward_cycles") + update["blocked"])
        gain = 100 * throughput.gain(iteration, saved)
        title = f"{benchmark}: gain of the blocked layout"
        numbers += [
            _number(f"{title} in BW and WU", 100 * (update["plain"] / update["blocked"] - 1), [row]),
            _number(f"{title}, were the accelerator all", 100 * saved / whole, [row]),
            _number(f"{title} in throughput", gain, [row], Provenance.PUBLISHED),
        ]
        reached.append(0.8 * number.value <= gain <= 1.2 * number.value)
        saves.append(saved > 0)
    if all(reached):
        return Finding(Outcome.REPRODUCED, tuple(numbers), "Within a fifth of the published gains.")
    explanation = (
        "The plain layout stalls for about as many cycles as PPO states, one for every P elements that are read across "
        "it, and loses throughput for every benchmark. As a gain in throughput that is less than published: in the "
        "published iterations the array computes for a small part of the time. Were the accelerator all, without host "
        "and transfers, the gains would be of the published size, though not in its order."
    )
    return Finding(Outcome.IN_KIND if all(saves) else Outcome.NOT_REPRODUCED, tuple(numbers), explanation)


def balancing(frame: pd.DataFrame) -> Finding:
    """PPO Fig. 15: the policy stops early, after epochs that the paper does not give; the range over all of them."""
    rows = _rows(frame, "PPO-F15")
    if not rows:
        return modelled.balancing(frame)
    numbers: list[Number] = []
    most: dict[str, float] = {}
    epoch_updates = blocks(SPINNING_UP.samples, SPINNING_UP.minibatch)
    for row in sorted(rows, key=lambda row: (detail(row, "benchmark"), detail(row, "policy_epochs"))):
        benchmark, cycles = detail(row, "benchmark"), detail(row, "cycles")
        saved = (cycles["alone"] - cycles["balanced"]) * epoch_updates / UPDATES_AN_EPOCH
        gain = 100 * modelled.published_throughput(benchmark).gain(SPINNING_UP, saved)
        title = f"{benchmark}: gain of load balancing, policy stops after {detail(row, 'policy_epochs')} of 10 epochs"
        numbers += [
            _number(f"{title}, in training", 100 * (cycles["alone"] / cycles["balanced"] - 1), [row]),
            _number(f"{title}, in throughput", gain, [row], Provenance.PUBLISHED),
        ]
        most[benchmark] = max(gain, most.get(benchmark, gain))
    lowest = from_text("PPO.balance_gain_hopper_low", "PPO.balance_gain_humanoid_low")
    if all(most.get(b, 0) >= n.value for b, n in zip(("Hopper", "Humanoid"), lowest, strict=True)):
        return Finding(Outcome.REPRODUCED, tuple(numbers), "The published gains lie within the range.")
    explanation = (
        "On two units together the rest of the longer network trains about twice as fast, and more is gained for the "
        "larger network; but even a policy that stops after one epoch gains less throughput than the paper's smallest, "
        "since training is a small share of the published iteration."
    )
    ordered = most.get("Humanoid", 0) > most.get("Hopper", 0) > 0
    return Finding(Outcome.IN_KIND if ordered else Outcome.NOT_REPRODUCED, tuple(numbers), explanation)
