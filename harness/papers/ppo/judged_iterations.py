"""Judges PPO's iterations on CPU and accelerator in virtual time (PPO Table 2, Fig. 10 and 11; `virtual_iterations`).

The iterations have everything that PPO names: environments, advantages, mini-batches, the objective, transfers, the
products and Adam. Their cycles are partly modelled, so they can agree with a statement but not refute it
(`base.by_a_model`). MAP states no latency for its link, which is PPO's too; 1 ms is what PRL's authors list for another
board (`predict.slow_link`). Each gain is stated without one and with 1 ms.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.core.provenance import Provenance
from harness.core.suites import Suite
from harness.mapping.predict import slow_link
from harness.measure import statistics
from harness.papers.base import Finding, Outcome
from harness.papers.evidence import detail, records, select
from harness.papers.number import Number
from harness.papers.ppo.table_2_iterations import BENCHMARKS, EXPERIMENT, TIME
from primitives.fpga.cycles.ppo import PpoIteration

DEVICE = "fpga:u200"
PARTS = {
    "training": (("learner", "learner_links", "deal", "objective"), "learner"),
    "inference": (("infer", "infer_links", "draw"), "infer"),
}
"""The terms of each part in virtual time, and the term that it is on the CPU alone."""
TRANSFERS = {"training": 3, "inference": 2}
"""Transfers for a mini-batch, and for an inference (PPO 3)."""
UNKNOWN = "The cycles are partly modelled, and the latency of a transfer is not known: this refutes nothing."


class Joined(NamedTuple):
    """An iteration on CPU and accelerator in virtual time.

    Attributes:
        row: its stored measurement.
        clock_mhz: the accelerator's clock at which it is judged.
    """

    row: Any
    clock_mhz: float

    def terms_s(self, *names: str) -> npt.NDArray:
        """Return the sum of the seconds of some parts, one per iteration that was run, at the clock."""
        terms, stretched = detail(self.row, "terms_s"), detail(self.row, "design_mhz") / self.clock_mhz
        made: npt.NDArray = sum(
            (stretched if name in ("infer", "learner") else 1.0) * np.array(terms[name]) for name in names
        )  # type: ignore[assignment]
        return made

    def wall_s(self, latency_s: float) -> npt.NDArray:
        """Return the seconds of the whole iteration, one per iteration that was run.

        Args:
            latency_s: latency of each transfer, seconds.
        """
        terms = detail(self.row, "terms_s")
        device_s = np.array(terms["infer"]) + np.array(terms["learner"])
        slower_s = self.terms_s("infer", "learner") - device_s
        return np.array(self.row.samples) + slower_s + latency_s * detail(self.row, "transfers")

    def part_s(self, name: str, iteration: PpoIteration, latency_s: float) -> npt.NDArray:
        """Return the seconds of "training" or "inference", one per iteration that was run.

        Args:
            name: the part.
            iteration: the iteration's sizes.
            latency_s: latency of each transfer, seconds.
        """
        count = TRANSFERS[name] * (iteration.updates if name == "training" else iteration.steps)
        return self.terms_s(*PARTS[name][0]) + latency_s * count


def joined(frame: pd.DataFrame, benchmark: str) -> dict[PpoIteration, Any]:
    """Return the rows of a benchmark's iterations in virtual time, by iteration.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
        benchmark: "Hopper", "Humanoid" or "Pong".
    """
    rows = select(
        frame, suite=Suite.CLAIM, workload=BENCHMARKS[benchmark], primitive="training", quantity=TIME
    )
    return {
        PpoIteration(**detail(row, "iteration")): row
        for row in records(rows)
        if detail(row, "experiment") == EXPERIMENT and row.device == DEVICE and row.samples
    }


def quotient(name: str, here_s: npt.NDArray, there_s: npt.NDArray, rows: tuple[int, ...]) -> Number:
    """Return a ratio of seconds on the CPU to seconds in virtual time, with its interval.

    Args:
        name: name of the ratio.
        here_s, there_s: one value per iteration that was run, on the CPU and in virtual time.
        rows: the index labels of the measurements.
    """
    rounds = min(len(here_s), len(there_s))
    samples = here_s[:rounds] / there_s[:rounds]
    low = high = None
    if rounds >= statistics.FEWEST_SAMPLES:
        low, high = statistics.interval(samples)
    source = f"{rounds} iterations in virtual time, with transfers, objective and Adam"
    return Number(name, float(np.median(samples)), "ratio", Provenance.MODELLED, source, low, high, rows)


class Gains(NamedTuple):
    """Gains in virtual time, each without latencies and with slow links.

    Attributes:
        numbers: the gains, both kinds.
        hold: for each statement whether it holds without latencies.
        hold_slow: the same with slow links.
    """

    numbers: Sequence[Number]
    hold: Sequence[bool]
    hold_slow: Sequence[bool]


Pair = tuple[npt.NDArray, npt.NDArray, npt.NDArray, tuple[int, ...]]
"""Seconds on the CPU, those in virtual time without and with the latency of `slow_link`, one value per iteration that
was run, and the index labels of the measurements. The gain is the first over one of the others."""


def gain_over(one: Pair, other: Pair) -> Pair:
    """Return the pair whose gain is the gain of one pair over that of another one.

    Args:
        one, other: the pairs; the gains of rounds that both have are divided.
    """
    rounds = min(len(seconds) for pair in (one, other) for seconds in pair[:3])
    here_s, quick_s, slow_s = (seconds[:rounds] for seconds in one[:3])
    of_here_s, of_quick_s, of_slow_s = (seconds[:rounds] for seconds in other[:3])
    rows = tuple(sorted({*one[3], *other[3]}))
    return here_s, quick_s * of_here_s / of_quick_s, slow_s * of_here_s / of_slow_s, rows


def bands(pairs: Mapping[str, Pair]) -> Gains:
    """Return gains that should be above 1, with their sensitivity to the links.

    Args:
        pairs: the seconds of each gain, by its name.
    """
    numbers, hold, hold_slow = [], [], []
    latency = f"{slow_link().value:g} us a transfer"
    for name, (here_s, quick_s, slow_s, rows) in pairs.items():
        quick = quotient(f"{name}, in virtual time", here_s, quick_s, rows)
        slow = quotient(f"{name}, in virtual time, {latency}", here_s, slow_s, rows)
        numbers += [quick, slow]
        hold.append(quick.above(1.0))
        hold_slow.append(slow.above(1.0))
    return Gains(numbers, hold, hold_slow)


def judged(by_bounds: Finding, gains: Gains) -> Finding:
    """Return the finding of iterations in virtual time, unless upper bounds refute the statement already.

    Args:
        by_bounds: the finding from upper bounds of gains.
        gains: the gains in virtual time; without any the finding from bounds is returned unchanged.
    """
    if not gains.numbers:
        return by_bounds
    count, held, slow = len(gains.hold), sum(gains.hold), sum(gains.hold_slow)
    said = (
        f"{by_bounds.explanation} Iterations in virtual time, with transfers at the platform's bandwidth, the "
        f"objective on the host and Adam: {held} of {count} gains are above 1 without latencies, {slow} with "
        f"{slow_link().value:g} us a transfer (slow links). {UNKNOWN}"
    )
    ours = (*by_bounds.ours, *gains.numbers)
    if by_bounds.outcome is Outcome.NOT_REPRODUCED:
        return Finding(by_bounds.outcome, ours, said)
    return Finding(Outcome.CONSISTENT if held == slow == count else Outcome.NO_VERDICT, ours, said)
