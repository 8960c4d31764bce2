"""Checks of FIX V-C and Fig. 10 over its adaptive array; `array_runs` models its cycles."""

from dataclasses import replace
from typing import Any

import pandas as pd

from harness.core.provenance import Provenance
from harness.papers.base import Finding, Outcome
from harness.papers.clocks import CLOCK, placed_clock, times_as_fast
from harness.papers.evidence import detail, number, records, select
from harness.papers.fix import array_runs
from harness.papers.gains_rule import interval
from harness.papers.number import Number, from_cell, from_text, ratio
from primitives.fpga.cycles import fixar, networks

TWICE = 2.0
ROOM = 1.25
"""The model leaves out activations and control: it may be this many times as fast as what is published."""
NEEDS_ROWS = "the array's modelled rates (claim/FIX-F10)"


def array_rows(frame: pd.DataFrame) -> dict[str, dict[int, Any]]:
    """Return the rows of FIX's array by width of activations and batch size (`harness.papers.fix.array_runs`)."""
    found: dict[str, dict[int, Any]] = {name: {} for name in array_runs.BACKENDS.values()}
    for row in records(select(frame, suite="claim", quantity=array_runs.QUANTITY)):
        if detail(row, "experiment") == array_runs.EXPERIMENT:
            found[row.backend][int(row.batch_size)] = row
    return found


def modelled_rate(row: Any, quantity: str) -> Number:
    """Return a row of `array_rows` as a number: modelled, also where an earlier run called it simulated."""
    return replace(number(row, quantity), provenance=Provenance.MODELLED)


def array_rates(frame: pd.DataFrame) -> list[Number]:
    """Return the rates of the array for each width of activations and batch size."""
    return [
        modelled_rate(row, f"{name}, batch size {size}")
        for name, rows in array_rows(frame).items()
        for size, row in sorted(rows.items())
    ]


def fixar_throughput(frame: pd.DataFrame) -> Finding:
    """FIX Fig. 10: inferences a second of the array, the same at every batch size, and how full its blocks are."""
    full = array_rows(frame)[array_runs.BACKENDS[32]]
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
    """FIX V-C: what 16-bit activations do to the cycles of the array's products, at every batch size."""
    rows = array_rows(frame)
    full, half = (rows[array_runs.BACKENDS[bits]] for bits in (32, 16))
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
