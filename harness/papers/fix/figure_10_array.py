"""Models the samples per second of FIX's accelerator over the batch size (FIX Fig. 10).

The products of a DDPG update run one after another on the adaptive array: two cores of 16 x 16 elements. Adam
follows, on the 16 weights that the memory gives per cycle (FIX does not state how many its optimiser takes).
Activations are applied to the array's output. The clock frequency is the paper's, and an assumption: this design was
not placed on the device.

The rows are modelled, from a formula for the cycles. `AdaptiveTimer` and `StreamSequencer` are simulated hardware,
but they only count passes (one for each block of weights), words and latencies, which Python's formulas give
(`layer_passes`, `layer_words`, `adam_latency`). Only the tests simulate the array itself with its data, with 2 and 3
elements per side; its cycles then equal the formula's.
"""

from dataclasses import replace
from typing import Any

import pandas as pd

from harness.core.progress import Report
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.core.suites import Experiment, Suite
from harness.papers.base import Finding, Outcome
from harness.papers.cells import TierLimits, claim_cell
from harness.papers.clocks import CLOCK, placed_clock, times_as_fast
from harness.papers.evidence import detail, number, rows_of
from harness.papers.fix.throughput import BATCH_SIZES, WORKLOAD
from harness.papers.gains_rule import interval
from harness.papers.number import Number, from_cell, from_text, ratio
from harness.profile import simulated
from harness.store.cell import Cell
from primitives.fpga.cycles import fixar, networks
from primitives.fpga.cycles.networks import FIX_BENCHMARKS
from primitives.learner.fpga import fpga_backend

EXPERIMENT = Experiment("FIX-F10", "FIX's array over the batch size", "learner_inferences_per_s")
DEVICE = "fpga:u50"
QUANTITY = "learner_inferences_per_s"
BACKENDS = {32: "array of 32-bit activations", 16: "array of 16-bit activations"}
TWICE = 2.0
ROOM = 1.25
"""Largest ratio of the modelled to the published throughput at which they count as consistent.

The model leaves out activations and control, so that it may be faster.
"""
NEEDS_ROWS = "the array's modelled rates (claim/FIX-F10)"


def measure(report: Report) -> list[Measurement]:
    """Compute the samples per second of FIX's accelerator from a formula for its cycles.

    Args:
        report: called with the work done, the total work, and a text that names the current work.

    Returns:
        One row per batch size and width of the activations. Their status is `not_run` if the tools that simulate
        hardware are missing.
    """
    missing = fpga_backend.unavailable_reason()
    rows = []
    for done, batch_size in enumerate(BATCH_SIZES):
        report(done, len(BATCH_SIZES), f"FIX's array, batch size {batch_size}")
        for bits in BACKENDS:
            row = _row(batch_size, bits)
            if missing:
                rows.append(replace(row, status="not_run", reason=f"needs {missing}"))
            else:
                rows.append(_counted(row, batch_size, bits))
    return rows


def _row(batch_size: int, bits: int) -> Measurement:
    clock = simulated.clock(DEVICE)
    return Measurement(
        suite=Suite.CLAIM,
        workload=WORKLOAD,
        primitive="learner.step",
        backend=BACKENDS[bits],
        device=DEVICE,
        batch_size=batch_size,
        quantity=QUANTITY,
        provenance=Provenance.MODELLED,
        status="not_run",
        reason="not counted yet",
        details={
            "experiment": EXPERIMENT,
            "clock_mhz": clock.value,
            "clock_assumed": True,
            "clock_source": clock.source,
        },
    )


def _counted(row: Measurement, batch_size: int, bits: int) -> Measurement:
    from primitives.fpga.cycles.simulated_units import array_cycles, sequence_cycles
    from primitives.fpga.learner_pipeline.update_unit import adam_latency

    array = replace(fixar.FIXAR, halves=bits == 16)
    state, action = FIX_BENCHMARKS["HalfCheetah"]
    products = array_cycles(fixar.ddpg_products(state, action, batch_size), array)
    words = -(-fixar.ddpg_weights(state, action) // array.side)
    adam = sequence_cycles(words, adam_latency(batch_size))
    cycles, formula = products + adam, fixar.ddpg_cycles(state, action, batch_size, array)
    details = {
        **row.details,
        "cycles": cycles,
        "unit_cycles": {"array": products, "adam": adam},
        "formula": "passes x words, every block in beside the pass before it (FIX V-B)",
        "formula_cycles": formula,
        "difference_cycles": cycles - formula,
    }
    value = batch_size * row.details["clock_mhz"] * 1e6 / cycles
    return replace(row, status="ok", reason="", value=value, details=details)


def cells(tier: TierLimits) -> list[Cell]:
    """Return the cell (a piece of the plan) that models FIX's accelerator over the batch size.

    Args:
        tier: the tier of the plan (`quick`, `standard` or `full`), which says how much a run measures.
    """
    return [claim_cell(EXPERIMENT, 2, measure, Provenance.MODELLED)]


def array_rows(frame: pd.DataFrame) -> dict[str, dict[int, Any]]:
    """Return the stored rows with the modelled samples per second of FIX's array.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.

    Returns:
        Named tuples by width of the activations (the names in `BACKENDS`, such as "array of 16-bit activations"), and
        then by batch size.
    """
    found: dict[str, dict[int, Any]] = {name: {} for name in BACKENDS.values()}
    for row in rows_of(frame, EXPERIMENT, QUANTITY):
        found[row.backend][int(row.batch_size)] = row
    return found


def modelled_rate(row: Any, quantity: str) -> Number:
    """Return a stored rate of FIX's array as a number that is modelled, even if an earlier run labelled it simulated.

    Args:
        row: a row from `array_rows`.
        quantity: name that the number gets, in words.
    """
    return replace(number(row, quantity), provenance=Provenance.MODELLED)


def array_rates(frame: pd.DataFrame) -> list[Number]:
    """Return the modelled samples per second of FIX's array, for 32-bit and then for 16-bit activations.

    The rates of each width are in the order of their batch sizes.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    return [
        modelled_rate(row, f"{name}, batch size {size}")
        for name, rows in array_rows(frame).items()
        for size, row in sorted(rows.items())
    ]


def fixar_throughput(frame: pd.DataFrame) -> Finding:
    """Check FIX Fig. 10: the array has the same throughput at every batch size, with nearly all elements in use.

    The modelled rates are consistent with the paper if they differ from each other by no more than the bars of Fig.
    10, and are at least the published rate and at most 1.25 times as high (`ROOM`).

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    full = array_rows(frame)[BACKENDS[32]]
    if len(full) < 2:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_ROWS)
    numbers = array_rates(frame)
    rates = [float(row.value) for row in full.values()]
    clock_mhz = float(detail(full[min(full)], CLOCK))
    slowest = min((number for number in numbers if number.value in rates), key=lambda each: each.value)
    numbers += times_as_fast(replace(slowest, quantity="32-bit activations, slowest batch size"), clock_mhz)[
        1:
    ]
    state, action = networks.FIX_BENCHMARKS["HalfCheetah"]
    products = fixar.ddpg_samples_per_s(state, action, min(full), fixar.FIXAR)
    title, source = (
        "products alone, at every batch size",
        f"passes x words, 2 cores of 16 x 16 at {fixar.FIXAR.clock_hz / 1e6:g} MHz (FIX V)",
    )
    numbers.append(Number(title, products, "IPS", Provenance.MODELLED, source))
    occupied = 100 * fixar.block_utilisation(networks.mlp(state, *networks.FIX_HIDDEN, action), 16)
    title = "HalfCheetah's actor: weights over places in blocks of 16 x 16"
    numbers.append(Number(title, occupied, "%", Provenance.MODELLED, "FIX V-A"))

    published, published_full = from_text("FIX.accelerator_ips", "FIX.utilisation")
    bars = [interval(_bar(size)) for size in sorted(full)]
    read = max(high for _, high in bars) / min(low for low, _ in bars) - 1
    spread = max(rates) / min(rates) - 1
    near = published.value <= min(rates) <= ROOM * published.value
    explanation = (
        f"With Adam on top of its products the modelled array's rates differ by {spread:.1%} over batch sizes, the "
        f"bars of Fig. 10 by {read:.1%} at most, reading error included. Products alone give the same rate at every "
        f"batch size, {products / published.value - 1:.0%} above the published one. The model does not know what "
        "activations and control take, nor how many weights a cycle FIX's Adam updates, nor whether it runs while "
        f"products do. The published utilisation is {published_full}; the share of places in blocks that hold a weight "
        f"is {occupied:.1f}%. With 16-bit activations the rate is about twice as high; the paper does not say which it "
        "measured. Rates are in proportion to the clock, which the paper gives; the slowest is also shown at "
        f"{placed_clock().words}."
    )
    outcome = Outcome.CONSISTENT if spread <= read and near else Outcome.NO_VERDICT
    return Finding(outcome, tuple(numbers), explanation)


def _bar(size: int) -> Number:
    return from_cell("fix_figure_10", f"HalfCheetah, B = {size}", "accelerator, throughput")


def half_precision(frame: pd.DataFrame) -> Finding:
    """Check FIX V-C: with 16-bit activations the array's products take half as many cycles, at every batch size.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    rows = array_rows(frame)
    full, half = (rows[BACKENDS[bits]] for bits in (32, 16))
    arrays, updates = [], []
    for size in sorted(full.keys() & half.keys()):
        title = f"batch size {size}: 32-bit activations over 16-bit ones"
        cycles = [_array_cycles(rows[size]) for rows in (full, half)]
        arrays.append(ratio(f"{title}, cycles of the products", *cycles))
        rates = [modelled_rate(rows[size], "rate") for rows in (half, full)]
        updates.append(ratio(f"{title}, time of the whole update", *rates))
    if not arrays:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_ROWS)
    said = (
        "By the formula of the array's cycles, which the simulated array of 2 and 3 elements a side confirms, two "
        "halves of a word stream at once. The whole update gains less: Adam, whose weights stay at 32 bits, takes as "
        "long. Ratios of cycles do not depend on the clock. A simulation of the whole array is left to be done."
    )
    doubles = all(abs(gain.value / TWICE - 1) <= 0.05 for gain in arrays)
    outcome = Outcome.CONSISTENT if doubles else Outcome.NO_VERDICT
    return Finding(outcome, (*arrays, *updates), said)


def _array_cycles(row: Any) -> Number:
    cycles = float(detail(row, "unit_cycles")["array"])
    return Number("products", cycles, "cycles", Provenance.MODELLED, "", rows=(int(row.Index),))
