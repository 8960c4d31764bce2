"""Checks PPO Table 2 with timed iterations and simulated cycles (measured by `table_2_iterations`).

An iteration of PPO collects samples and trains on them. On CPU and FPGA it takes the host's time, as measured here,
plus the accelerator's cycles at the paper's clock. The paper also has transfers, losses and Adam, without giving
their times, so these times are lower bounds and gains upper bounds. An upper bound below 1 refutes that the
accelerator is faster. If all bounds are below the published gains, they refute the published gains. No bound can show
a gain.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping.predict import slow_link
from placerl.harness.measure import statistics
from placerl.harness.papers.base import Finding, Outcome
from placerl.harness.papers.clocks import FLOAT32_PRODUCTS
from placerl.harness.papers.comparisons import gains
from placerl.harness.papers.device_table import DeviceTable, OfDevices
from placerl.harness.papers.evidence import rows_of
from placerl.harness.papers.number import Number, checked_baseline, from_cell, from_text, ratio
from placerl.harness.papers.ppo import (
    table_2_devices,
    table_2_iterations,
    table_2_libraries,
    virtual_iterations,
)
from placerl.harness.papers.ppo.figures_12_15_cycles import FLOAT32
from placerl.harness.papers.ppo.judged_iterations import (
    Gains,
    Joined,
    VirtualGain,
    bands,
    gain_of,
    gain_over,
    joined,
    judged,
)
from placerl.harness.papers.ppo.table_2_iterations import BENCHMARKS, CYCLES, EXPERIMENT, TIME, table_columns
from placerl.harness.papers.ppo.table_2_libraries import LIBRARIES_OF_THE_PAPER, ComparedWithLibraries
from placerl.primitives.fpga.cycles.ppo import PpoIteration

MUJOCO = ("Hopper", "Humanoid")
NEEDS = (
    "the experiment PPO-T2: PPO's iterations timed here, and the cycles of their float32 products "
    "(`placerl reproduce --only PPO-T2-CPU --tier standard`)"
)
NEEDS_CUDA = "a CUDA device"
CPU, GPU, FPGA = "cpu", "cuda", "fpga"
SOURCE = "host timed, float32 products simulated; upper bound: no transfers, no Adam or loss"
BOUNDS = (
    "A gain is an upper bound: no transfers, no Adam or loss, and what the host does to prepare the samples beside the "
    "networks, and to deal mini-batches, is counted as the accelerator's. It can refute a gain, not show one."
)


class TimedIteration(NamedTuple):
    """An iteration of PPO, and whose program was timed.

    Attributes:
        library: "Spinning Up" or "Baselines" of a program in its style; empty for whichever program is fastest.
    """

    iteration: PpoIteration
    library: str = ""


class MeasuredIteration(NamedTuple):
    """Two stored measurements of one iteration of PPO, as named tuples.

    An iteration collects samples and trains on them.

    Attributes:
        timed: the measurement of its seconds on a device of this machine.
        counted: the measurement of its clock cycles on the accelerator.
    """

    timed: Any
    counted: Any

    @property
    def wall_s(self) -> npt.NDArray:
        """Return the seconds of the whole iteration on the device, one per timed iteration."""
        return np.array(self.timed.samples)

    def part_s(self, *names: str) -> npt.NDArray:
        """Return the seconds of parts of the iteration on the device, one per timed iteration."""
        terms = self.timed.parameters.terms_s
        return np.sum([terms[name] for name in names], axis=0)

    @property
    def parts_s(self) -> npt.NDArray:
        """Return the sum of the seconds of all parts on the device, one per timed iteration."""
        return np.sum(list(self.timed.parameters.terms_s.values()), axis=0)

    def accelerator_s(self, name: str) -> float:
        """Return the seconds that the accelerator takes for one part of the iteration."""
        return float(self.counted.parameters.cycles[name] / (1e6 * self.counted.parameters.clock_mhz))

    @property
    def host_s(self) -> npt.NDArray:
        """Return the seconds that stay on the CPU if it has an accelerator, mostly environment steps.

        Samples are prepared by both networks, which PPO 3 has on the accelerator; the advantages, which the host
        computes, are in the same part. There is one value per timed iteration.
        """
        return self.wall_s - self.part_s("infer", "prepare", "learner")

    @property
    def joined_s(self) -> npt.NDArray:
        """Return a lower bound of the seconds of the iteration on CPU and accelerator, one per timed iteration."""
        return self.host_s + self.accelerator_s("inference") + self.accelerator_s("training")

    @property
    def rows(self) -> tuple[int, ...]:
        """Return the index labels of the two stored measurements, ascending."""
        return tuple(sorted({int(self.timed.Index), int(self.counted.Index)}))


def _of(row: Any) -> PpoIteration:
    return PpoIteration(**row.parameters.iteration)


def measured_iterations(
    frame: pd.DataFrame, benchmark: str, device: str = CPU
) -> dict[TimedIteration, MeasuredIteration]:
    """Return the iterations of PPO that were timed on a device and whose cycles on the accelerator were counted.

    The cycles are those of a core of float32, as PPO's is (5.1). Of several programs the fastest one counts, unless
    all are in the style of a library: PPO compares within one.
    """
    mine = rows_of(frame, EXPERIMENT, workload=BENCHMARKS[benchmark])
    counted = {_of(row): row for row in mine if row.quantity == CYCLES and row.parameters.core == FLOAT32}
    here = [row for row in mine if row.quantity == TIME and row.device == device]
    libraries = {style: library for library, style in table_2_libraries.STYLES.items()}
    apart = all(row.backend in libraries for row in here)
    timed: dict[TimedIteration, Any] = {}
    for row in here:
        item = TimedIteration(_of(row), libraries[row.backend] if apart else "")
        timed[item] = min(row, timed.get(item, row), key=lambda each: each.value)
    return {
        item: MeasuredIteration(row, counted[item.iteration])
        for item, row in timed.items()
        if item.iteration in counted
    }


def of_samples(
    quantity: str, samples: npt.NDArray, unit: str, item: MeasuredIteration, provenance: Provenance
) -> Number:
    """Return the median of an iteration's samples as a number with its interval."""
    low = high = None
    if len(samples) >= statistics.FEWEST_SAMPLES:
        low, high = statistics.interval(samples, in_order=True)
    source = f"{len(samples)} iterations" + (f", {SOURCE}" if provenance is not Provenance.MEASURED else "")
    return Number(quantity, float(np.median(samples)), unit, provenance, source, low, high, item.rows)


def iteration_name(benchmark: str, timed: TimedIteration) -> str:
    """Return a name of an iteration of PPO for readers, such as "Hopper as Baselines, N=1, T=512, M=64"."""
    program = f"{benchmark} as {timed.library}" if timed.library else benchmark
    iteration = timed.iteration
    return f"{program}, N={iteration.agents}, T={iteration.steps}, M={iteration.minibatch}"


def _rates(
    benchmark: str, timed: TimedIteration, item: MeasuredIteration, device: str
) -> tuple[Number, Number]:
    """Return the inferences per second of a device of this machine, and of the CPU with the accelerator."""
    name, samples = iteration_name(benchmark, timed), timed.iteration.samples
    here = of_samples(f"{name}: {device}", samples / item.wall_s, "IPS", item, Provenance.MEASURED)
    joined = samples / item.joined_s
    return here, of_samples(f"{name}: CPU and FPGA, at most", joined, "IPS", item, Provenance.SIMULATED)


def gain_at_most(benchmark: str, timed: TimedIteration, item: MeasuredIteration, device: str) -> Number:
    """Return an upper bound of the speedup of CPU and accelerator together over a device of this machine."""
    name = f"{iteration_name(benchmark, timed)}: CPU and FPGA over {device}, at most"
    here, _ = _rates(benchmark, timed, item, device)
    # Time that belongs to no part would count as the host's, and lower the bound.
    baseline = checked_baseline(here, float(np.median(item.parts_s)) / timed.iteration.samples)
    gain = of_samples(name, item.wall_s / item.joined_s, "ratio", item, Provenance.SIMULATED)
    return replace(gain, suspect=baseline.suspect)


def published_gains(benchmark: str, columns: str, base: str = "CPU") -> list[tuple[TimedIteration, Number]]:
    """Return the gains of CPU and FPGA over another platform in PPO Table 2, each with its iteration and library.

    Args:
        columns: which columns of the table: "M", "N", "T" or several of these letters, each the size that varies.
    """
    table_gains = []
    for library in ("Spinning Up", "Baselines"):
        row = f"{benchmark}, {library}"
        for column, iteration in table_columns(benchmark, library).items():
            if column[0] in columns:
                ours, theirs = (
                    from_cell("ppo_table_2", f"{row}, {name}", column) for name in ("CPU-FPGA", base)
                )
                gain = ratio(f"{row}, {column}: CPU-FPGA over {base}", ours, theirs)
                table_gains.append((TimedIteration(iteration, library), gain))
    return table_gains


def upper_end(number: Number) -> float:
    """Return the upper bound of a measured number's interval; infinity if too few iterations gave it none."""
    return math.inf if number.high is None else number.high


def outcome_of_bounds(refuted: Sequence[bool], below_published: Sequence[bool] = ()) -> Outcome:
    """Return "not reproduced" if upper bounds of gains contradict PPO's table, and otherwise "no verdict".

    They contradict it if any of `refuted` is true, or if all of `below_published` are (and there is one). Bounds
    alone cannot show that a statement holds.

    Args:
        refuted: for each statement of the table about a direction or an order, whether a bound contradicts it.
        below_published: for each iteration with an upper bound of its gain, whether this bound is below every gain
            that PPO publishes for that iteration, and library if it is of one.
    """
    too_small = bool(below_published) and all(below_published)
    return Outcome.NOT_REPRODUCED if any(refuted) or too_small else Outcome.NO_VERDICT


def _below(gain: Number, timed: TimedIteration, published: Iterable[tuple[TimedIteration, Number]]) -> bool:
    """Whether an upper bound of a gain is below every published gain of its iteration, of which there is one.

    That of a program in the style of a library is compared with this library's gain alone.
    """
    theirs = [
        number.value
        for other, number in published
        if other.iteration == timed.iteration and timed.library in ("", other.library)
    ]
    return bool(theirs) and upper_end(gain) < min(theirs)


def cores_used_in_words(items: Iterable[MeasuredIteration]) -> str:
    """Return a sentence that says with how many learner threads and environment processes iterations were timed.

    Measurements without this detail used one thread.
    """
    used = {(item.timed.parameters.threads or 1, item.timed.parameters.processes or 0) for item in items}
    words = (f"{threads} + {processes}" for threads, processes in sorted(used))
    shared = " (of what processes do side by side, the slowest one's time)" if any(p for _, p in used) else ""
    return f"Timed here with learner threads + environment processes: {', '.join(words)}{shared}."


def programs_in_words(items: Iterable[MeasuredIteration]) -> str:
    """Return what was timed: this project with its mappings, or programs of a library's kind."""
    programs = sorted({item.timed.backend for item in items})
    kinds = {
        style: f"a program in the style of {library}" for library, style in table_2_libraries.STYLES.items()
    }
    return ", ".join(kinds.get(name, f"this project with {name}") for name in programs)


def _gain_of_small(few: MeasuredIteration, many: MeasuredIteration) -> float:
    """Return an upper bound of the gain with small mini-batches over that with large ones.

    What is left out is the same data in more transfers, and more steps of Adam, so it takes no less time with
    small mini-batches. The longer it takes, the closer the two iterations are.
    """
    rounds = min(len(few.wall_s), len(many.wall_s))
    joined = np.maximum(1, many.joined_s[:rounds] / few.joined_s[:rounds])
    samples = few.wall_s[:rounds] / many.wall_s[:rounds] * joined
    return upper_end(of_samples("", samples, "ratio", few, Provenance.SIMULATED))


def joined_of(frame: pd.DataFrame, benchmark: str) -> dict[TimedIteration, tuple[MeasuredIteration, Joined]]:
    """Return the iterations that were timed on the CPU and run in virtual time, at the clock of the counted cycles.

    A program of a library's kind keeps its environments with the accelerator, which replaces its networks alone.
    """
    rows = joined(frame, benchmark)
    return {
        timed: (item, Joined(row, item.counted.parameters.clock_mhz, _environment_s_of_a_library(item)))
        for timed, item in measured_iterations(frame, benchmark).items()
        if (row := rows.get(timed.iteration)) is not None
    }


def _environment_s_of_a_library(item: MeasuredIteration) -> float | None:
    """Return the seconds of environment steps in a program of a library's kind; None for this project's own."""
    of_a_library = item.timed.backend in table_2_libraries.STYLES.values()
    return float(np.median(item.part_s("environment"))) if of_a_library else None


def gains_in_virtual_time(frame: pd.DataFrame) -> Gains:
    """Return the gains of CPU and accelerator over the CPU in whole iterations in virtual time (`Gains`).

    A further statement for each pair of iterations that differ only in the mini-batch is that the small one gains more.
    """
    over_cpu: list[VirtualGain] = []
    pairs: list[VirtualGain] = []
    for benchmark in MUJOCO:
        both = joined_of(frame, benchmark)
        whole: dict[TimedIteration, VirtualGain] = {}
        for timed, (item, there) in both.items():
            rows = tuple(sorted({*item.rows, int(there.row.Index)}))
            name = f"{iteration_name(benchmark, timed)}: CPU and FPGA over CPU"
            quick, slow = there.wall_s(0.0), there.wall_s(1e-6 * slow_link().value)
            whole[timed] = gain_of(name, item.wall_s, quick, slow, rows)
        over_cpu += whole.values()
        for small, large in ends_of_minibatches(both):
            name = (
                f"{iteration_name(benchmark, small)}: its gain over that with M={large.iteration.minibatch}"
            )
            pairs.append(gain_over(name, whole[small], whole[large]))
    return bands(over_cpu, pairs)


def alike_but_for_minibatches(some: Iterable[TimedIteration]) -> list[list[TimedIteration]]:
    """Return groups of iterations of one program that differ only in the mini-batch, each by its size."""
    alike: dict[tuple[str, int, int, int], list[TimedIteration]] = {}
    for timed in some:
        iteration = timed.iteration
        same = timed.library, iteration.agents, iteration.steps, iteration.epochs
        alike.setdefault(same, []).append(timed)
    return [sorted(group, key=lambda timed: timed.iteration.minibatch) for group in alike.values()]


def ends_of_minibatches(some: Iterable[TimedIteration]) -> list[tuple[TimedIteration, TimedIteration]]:
    """Return pairs of iterations of one program that differ only in the mini-batch: the smallest and the largest."""
    return [(group[0], group[-1]) for group in alike_but_for_minibatches(some) if len(group) > 1]


class OfRobots(ComparedWithLibraries):
    """What the claims on MuJoCo share: timed iterations, and those in virtual time."""

    blocks = FLOAT32_PRODUCTS
    measured_by = (
        partial(table_2_iterations.cells, benchmarks=MUJOCO),
        partial(table_2_libraries.cells, benchmarks=MUJOCO),
        virtual_iterations.cells,
    )
    as_in_the_paper = LIBRARIES_OF_THE_PAPER


class PlatformsCompared(OfRobots, OfDevices):
    """Checks PPO Table 2, MuJoCo: CPU and accelerator have more inferences per second than CPU and GPU.

    The finding also lists the inferences per second of every platform.
    """

    key, place, position = "PPO-T2", "5.3.1, Table 2", 2
    statement = "Inferences per second of PPO on CPU, CPU-GPU and CPU-FPGA: MuJoCo"
    published = from_text("PPO.robotics_speedup_low", "PPO.robotics_speedup_high")
    needs = f"{NEEDS}; {NEEDS_CUDA}"
    decides = (
        "what the bounds leave out of CPU and accelerator, with a CUDA device that takes every iteration of the "
        "table"
    )
    reads = (
        "compare/hopper-ppo/sb3",
        "compare/humanoid-ppo/sb3",
    )
    timed_by = "placerl gpu-claims"

    def judge(self, frame: pd.DataFrame) -> Finding:
        ours: list[Number] = []
        over_gpu: list[Number] = []
        lower: list[bool] = []
        timed: list[MeasuredIteration] = []
        for benchmark in MUJOCO:
            published = published_gains(benchmark, "MNT", "CPU-GPU")
            for one, item in measured_iterations(frame, benchmark).items():
                timed.append(item)
                ours += _rates(benchmark, one, item, "CPU")
            for one, item in measured_iterations(frame, benchmark, GPU).items():
                timed.append(item)
                ours.append(_rates(benchmark, one, item, "CPU and GPU")[0])
                gain = gain_at_most(benchmark, one, item, "CPU and GPU")
                over_gpu.append(gain)
                lower.append(_below(gain, one, published))
        mine = frame[frame["workload"].isin([BENCHMARKS[benchmark] for benchmark in MUJOCO])]
        over_sb3 = [gain.ratio for gain in gains(mine, "sb3")]
        explanation = (
            "Gains over Stable-Baselines3's PPO, a library of today, are listed."
            if over_sb3
            else "Stable-Baselines3's PPO, a library of today, was not run beside it "
            "(`placerl compare hopper-ppo --baselines sb3`)."
        )
        if not ours:
            return Finding(Outcome.NOT_RUN, tuple(over_sb3), explanation, needs=f"{NEEDS}; {NEEDS_CUDA}")
        explanation += f" {BOUNDS} {cores_used_in_words(timed)} What was timed is {programs_in_words(timed)}."
        if not over_gpu:
            return Finding(Outcome.NOT_RUN, (*ours, *over_sb3), explanation, needs=NEEDS_CUDA)
        outcome = outcome_of_bounds([upper_end(gain) < 1 for gain in over_gpu], lower)
        return Finding(outcome, (*ours, *over_gpu, *over_sb3), explanation)

    def device_tables(self, frame: pd.DataFrame) -> Sequence[DeviceTable]:
        return [table for benchmark in MUJOCO for table in table_2_devices.tables(frame, benchmark)]


class GainsOverCpu(OfRobots):
    """Checks PPO Table 2: the accelerator is faster than the CPU alone, and most so with small mini-batches.

    The accelerator's gains are upper bounds, which can refute the statement but not show it.
    """

    key, place, position = "PPO-T2-CPU", "5.3.1, Table 2", 3
    statement = (
        "1.39 to 27.1 times as many inferences a second with the accelerator as on the CPU alone, most with the "
        "smallest mini-batches"
    )
    published = tuple(number for benchmark in MUJOCO for _, number in published_gains(benchmark, "M"))
    needs = NEEDS

    def judge(self, frame: pd.DataFrame) -> Finding:
        ours: list[Number] = []
        timed: list[MeasuredIteration] = []
        lower, refuted, shares = [], [], []
        for benchmark in MUJOCO:
            items, published = measured_iterations(frame, benchmark), published_gains(benchmark, "MNT")
            gains_here = {one: gain_at_most(benchmark, one, item, "CPU") for one, item in items.items()}
            for one, gain in gains_here.items():
                lower.append(_below(gain, one, published))
                refuted.append(upper_end(gain) < 1)
            refuted += [
                _gain_of_small(items[small], items[large]) < 1 for small, large in ends_of_minibatches(items)
            ]
            ours += gains_here.values()
            timed += items.values()
            shares += [np.median(1 - item.host_s / item.wall_s) for item in items.values()]
        if not ours:
            return Finding(Outcome.NOT_RUN, needs=NEEDS)
        host = 1 - max(shares)
        at_most = f": one that takes no time at all would gain at most {1 / host:.2f}x" if host > 0 else ""
        explanation = (
            f"Of {len(refuted)} statements about direction and order {sum(refuted)} are refuted; {sum(lower)} of "
            f"{len(lower)} upper bounds are below every gain that PPO publishes for their iteration; only all of them "
            "together would refute the published gains. The published CPUs run TensorFlow under OpenAI Baselines or "
            f"Spinning Up, which no longer install; here it is {programs_in_words(timed)}. Inferences, preparing "
            "samples and training, all that the accelerator can save, "
            f"are {min(shares):.0%} to {max(shares):.0%} of the iterations{at_most}. {BOUNDS} "
            f"{cores_used_in_words(timed)}"
        )
        bounds = Finding(outcome_of_bounds(refuted, lower), tuple(ours), explanation)
        return judged(bounds, gains_in_virtual_time(frame))
