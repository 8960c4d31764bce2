"""Checks of FIX Fig. 10 over its adaptive array: simulated where a run has the rows, modelled beside them."""

from typing import Any

import pandas as pd

from harness import simulated_array
from harness.claims.base import Finding, Outcome
from harness.claims.evidence import detail, number, records, select
from harness.claims.number import Number, from_cell, from_text, ratio
from harness.provenance import Provenance
from primitives.fpga.cycles import fixar, networks

TWICE = 2.0


def simulated_rates(frame: pd.DataFrame) -> dict[str, dict[int, Any]]:
    """Rows of FIX's array by width of activations and batch size (`harness.simulated_array`)."""
    found: dict[str, dict[int, Any]] = {name: {} for name in simulated_array.BACKENDS.values()}
    for row in records(select(frame, suite="claim", quantity=simulated_array.QUANTITY)):
        if detail(row, "experiment") == simulated_array.EXPERIMENT:
            found[row.backend][int(row.batch_size)] = row
    return found


def fixar_throughput(frame: pd.DataFrame) -> Finding:
    """FIX Fig. 10: inferences a second of the array, at every batch size, and how full its blocks are."""
    state, action = networks.FIX_BENCHMARKS["HalfCheetah"]
    numbers, bounds = [], []
    for batch in (64, 512):
        for bits, halves in ((32, False), (16, True)):
            rate = fixar.ddpg_samples_per_s(state, action, batch, fixar.ArrayModel(halves=halves))
            bounds += [] if halves else [rate]
            title = f"HalfCheetah, batch {batch}, {bits}-bit activations: samples a second"
            numbers.append(
                Number(
                    title, rate, "IPS", Provenance.MODELLED, "products alone, 2 cores of 16 x 16 at 164 MHz"
                )
            )
    rates = list(bounds)
    for bits, name in simulated_array.BACKENDS.items():
        rows = simulated_rates(frame)[name]
        if bits == 32 and rows:
            rates = [float(row.value) for row in rows.values()]
        numbers += [number(row, f"{name}, batch size {size}") for size, row in sorted(rows.items())]
    full = 100 * fixar.block_utilisation(networks.mlp(state, *networks.FIX_HIDDEN, action), 16)
    title = "HalfCheetah's actor: weights over places in blocks of 16 x 16"
    numbers.append(Number(title, full, "%", Provenance.MODELLED, "FIX V-A"))
    published, published_full = from_text("FIX.accelerator_ips", "FIX.utilisation")
    constant = max(rates) / min(rates) < 1.1
    near = published.value <= min(rates) <= 1.25 * published.value
    simulated = rates != bounds
    spread = f"within {max(rates) / min(rates) - 1:.0%} of each other" if simulated else "the same"
    explanation = (
        f"Throughput at every batch size is {spread}, and the published figure closely below it: activations and "
        "control, of which the paper gives no cycles, come on top"
        f"{' of products and Adam, which are simulated' if simulated else ' of products, and Adam'}. "
        f"The published utilisation, {published_full}, is the share of places in blocks that hold a weight. "
        "With 16-bit activations the rate is twice as high; the paper does not say which it measured."
    )
    outcome = Outcome.IN_KIND if constant and near else Outcome.NOT_REPRODUCED
    return Finding(outcome, tuple(numbers), explanation)


def normalised_peaks(frame: pd.DataFrame) -> Finding:
    """FIX Table II: the array's peak on FIX's network beside earlier accelerators' published ones, scaled to it."""
    rows = simulated_rates(frame)[simulated_array.BACKENDS[32]]
    if not rows:
        return Finding(Outcome.NOT_RUN, needs="the array's simulated rates (claim/FIX-F10)")
    best = max(rows.values(), key=lambda row: float(row.value))
    ours = number(best, f"the array simulated, batch size {int(best.batch_size)}")
    row = "peak performance normalised to FIXAR"
    earlier = {name: from_cell("fix_table_2", row, name).value for name in ("ASPLOS'19 [19]", "FCCM'20 [20]")}
    stated = from_cell("fix_table_2", row, "FIXAR").value
    gains = ", ".join(
        f"{ours.value / value:.1f}x that of {name}, published {stated / value:.1f}x"
        for name, value in earlier.items()
    )
    explanation = f"The array's peak is {gains}. Efficiency is not judged: nothing here has its watts."
    leads = all(ours.value > value for value in earlier.values())
    return Finding(Outcome.IN_KIND if leads else Outcome.NOT_REPRODUCED, (ours,), explanation)


def half_precision(frame: pd.DataFrame) -> Finding:
    """FIX V-C: the array's rate with 16-bit activations over that with 32-bit ones, at every batch size."""
    rates = simulated_rates(frame)
    full, half = (rates[simulated_array.BACKENDS[bits]] for bits in (32, 16))
    ours = tuple(
        ratio(
            f"batch size {size}: rate of 16-bit activations over that of 32-bit ones",
            number(half[size], "16 bits"),
            number(full[size], "32 bits"),
        )
        for size in sorted(full.keys() & half.keys())
    )
    if not ours:
        return Finding(Outcome.NOT_RUN, needs="the array's simulated rates (claim/FIX-F10)")
    said = "The products take half the passes; Adam, whose weights stay at 32 bits, takes as long."
    if all(gain.value >= 0.95 * TWICE for gain in ours):
        return Finding(Outcome.REPRODUCED, ours, said)
    gains = all(gain.value > 1 for gain in ours)
    return Finding(Outcome.IN_KIND if gains else Outcome.NOT_REPRODUCED, ours, said)
