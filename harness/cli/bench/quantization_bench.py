"""Times the native gradient step in float32, and in 32-bit and 16-bit fixed point (FIX V-C, VI).

    placerl bench quantization [--batch-size 256] [--rounds 45]

The step is that of DDPG on HalfCheetah with layers of 400 and 300, on one thread. These number formats, the sides, are
timed in interleaved rounds:

    float 32             the native learner
    fixed 32             everything in 32 bits
    16-bit activations   FIX's format: 16-bit activations (after the first steps, the delay), 32-bit weights and errors
    16-bit products      every operand of a product in at most 16 bits (weights and errors 12); exact sums; weights
                         and gradients are stored in 32 bits as before

FIX's processing element multiplies 32 by 16 bits; a processor's multipliers take two operands of equal width. So
an operand of more than 16 bits is split into digits, and a product of m by n digits takes m n 16-bit
multiply-adds, of which a core does twice as many per cycle as in floats. The multiply-adds that a step's numbers
need are counted; with the measured peaks they give an upper limit of the speedup over floats. FIX's weights take
two digits, so at the peaks its products cannot be faster than floats. Before it is timed, a step in each fixed-point
format is compared bit by bit with the NumPy reference.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer

from placerl.harness import workloads
from placerl.harness.cli.bench.command import Bench, RoundsOption, cell, reached, section
from placerl.harness.core.progress import Report
from placerl.harness.core.suites import Suite
from placerl.harness.measure import statistics
from placerl.harness.measure.protocol import Case, Protocol, measure
from placerl.harness.measure.rows import paired
from placerl.harness.measure.statistics import Comparison
from placerl.harness.papers.fix.training import FIXED_32, FLOAT, described, make_learner
from placerl.harness.pieces.learners import check_step, random_batch
from placerl.harness.store.rows import BenchResult
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives import _native
from placerl.primitives.learner import Learner
from placerl.primitives.learner.aware_training import FixedPointLearner
from placerl.primitives.learner.graph_learner import step_graph
from placerl.primitives.quantization import precision
from placerl.primitives.quantization.native_backend import NativeFixedPointExecutable
from placerl.primitives.quantization.precision import Precision

SUITE = Suite.BENCH_QUANTIZATION
WORKLOAD = "halfcheetah-ddpg"
BATCH_SIZE = 256
ACTIVATIONS, PRODUCTS = "16-bit activations", "16-bit products"
NULL = f"{FLOAT} (null)"
DELAY = 2
FORMATS: dict[str, Precision | None] = {
    FLOAT: None,
    FIXED_32: precision.fixed_32(),
    ACTIVATIONS: precision.dynamic(DELAY),
    PRODUCTS: Precision(activation_bits=16, weight_bits=12, error_bits=12, delay=DELAY),
}
TARGETS = {FIXED_32: 0.4, ACTIVATIONS: 1.5, PRODUCTS: 1.5}
"""Required speedup over float32."""
PROFILE_STEPS = 10


@dataclass(frozen=True, kw_only=True)
class FormatResult(BenchResult, table="format_result"):
    """The time of a gradient step in a number format, the side.

    Attributes:
        formats: the format in words, by kind of number.
        multiply_accumulates: those of a step, by type of operands.
        least_s: least seconds in which one core can do them.
        peaks_gmacs: what one core can do of them, 10^9 per second, by type of operands.
        profile_s: in fixed point, seconds of a step by kind of operation.
    """

    side: str = ""
    formats: Mapping[str, Any] | None = None
    multiply_accumulates: Mapping[str, int] | None = None
    least_s: float | None = None
    peaks_gmacs: Mapping[str, float] | None = None
    profile_s: Mapping[str, float] | None = None


def peaks_gmacs() -> dict[str, float]:
    """Measure how many multiply-accumulates one core can do per second.

    Returns:
        Multiply-accumulates per second, in 10^9, by type of operands: "float32", "int32" and "int16".
    """
    return {
        "float32": _native.learner.peak_gflops() / 2,
        "int32": _native.quantization.peak_gmacs(False),
        "int16": _native.quantization.peak_gmacs(True),
    }


def least_s(multiply_accumulates: Mapping[str, int], peaks: Mapping[str, float]) -> float:
    """Return the least seconds in which one core can do some multiply-accumulates.

    Args:
        peaks: most of them per second, in 10^9, by type of operands (`peaks_gmacs`).
    """
    return sum(count / peaks[kind] / 1e9 for kind, count in multiply_accumulates.items())


def counted(item: Workload, formats: Precision | None, batch_size: int) -> dict[str, int]:
    """Count the multiply-accumulates of a gradient step, by type of operands.

    A product of wide fixed-point operands counts one of "int16" for each pair of their 16-bit digits.

    Args:
        formats: the fixed-point formats; None: float32.

    Returns:
        Their number by type of operands, such as "int16".
    """
    if formats is None:
        return {"float32": step_graph(algorithm_of(item), batch_size, "full").multiply_accumulates()}
    learner = make(item, formats, batch_size)
    assert isinstance(learner, FixedPointLearner)
    assert isinstance(learner.fixed, NativeFixedPointExecutable)
    before = learner.fixed.narrow_multiply_accumulates, learner.fixed.wide_multiply_accumulates
    learner.step(random_batch(item, batch_size, np.random.default_rng(5)))
    return {
        "int16": learner.fixed.narrow_multiply_accumulates - before[0],
        "int32": learner.fixed.wide_multiply_accumulates - before[1],
    }


def make(item: Workload, formats: Precision | None, batch_size: int) -> Learner:
    """Create a native learner, and take its first steps, so that it computes in the number format that is timed.

    In some formats the activations have 16 bits only after the first steps.
    """
    learner = make_learner(item, formats, batch_size, 0)
    rng = np.random.default_rng(1)
    for _ in range(DELAY + 2):
        learner.step(random_batch(item, batch_size, rng))
    return learner


def cases(item: Workload, batch_size: int) -> list[Case[Any]]:
    """Return the gradient steps to time, as cases: one per number format, and float32 twice, which shows the noise."""

    def case(name: str, formats: Precision | None) -> Case[Any]:
        return Case(
            name=name,
            setup=partial(make, item, formats, batch_size),
            check=lambda learner: check_step(
                item, learner, random_batch(item, batch_size, np.random.default_rng(4))
            ),
            inputs=lambda learner, rng: random_batch(item, batch_size, rng),
            call=lambda learner, batch: learner.step(batch),
        )

    return [*(case(name, formats) for name, formats in FORMATS.items()), case(NULL, None)]


def times(batch_size: int, rounds: int, report: Report) -> Sequence[FormatResult]:
    """Time a gradient step in every number format, and return a row for each."""
    item = workloads.load(WORKLOAD)
    peaks = peaks_gmacs()
    protocol = Protocol(rounds=rounds, threads=1, block_s=5e-3, largest_block=64)
    timings = measure(
        cases(item, batch_size), protocol, progress=lambda done, total: report(done, total, "rounds")
    )
    counts = {side: counted(item, formats, batch_size) for side, formats in FORMATS.items()}
    rows = []
    for name, timing in timings.items():
        side = FLOAT if name == NULL else name
        formats = FORMATS[side]
        rows.append(
            timing.measurement(
                FormatResult,
                suite=SUITE,
                workload=WORKLOAD,
                primitive="learner.step",
                backend=f"native, {name}",
                device="cpu",
                batch_size=batch_size,
                side=side,
                null=name == NULL,
                threads=1,
                formats=described(formats),
                multiply_accumulates=counts[side],
                least_s=least_s(counts[side], peaks),
                peaks_gmacs=peaks,
                profile_s=None if formats is None else profile(item, formats, batch_size),
            )
        )
    return rows


def profile(item: Workload, formats: Precision | None, batch_size: int) -> dict[str, float]:
    """Return the seconds that a fixed-point gradient step spends in each kind of operation.

    Each operation counts with its minimum over `PROFILE_STEPS` steps.

    Returns:
        Seconds per gradient step by kind of operation.
    """
    learner = make(item, formats, batch_size)
    assert isinstance(learner, FixedPointLearner)
    total: Counter[str] = Counter()
    for node, seconds in learner.fixed.profile("full", PROFILE_STEPS):
        total[node.kind] += seconds  # type: ignore[assignment]
    return dict(total)


def compared(rows: Sequence[FormatResult], side: str) -> Comparison:
    """Compare the time of float32 (A) with that of another number format (B).

    Args:
        side: name of the other format, a key of `FORMATS`.

    Returns:
        The ratio of the times with its interval, and the verdict. Float32 was timed twice; the difference of its two
        timings shows the noise.
    """
    by_side = {(row.side, row.null): row for row in rows}
    return statistics.compare(*paired(by_side[FLOAT, False], by_side[side, False], by_side[FLOAT, True]))


def table(rows: Sequence[FormatResult]) -> str:
    """Return the results as Markdown: a table with one line per number format, then notes on missed targets.

    A line has the time, the speedup over float32, and the least time that the arithmetic alone needs. A note says what
    the time of a format that misses its target is spent on.
    """
    by_side = {row.side: row for row in rows if not row.null}
    first = by_side[FLOAT]
    lines = [
        f"# Gradient steps in fixed point: {WORKLOAD}, B={first.batch_size}, one thread",
        "",
        "Time: median. Faster than floats: ratio of the times, paired by round, with its 95% interval. Products at the "
        "peak: the step's multiply-accumulates, of 16 bits one for each pair of digits, at what one core was "
        "measured to do of them at most, and how much faster than "
        "floats' that is, which no implementation can "
        "exceed where floats reach their peak. Share: that time over the step's. Provenance: measured.",
        "",
    ]
    columns = ("side", "time of a step", "faster than floats", "target", "products at the peak", "share")
    notes, cells = [], []
    for side, row in by_side.items():
        if row.value is None:
            cells.append([side, f"{row.status}: {row.reason}", "", "", "", ""])
            continue
        gain, target = "1", ""
        if side != FLOAT:
            outcome = compared(rows, side)
            times = outcome.ratio
            gain = (
                outcome.reason if times is None else f"{times.value:.2f}x [{times.low:.2f}, {times.high:.2f}]"
            )
            if side in TARGETS:
                verdict = reached(times.low, times.high, TARGETS[side]) if times else "no verdict"
                target = f"{TARGETS[side]}x: {verdict}"
                if verdict != "met":
                    notes.append(_note(side, row))
        noisy = "~" if row.status == "too_noisy" else ""
        limit_s = row.least_s or 0.0
        peak = f"{limit_s * 1e3:.2f} ms, {(first.least_s or 0.0) / limit_s:.2f}x"
        share = f"{limit_s / row.value:.0%}"
        cells.append([side, f"{noisy}{row.value * 1e3:.2f} ms", gain, target, peak, share])
    lines += section("Sides", columns, cells)
    null = compared(rows, FIXED_32).null
    if null is not None:
        lines += [f"A/A null of floats: {null.value:.3f} [{null.low:.3f}, {null.high:.3f}]."]
    return "\n".join([*lines, "", *notes, ""])


def _note(side: str, row: FormatResult) -> str:
    """Return where the time of a side goes that does not meet its target."""
    profiled, counts, least = row.profile_s or {}, row.multiply_accumulates or {}, row.least_s or 0.0
    parts = ", ".join(f"{kind} {seconds * 1e3:.2f} ms" for kind, seconds in profiled.items())
    narrow, wide = (counts[kind] / 1e6 for kind in ("int16", "int32"))
    products_s, nodes_s = profiled.get("matmul", 0.0), sum(profiled.values())
    around_s, between_s = products_s - least, (row.value or nodes_s) - nodes_s
    return (
        f"- {side}: {parts} (least of {PROFILE_STEPS} steps, node by node); {between_s * 1e3:.2f} ms of the step are "
        f"no node's. Its products are {narrow:.0f} million 16-bit and {wide:.0f} million 32-bit multiply-accumulates, "
        f"{least * 1e3:.2f} ms at the peak; {around_s * 1e3:.2f} ms of them are codes and packing before, "
        "rounding, bias and ReLU after, and what the sums take to be moved on."
    )


def bench(
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, help="Items of a gradient step.")
    ] = BATCH_SIZE,
    rounds: RoundsOption = statistics.PAIRS,
) -> Bench[FormatResult]:
    """Time gradient steps in float32, and in 32-bit and 16-bit fixed point (FIX V-C, VI)."""
    cells = [cell(f"{SUITE}/{batch_size}", partial(times, batch_size, rounds))]
    return Bench(SUITE, FormatResult, cells, table, selecting=("batch_size",))
