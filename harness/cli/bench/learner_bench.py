"""Times gradient steps of every learner, next to PyTorch's fastest form and other systems.

    placerl bench learner [--cells Hopper] [--threads 1,2] [--rounds 45] [--build]

A cell is a network and a batch size. For each cell, these learners, the sides, are timed in interleaved rounds:

    eager      PyTorch as CleanRL writes it: modules, `torch.optim.Adam`, one call an operation
    pure       the algorithm's pure step, as it is written
    tuned      the same with plain autograd, fused Adam and foreach averaging
    compiled   the pure step through `torch.compile`; `tuned` and `compiled` also run once more with subnormal numbers
               flushed to zero, as the native learner does
    native     the native learner, twice, which shows how far two timings of the same thing differ; with several
               threads also on one thread. Every other backend of `primitives.learner` that runs here is timed too,
               except `reference`, the definition
    native[bfloat16]   the native learner with products in bfloat16
    sb3        Stable-Baselines3's `train()`, in an environment and a process of its own
    rltools    RLtools' C++ with OpenBLAS, likewise, for TD3, SAC and PPO's update

The table has the time of a step, its ratio to the fastest form of PyTorch with a 95% interval, and the share of the
cores' peak arithmetic (multiply-adds in float32, or in bfloat16 for the side in bfloat16; measured beforehand). The
TD errors of the sides in this process are checked against the definition in float64 before they are timed. With
`--trained 3000` they start from the state after 3000 gradient steps of a real training, with batches of its replay.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Annotated, Any

import torch
import typer

from placerl.harness.cli.bench.command import Bench, BuildOption, cell, numbers, reached, section, shown
from placerl.harness.cli.bench.learner.cells import CELLS, RLTOOLS, SB3, LearnerCell
from placerl.harness.cli.bench.learner.limits import Limits, limits
from placerl.harness.cli.bench.learner.sides import BFLOAT_16, NATIVE, NATIVE_ALONE, NULL, PYTORCH, sides
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report
from placerl.harness.core.suites import Suite
from placerl.harness.measure import statistics
from placerl.harness.measure.protocol import Protocol, Timing, measure
from placerl.harness.measure.rows import paired
from placerl.harness.pieces.learners import bfloat16_products
from placerl.harness.profile.cases.trained import train
from placerl.harness.store.rows import BenchResult
from placerl.primitives import _native
from placerl.primitives.quantization.precision import BFLOAT_16 as BFLOAT16_PRODUCTS

SUITE = Suite.BENCH_LEARNER
PEERS = (SB3, RLTOOLS)
REST_S = 10e-3
"""Pause before each turn with several threads: PyTorch's second thread keeps a core busy for about 5 ms after its work,
and the next learner needs that core.
"""
CELL_BUDGET_S = 150.0
"""Seconds, with compilation, after which a cell gets no further round. If a step takes half a second, fewer than 45
rounds fit.
"""


@dataclass(frozen=True, kw_only=True)
class LearnerResult(BenchResult, table="learner_result"):
    """The time of a gradient step, or of an update of many, of one learner, the side.

    Attributes:
        configuration: name of the workload with its settings, and what is timed.
        cell_threads: threads of PyTorch, the native learner and the other systems; the side itself may have one.
        gradient_steps_per_call, flops_per_call: gradient steps of a timed call, and arithmetic of its products.
        settings: fields of the workload that are changed.
        peak_gflops_per_core: peak arithmetic of a core in the side's precision, GFLOP/s; 0 if unknown.
        bfloat16_gflops_per_core: that in bfloat16.
        share_of_peak: rate of the products as a fraction of the peak of the cores that the side uses.
        trained_steps: gradient steps of a training before the timed ones.
    """

    configuration: str = ""
    cell_threads: int = 1
    gradient_steps_per_call: int | None = None
    flops_per_call: float | None = None
    settings: Mapping[str, Any] | None = None
    peak_gflops_per_core: float = 0.0
    bfloat16_gflops_per_core: float = 0.0
    share_of_peak: float | None = None
    trained_steps: int = 0
    limits: str = ""
    verdicts: Sequence[str] | None = None


@dataclass(frozen=True)
class Peaks:
    """The peak arithmetic of one core, GFLOP/s.

    Attributes:
        float32: with products in float32.
        bfloat16: with products in bfloat16; 0 if unknown.
    """

    float32: float
    bfloat16: float = 0.0

    def of(self, side: str) -> float:
        """Return the peak in the precision of the learner named `side`."""
        return self.bfloat16 if side == BFLOAT_16 else self.float32


@dataclass(frozen=True)
class Result:
    """The rows of all sides (the learners that are compared) in one configuration, with a number of threads.

    Attributes:
        cell: the configuration: a workload's algorithm and network, and a batch size.
    """

    cell: LearnerCell
    rows: Mapping[str, LearnerResult]

    @classmethod
    def each(cls, cells: Sequence[LearnerCell], rows: Sequence[LearnerResult]) -> Iterator["Result"]:
        """Yield the results that rows hold, by number of threads and configuration."""
        by_name = {cell.name: cell for cell in cells}
        groups: dict[tuple[str, int], dict[str, LearnerResult]] = {}
        for row in rows:
            groups.setdefault((row.configuration, row.cell_threads), {})[row.backend] = row
        return (cls(by_name[name], by_backend) for (name, _), by_backend in groups.items())

    @property
    def threads(self) -> int:
        """Return the number of threads of PyTorch, the native learner and the other systems."""
        return next(iter(self.rows.values())).cell_threads

    @property
    def best_pytorch(self) -> str | None:
        """Return the name of the fastest form of PyTorch, by lower quartiles of its times; None if none was timed."""
        quick = {
            name: statistics.lower_quartile(self.rows[name].samples)
            for name in PYTORCH
            if name in self.rows and self.rows[name].samples
        }
        return min(quick, key=quick.__getitem__) if quick else None

    def against(self, side: str, other: str) -> statistics.Ratio | None:
        """Return the speedup of one learner over another one, with its interval.

        Returns:
            None if either was not timed, failed, or has too few samples.
        """
        ours, theirs = self.rows.get(side), self.rows.get(other)
        if not ours or not theirs or "failed" in (ours.status, theirs.status):
            return None
        theirs_s, ours_s = paired(theirs, ours)
        return statistics.paired_ratio(theirs_s, ours_s) if len(ours_s) >= statistics.FEWEST_SAMPLES else None

    def verdicts(self) -> list[str]:
        """Return one line of text for each comparison of the native learner: the speedup, and whether a target is met.

        The native learner is compared with the fastest form of PyTorch, with each other system, and with itself: on one
        thread, in bfloat16, and in a second copy.
        """
        said = []
        targets = {self.best_pytorch: self.cell.target} | dict.fromkeys((RLTOOLS,), 1.0)
        for other in (self.best_pytorch, *self.cell.peers):
            target = targets.get(other)
            if other is None or (ratio := self.against(NATIVE, other)) is None:
                continue
            asked = target if self.threads == 1 else None
            text = f"{ratio.value:.2f}x {other} [{ratio.low:.2f}, {ratio.high:.2f}]"
            if asked is not None:
                met = reached(ratio.low, ratio.high, asked).replace("missed", "MISSED")
                text += f" (target {asked:g}x: {met})"
            said.append(text)
        if alone := self.against(NATIVE, NATIVE_ALONE):
            said.append(f"{alone.value:.2f}x one thread [{alone.low:.2f}, {alone.high:.2f}]")
        if rounded := self.against(BFLOAT_16, NATIVE):
            said.append(f"in bfloat16 {rounded.value:.2f}x float32 [{rounded.low:.2f}, {rounded.high:.2f}]")
        if null := self.against(NATIVE, NULL):
            said.append(f"native against itself {null.value:.2f}x [{null.low:.2f}, {null.high:.2f}]")
        return said

    def note(self, native_limits: Limits | None) -> str:
        """Return a text that says what the native learner's time is spent on, and how close it is to the peak.

        Args:
            native_limits: the times of the native learner's operations; None if it was not timed.
        """
        native = self.rows.get(NATIVE)
        if native_limits is None or native is None or native.value is None:
            return "native was not timed"
        peak_gflops = (native.threads or 1) * native.peak_gflops_per_core
        text = native_limits.note(native.value / self.cell.steps, peak_gflops)
        best = self.best_pytorch
        if best and (share := self.rows[best].share_of_peak):
            text += f"; the products' arithmetic alone would, at the peak of as many cores, be {1 / share:.2f}x {best}"
        return text


def rows_of(
    cell: LearnerCell,
    threads: int,
    timings: Mapping[str, Timing],
    peaks: Peaks,
    native_limits: Limits | None,
    trained_steps: int = 0,
) -> Sequence[LearnerResult]:
    """Return the timings of one configuration as rows of the store (measurements), one per learner.

    The row of the native learner also says what the comparisons and the profile of its operations show.

    Args:
        native_limits: what limits the native learner; None if it was not timed.
        trained_steps: gradient steps that the training took whose state the learners start from; 0: a fresh state.
    """
    rows: dict[str, LearnerResult] = {}
    for side, timing in timings.items():
        own_threads, peak_gflops = 1 if side == NATIVE_ALONE else threads, peaks.of(side)
        share = None
        if timing.median_s is not None and peak_gflops:
            share = cell.flops / timing.median_s / (own_threads * peak_gflops * 1e9)
        rows[side] = timing.measurement(
            LearnerResult,
            suite=SUITE,
            workload=cell.workload,
            primitive=f"learner.{cell.unit}",
            backend=side,
            device="cpu",
            batch_size=cell.batch_size,
            threads=own_threads,
            configuration=cell.name,
            cell_threads=threads,
            gradient_steps_per_call=cell.steps,
            flops_per_call=cell.flops,
            settings=dict(cell.settings),
            peak_gflops_per_core=peak_gflops,
            bfloat16_gflops_per_core=peaks.bfloat16,
            share_of_peak=share,
            trained_steps=trained_steps,
        )
    if NATIVE in rows:
        result = Result(cell, rows)
        rows[NATIVE] = replace(rows[NATIVE], verdicts=result.verdicts(), limits=result.note(native_limits))
    return list(rows.values())


def run_cell(
    cell: LearnerCell,
    threads: int,
    rounds: int,
    *,
    compiled: bool,
    peaks: Peaks,
    trained_steps: int = 0,
) -> Sequence[LearnerResult]:
    """Time all learners in one configuration, and return a row for each.

    Args:
        trained_steps: gradient steps of a training whose state the learners start from; 0: initial parameters.
    """
    # Earlier cells' compilations count towards PyTorch's limit, beyond which it refuses to compile.
    torch.compiler.reset()
    # Random batches are made before the clock starts, but take time too, so there are few for long steps.
    protocol = Protocol(
        rounds=rounds,
        threads=threads,
        block_s=5e-3,
        largest_block=64,
        budget_s=CELL_BUDGET_S,
        rest_s=REST_S if threads > 1 else 0.0,
    )
    start = train(cell.item, trained_steps, cell.batch_size) if trained_steps else None
    timings = measure(sides(cell, threads, compiled=compiled, start=start), protocol)
    timed = NATIVE in timings and timings[NATIVE].median_s is not None
    native_limits = limits(cell, threads) if timed else None
    taken = start.steps if start else 0  # an on-policy training takes those of whole iterations
    return rows_of(cell, threads, timings, peaks, native_limits, taken)


def table(learner_cells: Sequence[LearnerCell], rows: Sequence[LearnerResult]) -> str:
    """Return the results as Markdown: a table for each number of threads, then the native learner's speedups."""
    results = list(Result.each(learner_cells, rows))
    lines = [
        "# Gradient steps",
        "",
        "Median over the rounds [95% interval]; ~: too noisy. Provenance: measured.",
        "",
    ]
    lines += [f"{_roofs(rows[0])}.", ""]
    for threads in dict.fromkeys(result.threads for result in results):
        chosen = [result for result in results if result.threads == threads]
        cells = [_cells(result, side) for result in chosen for side in result.rows]
        lines += section(f"{threads} thread(s)", _COLUMNS, cells)
        lines += ["### The native learner", ""]
        for result in chosen:
            lines += [f"- {result.cell.name}: {'; '.join(result.verdicts()) or 'no verdict'}."]
            native = result.rows.get(NATIVE)
            lines += [f"  - {native.limits if native else 'native was not timed'}."]
            if steps := next(iter(result.rows.values())).trained_steps:
                lines += [f"  - Timed after {steps:,} gradient steps of a real training."]
        lines += [""]
    return "\n".join(lines)


def _roofs(row: LearnerResult) -> str:
    """Return the peak of a core in each precision, and how this processor multiplies in bfloat16."""
    float32, bfloat16 = row.peak_gflops_per_core, row.bfloat16_gflops_per_core
    rounded = f"{bfloat16:.4g} GFLOP/s" if bfloat16 else "unknown"
    return f"Peak of one core: float32 {float32:.4g} GFLOP/s, bfloat16 ({bfloat16_products()}) {rounded}"


_COLUMNS = ("cell", "side", "us a call", "calls/s", "faster than the best PyTorch", "share of peak")


def _cells(result: Result, side: str) -> list[str]:
    row, ratio = result.rows[side], None
    if result.best_pytorch and result.best_pytorch != side:
        ratio = result.against(side, result.best_pytorch)
    against = "best of PyTorch" if side == result.best_pytorch else ""
    if ratio:
        against = f"{ratio.value:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}]"
    if row.value is None:
        return [result.cell.name, side, row.reason, "", "", ""]
    share = "" if row.share_of_peak is None else f"{row.share_of_peak:.1%}"
    return [result.cell.name, side, shown(row, 1e6, ".4g"), f"{1 / row.value:.4g}", against, share]


def _with_trained_state(cells: Sequence[LearnerCell]) -> list[LearnerCell]:
    """Return the configurations that can start from a trained state, and name the others on the terminal.

    Raises:
        UserError: none of them can.
    """
    single_steps = [cell for cell in cells if not cell.whole_update]
    if not single_steps:
        raise UserError("command line", "--trained", cells[0].name, "cells whose call is one gradient step")
    for one in cells:
        if one.whole_update:
            typer.echo(
                f"left out: {one.name}: its call is a whole update, which has no trained state", err=True
            )
    return single_steps


def bench(
    threads: Annotated[
        str, typer.Option("--threads", help="Numbers of threads, separated by commas.")
    ] = "1,2",
    rounds: Annotated[
        int, typer.Option("--rounds", min=statistics.FEWEST_SAMPLES, help="Samples of each side.")
    ] = statistics.PAIRS,
    no_compile: Annotated[
        bool, typer.Option("--no-compile", help="Leave out torch.compile, which takes minutes.")
    ] = False,
    only: Annotated[str, typer.Option("--cells", help="Only cells whose name contains this.")] = "",
    trained_steps: Annotated[
        int,
        typer.Option(
            "--trained",
            min=0,
            help="Gradient steps of real training before the steps that are timed; 0: none.",
        ),
    ] = 0,
    build: BuildOption = False,
) -> Bench[LearnerResult]:
    """Time gradient steps of every learner, next to PyTorch at its best, Stable-Baselines3 and RLtools."""
    chosen = [one for one in CELLS if only in one.name]
    if not chosen:
        raise UserError("command line", "--cells", repr(only), "a part of a cell's name")
    if trained_steps:
        chosen = _with_trained_state(chosen)

    @cache
    def peaks() -> Peaks:
        peak_gflops = _native.learner.peak_gflops
        return Peaks(peak_gflops(), peak_gflops(products=BFLOAT16_PRODUCTS))

    def measured(one: LearnerCell, count: int, report: Report) -> Sequence[LearnerResult]:
        compiled = not no_compile
        return run_cell(one, count, rounds, compiled=compiled, peaks=peaks(), trained_steps=trained_steps)

    cells = [
        cell(f"{SUITE}/{one.name}/{count} threads", partial(measured, one, count), CELL_BUDGET_S)
        for count in numbers("--threads", threads)
        for one in chosen
    ]
    return Bench(
        SUITE,
        LearnerResult,
        cells,
        partial(table, chosen),
        selecting=("threads", "only", "build"),
        builds=PEERS if build else (),
    )
