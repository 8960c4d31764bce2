"""Counts the samples per second of FIX's accelerator over the batch size (FIX Fig. 10).

The accelerator is this project's, `primitives.fpga.fixar`: two cores of 16 x 16 elements with memories, Adam and a
sequencer, which trains HalfCheetah's 400-300 networks. The cycles are simulated without data, by its sequencer and
counters; the tests compare them with those of the whole design, which trains with data. How they divide into parts is
always added up from its program (`modelled`). The clock
frequency is the paper's, and an assumption: this design was not placed on the device.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from placerl.harness.core.progress import Report, silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers.assumptions import both_outcomes, sentences_of_its_own
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.cells import TierLimits, experiment_cells
from placerl.harness.papers.clocks import FIXAR, at_placed_clock, placed_clock, unplaced
from placerl.harness.papers.evidence import number, rows_of
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.fix.throughput import BATCH_SIZES, WORKLOAD
from placerl.harness.papers.gains_rule import interval
from placerl.harness.papers.number import Number, from_cell, from_text, ratio
from placerl.harness.profile import simulated
from placerl.primitives.fpga.cycles import networks
from placerl.primitives.fpga.cycles.fixar_dataflows import ELEMENTS, ddpg_products
from placerl.primitives.learner.fpga import fpga_backend


@dataclass(frozen=True)
class ArrayCycles(Columns):
    """Columns of the accelerator's rows: its clock, the cycles of a batch, and those that its program adds up to.

    Adam follows each loop over the batch; `overlap_cycles` are those with Adam alongside the next loop, which rows of
    earlier versions lack.
    """

    clock_mhz: float
    clock_source: str
    cycles: int | None = None
    unit_cycles: dict[str, int] | None = None
    forward_cycles: int | None = None
    overlap_cycles: int | None = None
    formula: str | None = None
    formula_cycles: int | None = None
    difference_cycles: int | None = None
    clock_assumed: bool = True


EXPERIMENT = Experiment(
    "FIX-F10",
    "FIX's accelerator over the batch size",
    "learner_inferences_per_s",
    ArrayCycles,
    of_machine=False,
)
DEVICE = "fpga:u50"
QUANTITY = "learner_inferences_per_s"
BACKENDS = {32: "accelerator, 32-bit activations", 16: "accelerator, 16-bit activations"}
POSSIBLE = {32: 1, 16: 2}
"""Multiply-adds that an element can do in a cycle, by the bits of the activations (FIX V-C)."""
NETWORK, SIDE = "halfcheetah", 16
TWICE = 2.0
ROOM = 1.25
"""Largest ratio between the rates of two designs of one dataflow at which they count as consistent.

A whole simulated design is no upper bound of the paper's, as the products of a dataflow alone are (`dataflow`): it may
be the faster or the slower of the two.
"""
NEEDS_ARRAY = "the accelerator's simulated rates (claim/FIX-F10)"
NEEDS_ROWS = "the accelerator's simulated rates (claim/FIX-F10)"
COUNT_S = 1.0


def measure(report: Report) -> Sequence[Row]:
    """Return the samples per second of FIX's accelerator.

    Returns:
        One row per batch size and width of the activations. Their status is `not_run` if the hardware's description
        is missing.
    """
    missing = fpga_backend.unavailable_reason()
    rows = []
    for done, batch_size in enumerate(BATCH_SIZES):
        report(done, len(BATCH_SIZES), f"FIX's accelerator, batch size {batch_size}")
        rows += [_row(batch_size, bits, missing) for bits in BACKENDS]
    return rows


def _row(batch_size: int, bits: int, missing: str) -> Row:
    clock = simulated.clock(DEVICE)
    columns = ArrayCycles(clock.value, clock.source)
    row = partial(
        EXPERIMENT.row,
        workload=WORKLOAD,
        primitive="learner.step",
        backend=BACKENDS[bits],
        device=DEVICE,
        batch_size=batch_size,
        quantity=QUANTITY,
        provenance=Provenance.SIMULATED,
    )
    if missing:
        return row(columns, status="not_run", reason=f"needs {missing}")
    from placerl.primitives.fpga.fixar import cycles as by_program
    from placerl.primitives.fpga.fixar.shape import benchmark

    shape, halves = benchmark(NETWORK, SIDE), bits == 16
    parts = by_program.step_cycles(shape, batch_size, halves=halves)
    cycles = step_cycles(batch_size, bits)
    counted = replace(
        columns,
        cycles=cycles,
        unit_cycles=parts,
        forward_cycles=by_program.forward_cycles(shape, batch_size, halves=halves),
        overlap_cycles=step_cycles(batch_size, bits, overlap=True),
        formula="a block of weights a cycle for each group of samples; Adam, 16 weights a cycle",
        formula_cycles=sum(parts.values()),
        difference_cycles=cycles - sum(parts.values()),
    )
    return row(counted, value=batch_size * clock.value * 1e6 / cycles)


def step_cycles(batch_size: int, bits: int, *, overlap: bool = False) -> int:
    """Return the simulated clock cycles of a training step of HalfCheetah's networks.

    Args:
        bits: of the activations, one of `BACKENDS`.
        overlap: whether Adam runs alongside the next products.
    """
    from placerl.primitives.fpga.cycles.blocks import fixar as block

    return int(block.BLOCK([NETWORK, SIDE], [batch_size, bits == 16, overlap]))


def act_cycles() -> int:
    """Return the clock cycles of an action for one state of HalfCheetah, by the accelerator's program."""
    from placerl.primitives.fpga.fixar import cycles as by_program
    from placerl.primitives.fpga.fixar.shape import benchmark

    return by_program.act_cycles(benchmark(NETWORK, SIDE))


def cycle_requests(tier: TierLimits) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield functions that look up the clock cycles that the cells of a tier need, each with a name."""
    yield "FIX-F10", partial(measure, silent)


cells = experiment_cells(EXPERIMENT, measure, estimate_s=COUNT_S, provenance=Provenance.SIMULATED)
"""The cell that counts the cycles of FIX's accelerator over the batch size."""


def array_rows(frame: pd.DataFrame) -> dict[str, dict[int, Any]]:
    """Return the stored rows with the simulated samples per second of FIX's accelerator.

    Returns:
        Named tuples by width of the activations (the names in `BACKENDS`, such as "accelerator, 16-bit
        activations"), and then by batch size.
    """
    rows: dict[str, dict[int, Any]] = {name: {} for name in BACKENDS.values()}
    for row in rows_of(frame, EXPERIMENT, QUANTITY):
        if row.backend in rows:  # earlier runs have rows of a model of the array
            rows[row.backend][int(row.batch_size)] = row
    return rows


def array_rates(frame: pd.DataFrame) -> list[Number]:
    """Return the simulated samples per second of FIX's accelerator, for 32-bit and then for 16-bit activations.

    The rates of each width are in the order of their batch sizes.
    """
    return [
        number(row, f"{name}, batch size {size}")
        for name, rows in array_rows(frame).items()
        for size, row in sorted(rows.items())
    ]


def in_both_modes(frame: pd.DataFrame, check: Callable[[pd.DataFrame, int], Finding]) -> Finding:
    """Return the finding of a check that is run for 32-bit and for 16-bit activations.

    FIX does not say which of them its rates are of. The outcome follows from both
    (`harness.papers.assumptions.both_outcomes`).
    """
    full, half = (check(frame, bits) for bits in BACKENDS)
    for finding in (full, half):
        if finding.outcome is Outcome.NOT_RUN:
            return finding
    said = (
        f"FIX does not say whether its rates are of 32-bit or 16-bit activations: with 32 bits {full.outcome}, with 16 "
        f"bits {half.outcome}."
    )
    texts = (full.explanation, sentences_of_its_own(half.explanation, full.explanation), said)
    outcome = both_outcomes(full.outcome, half.outcome)
    return Finding(outcome, (*full.ours, *half.ours), " ".join(text for text in texts if text))


def constant_rate(frame: pd.DataFrame, bits: int) -> Finding:
    name = BACKENDS[bits]
    judged = array_rows(frame)[name]
    if len(judged) < 2:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_ROWS)
    numbers = [number(row, f"{name}, batch size {size}") for size, row in sorted(judged.items())]
    slowest = min(numbers, key=lambda each: each.value)
    clock_mhz = judged[min(judged)].parameters.clock_mhz
    slowest = replace(slowest, quantity=f"{name}, slowest batch size")
    if missing := unplaced(FIXAR):
        at_placed = f"no placement is committed of {', '.join(missing)}, and so no other clock is known"
    else:
        numbers.append(at_placed_clock(slowest, clock_mhz, FIXAR))
        at_placed = f"the slowest is also shown at {placed_clock(FIXAR).words}"
    for size in (min(judged), max(judged)):
        parts = judged[size].parameters.unit_cycles
        share = 100 * float(parts["adam"]) / sum(map(float, parts.values()))
        title = f"{name}, batch size {size}: cycles of Adam, of all"
        numbers.append(Number(title, share, "%", Provenance.MODELLED, "placerl.primitives.fpga.fixar.cycles"))
    state, action = networks.FIX_BENCHMARKS["HalfCheetah"]
    size = max(judged)
    done = sum(p.outputs * p.inputs * p.vectors for p in ddpg_products(state, action, size))
    possible = POSSIBLE[bits] * ELEMENTS * judged[size].parameters.cycles
    used = 100 * done / possible
    title = f"{name}, batch size {size}: multiply-adds, of those possible"
    source = f"all products over {POSSIBLE[bits]} x 512 elements x cycles"
    numbers.append(Number(title, used, "%", Provenance.MODELLED, source))

    published, published_full = from_text("FIX.accelerator_ips", "FIX.utilisation")
    bars = [interval(_bar(size)) for size in sorted(judged)]
    read = max(high for _, high in bars) / min(low for low, _ in bars) - 1
    overlapped = [_with_adam_alongside(name, size, row) for size, row in sorted(judged.items())]
    numbers += overlapped
    rates = [float(row.value) for row in judged.values()]
    spread, spread_overlapped = (
        max(each) / min(each) - 1 for each in (rates, [one.value for one in overlapped])
    )
    low, high = (end(rates) / published.value - 1 for end in (min, max))
    explanation = (
        f"With {bits}-bit activations this design's rates differ by {spread:.1%} over batch sizes; its slowest is "
        f"{low:+.1%} from the published one, its fastest {high:+.1%}. At the largest batch {used:.1f}% of the "
        f"multiply-adds that its elements could do with {bits} bits, {POSSIBLE[bits]} a cycle each, are done. The bars "
        f"of Fig. 10 differ by {read:.1%} at most, reading error included. The published utilisation is "
        f"{published_full}; it is not judged. To agree, the rates may differ from each other by no more than the "
        f"bars of Fig. 10, and from the published one by a factor of {ROOM:g} at most. "
        "The time of a group of samples is constant. What changes with the batch is the share of Adam, which runs here "
        "after the products, as DDPG has it; FIX does not say when its Adam runs. Alongside the next products it takes "
        "no time of its own, but the actor is then trained through a critic that is an update older; the rates, "
        f"{overlapped[0].provenance}, differ by {spread_overlapped:.1%}. This design reads a block of 256 weights "
        "a cycle, where the paper says 16, and each core has a memory of 2.94 KB for activations. The "
        "tests compare the cycles with those of training steps with data. Rates are in proportion to the clock, which "
        f"the paper gives; {at_placed}."
    )
    shown = any(
        max(each) / min(each) - 1 <= read
        and published.value / ROOM <= min(each)
        and max(each) <= ROOM * published.value
        for each in (rates, [one.value for one in overlapped])
    )
    return Finding(Outcome.CONSISTENT if shown else Outcome.NO_VERDICT, tuple(numbers), explanation)


def _with_adam_alongside(name: str, size: int, row: Any) -> Number:
    """Return the rate with Adam alongside the next products; of rows without its cycles that without those of Adam."""
    parts, cycles = row.parameters.unit_cycles, row.parameters.overlap_cycles
    title = f"{name}, batch size {size}, with Adam alongside the next products"
    if cycles is None:
        all_cycles = sum(map(float, parts.values()))
        rate = float(row.value) * all_cycles / (all_cycles - float(parts["adam"]))
        said = Provenance.MODELLED, "the rate without the cycles of Adam"
    else:
        rate = float(row.value) * row.parameters.cycles / cycles
        said = Provenance.SIMULATED, "placerl.primitives.fpga.fixar"
    return Number(title, rate, "IPS", *said, rows=(int(row.Index),))


def _bar(size: int) -> Number:
    return from_cell("fix_figure_10", f"HalfCheetah, B = {size}", "accelerator, throughput")


def _forward_cycles(row: Any) -> Number:
    cycles = row.parameters.forward_cycles
    return Number("products", float(cycles), "cycles", Provenance.MODELLED, "", rows=(int(row.Index),))


class HalfPrecisionDoubles(Claim):
    """Checks FIX V-C: with 16-bit activations forward products take half as many cycles, at every batch size.

    Only these use the elements' configurable multiplier: the other products multiply errors, which have 32 bits.
    """

    key, place, position = "FIX-V-C", "V-C", 12
    statement = "16-bit activations double the throughput of the array, through its configurable multipliers"
    needs = NEEDS_ARRAY
    measured_by = (cells,)

    def judge(self, frame: pd.DataFrame) -> Finding:
        rows = array_rows(frame)
        full, half = (rows[BACKENDS[bits]] for bits in (32, 16))
        arrays, updates = [], []
        for size in sorted(full.keys() & half.keys()):
            title = f"batch size {size}: 32-bit activations over 16-bit ones"
            cycles = [_forward_cycles(rows[size]) for rows in (full, half)]
            arrays.append(ratio(f"{title}, cycles of forward products", *cycles))
            rates = [number(rows[size], "rate") for rows in (half, full)]
            updates.append(ratio(f"{title}, time of the whole update", *rates))
        if not arrays:
            return Finding(Outcome.NOT_RUN, needs=NEEDS_ROWS)
        said = (
            "In the accelerator, whose program gives the cycles of each part, two samples of 16 bits take the place "
            "and the time of one of 32 in forward products, which use the configurable multiplier. The whole update "
            "gains less: backward and gradient products, whose errors have 32 bits, and Adam take as long. Ratios of "
            "cycles do not depend on the clock."
        )
        doubles = all(abs(gain.value / TWICE - 1) <= 0.05 for gain in arrays)
        outcome = Outcome.CONSISTENT if doubles else Outcome.NO_VERDICT
        return Finding(outcome, (*arrays, *updates), said)
