"""Judges PPO's iterations on CPU and accelerator in virtual time (PPO Table 2, Fig. 10 and 11; `virtual_iterations`).

The iterations have everything that PPO names: environments, advantages, mini-batches, the objective, transfers, the
products and Adam. Their cycles are partly modelled, so they can agree with a statement but not refute it
(`base.by_a_model`). MAP states no latency for its link, which is PPO's too; 1 ms is what PRL's authors list for another
board (`predict.slow_link`). Each gain is stated without one and with 1 ms.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping.predict import slow_link
from placerl.harness.measure import statistics
from placerl.harness.papers.base import Finding, Outcome
from placerl.harness.papers.evidence import rows_of
from placerl.harness.papers.number import Number, ratio
from placerl.harness.papers.ppo.table_2_iterations import BENCHMARKS, EXPERIMENT, TIME
from placerl.primitives.fpga.cycles.ppo import PpoIteration

DEVICE = "fpga:u200"
PARTS = {
    "training": (("learner", "learner_links", "deal", "objective"), ("learner",)),
    "inference": (("infer", "infer_links", "draw", "prepare"), ("infer", "prepare")),
}
"""The terms of each part in virtual time, and those on the CPU alone, where the values of samples are in `prepare`."""
TRANSFERS = {"training": 3, "inference": 2}
"""Transfers for a mini-batch, and for an inference (PPO 3)."""
UNKNOWN = "The cycles are partly modelled, and the latency of a transfer is not known: this refutes nothing."


class Joined(NamedTuple):
    """An iteration on CPU and accelerator in virtual time.

    Attributes:
        clock_mhz: the accelerator's clock at which it is judged.
        environment_s: seconds of environment steps in place of its own; None: its own.
    """

    row: Any
    clock_mhz: float
    environment_s: float | None = None

    def terms_s(self, *names: str) -> npt.NDArray:
        """Return the sum of the seconds of some parts, one per iteration that was run, at the clock."""
        terms, stretched = self.row.parameters.terms_s, self.row.parameters.design_mhz / self.clock_mhz
        total_s: npt.NDArray = sum(
            (stretched if name in ("infer", "learner") else 1.0) * np.array(terms[name]) for name in names
        )  # type: ignore[assignment]
        return total_s

    def wall_s(self, latency_s: float) -> npt.NDArray:
        """Return the seconds of the whole iteration, one per iteration that was run."""
        terms = self.row.parameters.terms_s
        device_s = np.array(terms["infer"]) + np.array(terms["learner"])
        slower_s = self.terms_s("infer", "learner") - device_s
        if self.environment_s is not None:
            slower_s = slower_s + self.environment_s - np.array(terms["environment"])
        return np.array(self.row.samples) + slower_s + latency_s * self.row.parameters.transfers

    def part_s(self, name: str, iteration: PpoIteration, latency_s: float) -> npt.NDArray:
        """Return the seconds of "training" or "inference", one per iteration that was run."""
        # An inference more than steps gives the values of the last observations.
        count = TRANSFERS[name] * (iteration.updates if name == "training" else iteration.steps + 1)
        return self.terms_s(*PARTS[name][0]) + latency_s * count


def joined(frame: pd.DataFrame, benchmark: str) -> dict[PpoIteration, Any]:
    """Return the rows of a benchmark's iterations in virtual time, by iteration."""
    rows = rows_of(frame, EXPERIMENT, TIME, workload=BENCHMARKS[benchmark], device=DEVICE)
    return {PpoIteration(**row.parameters.iteration): row for row in rows if row.samples}


class VirtualGain(NamedTuple):
    """Seconds on the CPU over seconds in virtual time.

    The two were not run in the same rounds, so that a gain has the widest interval that both intervals allow.

    Attributes:
        quick: the gain without latencies.
        slow: the gain with the latency of `slow_link`.
    """

    quick: Number
    slow: Number


def gain_of(
    name: str, here_s: npt.NDArray, quick_s: npt.NDArray, slow_s: npt.NDArray, rows: tuple[int, ...]
) -> VirtualGain:
    """Return the gain of an iteration, or of a part of it.

    Args:
        here_s: seconds on the CPU, one value per iteration that was run.
    """
    here = _seconds(here_s, Provenance.MEASURED, rows)
    there = (_seconds(samples_s, Provenance.MODELLED, rows) for samples_s in (quick_s, slow_s))
    return VirtualGain(*(ratio(words, here, one) for words, one in zip(_names(name), there, strict=True)))


def _seconds(samples_s: npt.NDArray, provenance: Provenance, rows: tuple[int, ...]) -> Number:
    low = high = None
    if len(samples_s) >= statistics.FEWEST_SAMPLES:
        low, high = statistics.interval(samples_s, in_order=True)
    counted = f"{len(samples_s)} iterations"
    if provenance is Provenance.MODELLED:
        counted += " in virtual time, with transfers, objective and Adam"
    return Number(counted, float(np.median(samples_s)), "s", provenance, "", low, high, rows)


def _names(name: str) -> tuple[str, str]:
    return f"{name}, in virtual time", f"{name}, in virtual time, {slow_link().value:g} us a transfer"


def gain_over(name: str, one: VirtualGain, other: VirtualGain) -> VirtualGain:
    """Return one gain over another one."""
    return VirtualGain(*(ratio(words, *pair) for words, *pair in zip(_names(name), one, other, strict=True)))


class Gains(NamedTuple):
    """Gains in virtual time, each without latencies and with slow links.

    Attributes:
        numbers: the gains, both kinds.
        hold: for each statement whether it holds without latencies: whether the gain is above 1.
        hold_slow: the same with slow links.
        pairs: number of the statements that compare two sizes of mini-batch.
    """

    numbers: Sequence[Number]
    hold: Sequence[bool]
    hold_slow: Sequence[bool]
    pairs: int


def bands(gains: Sequence[VirtualGain], pairs: Sequence[VirtualGain]) -> Gains:
    """Return gains that should be above 1, with their sensitivity to the links."""
    every = (*gains, *pairs)
    numbers = [number for gain in every for number in gain]
    hold, slow = ([getattr(gain, kind).above(1.0) for gain in every] for kind in ("quick", "slow"))
    return Gains(numbers, hold, slow, len(pairs))


def judged(by_bounds: Finding, gains: Gains) -> Finding:
    """Return the finding of iterations in virtual time, unless upper bounds refute the statement already.

    Args:
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
    if not gains.pairs:
        said += (
            " Of no robot were two sizes of mini-batch run, so that what the statement says of them is open."
        )
    ours = (*by_bounds.ours, *gains.numbers)
    if by_bounds.outcome is Outcome.NOT_REPRODUCED:
        return Finding(by_bounds.outcome, ours, said)
    agrees = gains.pairs and held == slow == count
    return Finding(Outcome.CONSISTENT if agrees else Outcome.NO_VERDICT, ours, said)
