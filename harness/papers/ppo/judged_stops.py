"""Judges load balancing by the updates after which PPO's policy stopped in trainings (PPO Fig. 15; `early_stops`).

As the paper does, the running average of the throughput is compared with that without load balancing, after each of
the first iterations. The cycles that balancing saves count relative to the published iteration, whose time is that of
host, transfers and accelerator.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from statistics import median
from typing import Any

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers import charts, gains_rule
from placerl.harness.papers.base import Finding
from placerl.harness.papers.charts import Panel
from placerl.harness.papers.evidence import last_attempts, rows_of
from placerl.harness.papers.number import Number, bounded_speedup, from_text
from placerl.harness.papers.ppo.cycle_models import BALANCE_GAINS, UNITS, published_throughput
from placerl.harness.papers.ppo.early_stops import COUNT, EXPERIMENT
from placerl.primitives.fpga.cycles.load_balancing import trained_cycles
from placerl.primitives.fpga.cycles.ppo import PpoIteration

SOURCES = {
    Provenance.MEASURED: "trainings with early stopping",
    Provenance.MODELLED: "measured stops, cycles of the float32 accelerator",
    Provenance.PUBLISHED: "measured stops, cycles of the float32 accelerator over PPO Table 2's iteration",
}


def stopped(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the trainings by benchmark; empty unless every robot of the figure was trained."""
    rows: dict[str, list[Any]] = {}
    for row in rows_of(last_attempts(frame), EXPERIMENT, COUNT):
        rows.setdefault(row.parameters.benchmark, []).append(row)
    return rows if rows.keys() == BALANCE_GAINS.keys() else {}


def _cycles(row: Any) -> list[tuple[int, int]]:
    """Return the cycles of the training up to each iteration, without load balancing and with it."""
    stated, updates = row.parameters, PpoIteration(**row.parameters.iteration).updates
    each = (
        [
            trained_cycles(stated.update_cycles, stated.shared_cycles, (count, updates), balanced=balanced)
            for count in stated.policy_updates
        ]
        for balanced in (False, True)
    )
    return list(zip(*map(accumulate, each), strict=True))


def running_gains(row: Any, clock_mhz: float | None) -> list[float]:
    """Return the gain of load balancing in the running average of the throughput, percent, after each iteration.

    Args:
        clock_mhz: the accelerator's clock; None: that of PPO 5.2.
    """
    throughput = published_throughput(row.parameters.benchmark, clock_mhz)
    iteration = PpoIteration(**row.parameters.iteration)
    return [
        100 * throughput.gain(iteration, (alone - balanced) / count)
        for count, (alone, balanced) in enumerate(_cycles(row), 1)
    ]


def _spanned(
    quantity: str, values: Sequence[float], unit: str, provenance: Provenance, rows: Sequence[Any]
) -> Number:
    """Return the median over trainings; its interval spans all of them."""
    source = SOURCES[provenance]
    labels = tuple(int(row.Index) for row in rows)
    return Number(quantity, median(values), unit, provenance, source, min(values), max(values), labels)


def finding(rows: Mapping[str, Sequence[Any]], clock_mhz: float | None) -> Finding:
    """Return the finding at a clock, from the trainings of every robot.

    Args:
        clock_mhz: the accelerator's clock; None: that of PPO 5.2.
    """
    numbers: list[Number] = []
    ranges: list[Number] = []
    published = []
    said = []
    for benchmark, keys in BALANCE_GAINS.items():
        some = rows[benchmark]
        iteration = PpoIteration(**some[0].parameters.iteration)
        gains = list(zip(*(running_gains(row, clock_mhz) for row in some), strict=True))
        counts = list(zip(*(row.parameters.policy_updates for row in some), strict=True))
        last = len(gains)
        for number in (1, last):
            stops = f"{benchmark}: updates of the policy in iteration {number}, of {iteration.updates}"
            numbers += [
                _spanned(stops, counts[number - 1], "count", Provenance.MEASURED, some),
                _spanned(_title(benchmark, number), gains[number - 1], "%", Provenance.PUBLISHED, some),
            ]
        ratios = [alone / balanced for alone, balanced in (_cycles(row)[-1] for row in some)]
        trained = f"{benchmark}: cycles of training over balanced ones, {last} iterations"
        numbers.append(bounded_speedup(_spanned(trained, ratios, "ratio", Provenance.MODELLED, some), UNITS))
        spread = [gain for each in gains for gain in each]
        ranges.append(_spanned(benchmark, spread, "%", Provenance.PUBLISHED, some))
        published.append((from_text(keys[0])[0].value, from_text(keys[1])[0].value))
        change = "falls" if max(gains[-1]) < min(gains[0]) else "does not fall"
        throughput = published_throughput(benchmark, clock_mhz)
        share = throughput.gain(iteration, max(some[0].parameters.update_cycles) * iteration.updates)
        said.append(
            f"{benchmark}'s policy takes {median(counts[0]):g} of {iteration.updates} updates in the first iteration "
            f"and {median(counts[-1]):g} in number {last}, and the running gain {change} (trainings: {len(some)}); "
            f"training all epochs takes {share:.0%} of the published iteration, of which two units save half at most."
        )
    return Finding(gains_rule.judged(ranges, published), tuple(numbers), " ".join(said))


def _title(benchmark: str, iterations: int) -> str:
    return f"{benchmark}: gain of load balancing in throughput, running average of {iterations} iterations"


def panels(rows: Mapping[str, Sequence[Any]]) -> list[Panel]:
    """Return the running gains of training alone, and the published ones in throughput, one panel per robot."""
    drawn = []
    for benchmark, some in rows.items():
        label = "training alone, measured stops"
        gains = zip(*([100 * (a / b - 1) for a, b in _cycles(row)] for row in some), strict=True)
        points = [
            (number, _spanned(label, values, "%", Provenance.MODELLED, some))
            for number, values in enumerate(gains, 1)
        ]
        low, high = (from_text(key)[0] for key in BALANCE_GAINS[benchmark])
        lines = [
            charts.line(label, points),
            charts.line("throughput", [(1, high), (len(points), low)]),
        ]
        drawn.append(Panel("iterations", "running gain of load balancing (%)", lines, benchmark))
    return drawn
