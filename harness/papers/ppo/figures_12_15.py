"""Checks PPO's Fig. 12 to 15 with simulated cycles (`harness.papers.ppo.figures_12_15_cycles`).

If no cycles were simulated, only formulas are used (`cycle_models`, which explains the dataflows NS, WS and IS). One
rule judges both simulated and modelled gains (`gains_rule`).
"""

import itertools
from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers import charts, gains_rule
from placerl.harness.papers.assumptions import both_outcomes
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.charts import Panel, Panels
from placerl.harness.papers.clocks import FLOAT32_PRODUCTS
from placerl.harness.papers.evidence import last_attempts, rows_of
from placerl.harness.papers.experiments import Experiment
from placerl.harness.papers.number import Number, from_text
from placerl.harness.papers.ppo import cycle_models as modelled
from placerl.harness.papers.ppo import early_stops, figures_12_15_cycles, judged_stops
from placerl.harness.papers.ppo.figures_12_15_cycles import (
    AT_ONCE,
    BALANCING,
    CORES,
    DATAFLOWS_MUJOCO,
    DATAFLOWS_PONG,
    FLOAT32,
    LAYOUT_CASES,
    LAYOUTS,
)

NS = "NS"
LAYOUT_ROWS = (
    "cycles of the float32 array in both layouts (`placerl reproduce --only PPO-F14 --tier standard`)"
)
"""What decides PPO-F14 where its rows are missing."""


def _rows(frame: pd.DataFrame, experiment: Experiment) -> list[Any]:
    return rows_of(last_attempts(frame), experiment, "cycles", primitive="matrix_products")


def _number(
    quantity: str, value: float, rows: list[Any], provenance: Provenance = Provenance.SIMULATED
) -> Number:
    source = "cycles of the RTL"
    if provenance is Provenance.PUBLISHED:
        source += " over PPO Table 2's iteration"
    return Number(quantity, value, "%", provenance, source, rows=tuple(sorted({int(r.Index) for r in rows})))


def _gain(row: Any) -> float:
    """Return the gain of the best dataflow over NS, percent."""
    cycles = row.parameters.cycles
    return float(100 * (cycles[NS] / min(cycles.values()) - 1))


def _chosen_gain(row: Any) -> float:
    """Return the gain over NS of the dataflow that Equation 5 chooses, on the simulated core, percent."""
    cycles, stated = row.parameters.cycles, row.parameters.equation_5_cycles
    return float(100 * (cycles[NS] / cycles[min(stated, key=lambda dataflow: stated[dataflow])] - 1))


def _inferences(rows: list[Any], benchmark: str, side: int, core: str) -> dict[int, Any]:
    """Return the rows of FW by agents."""
    return {
        row.parameters.agents: row
        for row in rows
        if (row.parameters.benchmark, row.parameters.side, row.parameters.core) == (benchmark, side, core)
        and row.parameters.agents is not None
    }


def _judged_core(rows: list[Any]) -> str:
    """Return the core whose gains are judged: PPO's is of float32, which rows of earlier versions lack."""
    return FLOAT32 if any(row.parameters.core == FLOAT32 for row in rows) else AT_ONCE


def _dataflows(rows: list[Any], benchmark: str, side: int) -> tuple[list[Number], bool, float]:
    """Return gains by core and agents, and of the judged core whether they grow as N falls below P, and Equation
    5's smallest.
    """
    numbers, grows, least = [], True, 0.0
    for core in CORES:
        by_agents = _inferences(rows, benchmark, side, core)
        if not by_agents:
            continue
        gains = {agents: _gain(row) for agents, row in sorted(by_agents.items()) if agents <= side}
        for agents in dict.fromkeys((min(gains), 4, max(gains))):
            title = f"{benchmark}, P = {side}, {core}: gain of inferences over NS, N = {agents}"
            numbers.append(_number(title, gains[agents], [by_agents[agents]]))
        same = [r for r in rows if r.parameters.benchmark == benchmark and r.parameters.core == core]
        same = [row for row in same if row.parameters.side == side]
        worst = min(same, key=_chosen_gain)
        title = f"{benchmark}, P = {side}, {core}: least gain of any process, dataflow by Equation 5"
        numbers.append(_number(title, _chosen_gain(worst), [worst]))
        if core == _judged_core(rows):
            grows = all(a > b for a, b in itertools.pairwise(gains.values()))
            least = _chosen_gain(worst)
    return numbers, grows, least


SHORT_PASSES = (
    "On a core of float32, PPO's numbers, and on one of integers whose stationary blocks come in at once, from a "
    "memory for every element (PPO Fig. 6), the gain grows as N falls under P, and the dataflow that Equation 5 "
    "chooses is never slower than NS. With one agent the gain is the smaller one in float32, where a pass has a least "
    "length. Where a block comes in row by row, a pass of N < P vectors waits for the next block, which Equation 5 "
    "leaves out: nearly all of the gain is gone, and its choice can be slower than NS."
)


def _layout_rows(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the rows of a core of float32 in both layouts by benchmark; empty unless every one has its row."""
    rows = {row.parameters.benchmark: row for row in _rows(frame, LAYOUTS) if row.parameters.core == FLOAT32}
    return rows if len(rows) == len(LAYOUT_CASES) else {}


def _blocked_layout(rows: Mapping[str, Any]) -> Finding:
    """Return the finding on the blocked layout, whatever the clock is at which both layouts run.

    An iteration takes h + c x, where h is the time of host and transfers, c the accelerator's cycles, and x the time
    of a cycle. The plain layout takes s cycles more, so that the gain s x / (h + c x) grows with x, from that at PPO's
    clock, at which h + c x is the published time, to s / c. The ratio of two benchmarks' gains goes one way from one
    end to the other, too, so that an order that both ends have is that of every slower clock.
    """
    numbers: list[Number] = []
    over_published: list[Number] = []
    alone: list[Number] = []
    times_stated = []
    for benchmark, _, iteration in LAYOUT_CASES:
        row = rows[benchmark]
        update = {layout: sum(cycles.values()) for layout, cycles in row.parameters.cycles.items()}
        saved = (update["plain"] - update["blocked"]) * iteration.updates
        whole = iteration.steps * row.parameters.inference_cycles
        whole += iteration.updates * (row.parameters.forward_cycles + update["blocked"])
        gain = 100 * modelled.published_throughput(benchmark).gain(iteration, saved)
        title = f"{benchmark}: gain of the blocked layout"
        number = _number(f"{title} in throughput", gain, [row], Provenance.PUBLISHED)
        over_published.append(modelled.over_every_print(number, benchmark))
        alone.append(_number(f"{title}, were the accelerator all", 100 * saved / whole, [row]))
        times_stated.append(sum(row.parameters.stalls.values()) / row.parameters.stated_stalls)
        numbers += [
            _number(f"{title} in BW and WU", 100 * (update["plain"] / update["blocked"] - 1), [row]),
            alone[-1],
            over_published[-1],
        ]
    published = [(n.value, n.value) for n in from_text(*modelled.LAYOUT_GAINS)]
    ends = [gains_rule.judged(gains, published) for gains in (over_published, alone)]
    explanation = (
        f"The plain layout stalls for {min(times_stated):.2g} to {max(times_stated):.2g} times as many cycles as PPO "
        "states, which are one for every P elements that are read across it. Both layouts feed the same float32 array, "
        "so that they run at one clock. The gains in throughput, cycles saved over the published iteration: "
        f"{ends[0]}; they are small where the array computes for a small part of it. Were the accelerator all, without "
        f"host and transfers: {ends[1]}. At a slower clock than PPO's every gain is between these two, so that it "
        "takes no clock of a placed block."
    )
    return Finding(both_outcomes(*ends), tuple(numbers), explanation)


def _gain_panel(rows: list[Any], benchmark: str, side: int) -> Panel:
    lines = []
    for core in CORES:
        by_agents = sorted(_inferences(rows, benchmark, side, core).items())
        points = [(agents, _number(core, _gain(row), [row])) for agents, row in by_agents]
        lines.append(charts.line(core, points))
    title = f"{benchmark}, array of {side} x {side}"
    return Panel("agents N", "gain over NS (%)", lines, title, log_x=True)


class DataflowGainsMujoco(Claim):
    """Checks PPO Fig. 12: the best dataflow's gain over NS on MuJoCo grows as agents become fewer.

    A dataflow says what stays in the elements of the systolic array: sums (NS), samples (WS) or weights (IS) of a
    forward pass.
    """

    key, place, position = "PPO-F12", "5.3.2, Fig. 12", 11
    statement = "Choosing the dataflow gains most when the batch is smaller than the array: MuJoCo"
    published = from_text("PPO.systolic_mujoco")
    measured_by = (figures_12_15_cycles.cells(DATAFLOWS_MUJOCO),)

    def judge(self, frame: pd.DataFrame) -> Finding:
        rows = _rows(frame, DATAFLOWS_MUJOCO)
        if not rows:
            return modelled.dataflow_mujoco()
        dataflows = [_dataflows(rows, benchmark, 16) for benchmark in ("Hopper", "Humanoid")]
        numbers = tuple(number for numbers, _, _ in dataflows for number in numbers)
        if all(grows and least >= 0 for _, grows, least in dataflows):
            return Finding(Outcome.IN_KIND, numbers, f"{SHORT_PASSES} {modelled.NO_CLOCK}")
        said = f"The gain does not grow, or the choice is slower than NS. {modelled.NO_CLOCK}"
        return Finding(Outcome.NOT_REPRODUCED, numbers, said)

    def panels(self, frame: pd.DataFrame) -> Panels:
        rows = _rows(frame, DATAFLOWS_MUJOCO)
        return [_gain_panel(rows, benchmark, 16) for benchmark in ("Hopper", "Humanoid")]


class DataflowGainsPong(Claim):
    """Checks PPO Fig. 13: on Pong the best dataflow's gain over NS grows as agents become fewer.

    The arrays have 32 x 32 and 38 x 38 elements. The side 38 divides no layer, and its mean gain has to be larger. A
    dataflow says what stays in the elements of the systolic array: sums (NS), samples (WS) or weights (IS) of a forward
    pass.
    """

    key, place, position = "PPO-F13", "5.3.2, Fig. 13", 12
    statement = "The same for Pong, and more where the array divides no layer"
    published = from_text("PPO.systolic_atari", "PPO.systolic_odd")
    measured_by = (figures_12_15_cycles.cells(DATAFLOWS_PONG),)

    def judge(self, frame: pd.DataFrame) -> Finding:
        rows = _rows(frame, DATAFLOWS_PONG)
        if not rows:
            return modelled.dataflow_pong()
        by_side = {side: _dataflows(rows, "Pong", side) for side in (32, 38)}
        numbers = [number for numbers, _, _ in by_side.values() for number in numbers]
        means = {}
        for side in by_side:
            core = _judged_core(rows)
            of_agents = _inferences(rows, "Pong", side, core)
            means[side] = sum(map(_gain, of_agents.values())) / len(of_agents)
            title = f"Pong, P = {side}, {core}: mean gain over {min(of_agents)} to {max(of_agents)} agents"
            numbers.append(_number(title, means[side], list(of_agents.values())))
        holds = by_side[32][1] and all(least >= 0 for _, _, least in by_side.values())
        if holds and means[38] > means[32]:
            words = f"{SHORT_PASSES} On average over N an array of 38 x 38 gains more than one of 32 x 32."
            return Finding(Outcome.IN_KIND, tuple(numbers), f"{words} {modelled.NO_CLOCK}")
        words = f"Gains grow: {by_side[32][1]}; mean gain at 38 x 38 {means[38]:.1f}%, at 32 x 32 {means[32]:.1f}%."
        return Finding(Outcome.NOT_REPRODUCED, tuple(numbers), f"{words} {modelled.NO_CLOCK}")

    def panels(self, frame: pd.DataFrame) -> Panels:
        rows = _rows(frame, DATAFLOWS_PONG)
        return [_gain_panel(rows, "Pong", side) for side in (32, 38)]


class BlockedLayoutGains(Claim):
    """Checks PPO Fig. 14: the blocked layout of operands in memory raises throughput over the plain one.

    Simulated cycles of the float32 array with both layouts are compared, each with its best dataflow. That every gain
    is above 0 does not support the statement: the gains have to be as large as stated, or in the stated order.

    No clock of a placed block is needed. The layouts differ in A's memory alone: array, activation units and Adam are
    the same, and PPO compares both at one clock. The published iteration was timed at PPO's, and at a slower one each
    gain lies between that over the published iteration and that of the accelerator alone (`_blocked_layout`). So the
    rule is applied at both ends, and a gain refutes only if it does at both (`assumptions.both_outcomes`).
    """

    key, place, position = "PPO-F14", "5.3.3, Fig. 14", 13
    statement = (
        "The blocked layout raises throughput, by 23.5% for Hopper, 21.2% for Humanoid and 11.2% for Pong"
    )
    published = from_text("PPO.layout_gain_hopper", "PPO.layout_gain_humanoid", "PPO.layout_gain_pong")
    measured_by = (figures_12_15_cycles.cells(LAYOUTS),)

    def judge(self, frame: pd.DataFrame) -> Finding:
        rows = _layout_rows(frame)
        return _blocked_layout(rows) if rows else modelled.blocked_layout(LAYOUT_ROWS)

    def panels(self, frame: pd.DataFrame) -> Panels:
        rows = _layout_rows(frame)
        percents = {
            benchmark: 100 * (sum(cycles["plain"].values()) / sum(cycles["blocked"].values()) - 1)
            for benchmark, row in rows.items()
            if (cycles := row.parameters.cycles)
        }
        published = from_text(*modelled.LAYOUT_GAINS)
        names = [benchmark for benchmark, _, _ in LAYOUT_CASES]
        ours = [(name, _number(name, percents[name], [rows[name]])) for name in names if name in percents]
        lines = [
            charts.line("BW and WU alone", ours),
            charts.line("throughput", list(zip(names, published, strict=True))),
        ]
        return [Panel("benchmark", "gain of the blocked layout (%)", lines)]


class BalancingGains(Claim):
    """Checks PPO Fig. 15: load balancing between two compute units raises throughput.

    Trainings show after how many updates the policy stops (`judged_stops`), which the paper does not say.
    """

    key, place, position = "PPO-F15", "5.3.4, Fig. 15", 14
    statement = "Load balancing raises throughput in the first iterations"
    published = from_text(
        "PPO.balance_gain_hopper_high",
        "PPO.balance_gain_hopper_low",
        "PPO.balance_gain_humanoid_high",
        "PPO.balance_gain_humanoid_low",
    )
    needs = "trainings of Hopper and Humanoid whose policy stops early (claim/PPO-F15-stops, tier standard)"
    measured_by = (figures_12_15_cycles.cells(BALANCING), early_stops.cells)

    def judge(self, frame: pd.DataFrame) -> Finding:
        stopped = judged_stops.stopped(frame)
        if not stopped:
            return Finding(Outcome.NOT_RUN, needs=self.needs)
        return modelled.at_both_clocks(partial(judged_stops.finding, stopped), FLOAT32_PRODUCTS)

    def panels(self, frame: pd.DataFrame) -> Panels:
        lines: dict[str, list[tuple[str, Number]]] = {}
        for benchmark in modelled.BALANCE_GAINS:
            for row in _rows(frame, BALANCING):
                if row.parameters.benchmark == benchmark:
                    cycles, epochs = row.parameters.cycles, row.parameters.policy_epochs
                    gain = 100 * (cycles["alone"] / cycles["balanced"] - 1)
                    core = row.parameters.core or AT_ONCE
                    label = f"training alone, {core}, policy stops after epoch {epochs}"
                    lines.setdefault(label, []).append((benchmark, _number(label, gain, [row])))
        for index, word in enumerate(("least", "most")):
            some = [(name, from_text(keys[index])[0]) for name, keys in modelled.BALANCE_GAINS.items()]
            lines[f"throughput, {word}"] = some
        series = [charts.line(label, points) for label, points in lines.items()]
        of_epochs = Panel("benchmark", "gain of load balancing (%)", series)
        return [of_epochs, *judged_stops.panels(judged_stops.stopped(frame))]
