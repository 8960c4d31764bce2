"""The table of the fixed-point benchmark, from made-up times."""

from dataclasses import replace

import numpy as np
import pytest

from placerl.harness.cli.bench import quantization_bench
from placerl.harness.cli.bench.quantization_bench import ACTIVATIONS, FLOAT, PRODUCTS, FormatResult
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import HowTimed
from placerl.harness.papers.fix.training import FIXED_32
from tests.harness.cli.command_line import Placerl, refused

PAIRS = 20


def row(side: str, time_s: float, null: bool = False) -> FormatResult:
    samples = tuple(time_s * (1 + i % 3 / 1000) for i in range(PAIRS))
    return FormatResult(
        suite="bench-quantization", workload="halfcheetah-ddpg", primitive="learner.step", backend=f"native, {side}",
        device="cpu", batch_size=256, quantity="time_per_call", unit="s", provenance=Provenance.MEASURED,
        value=time_s, low=time_s, high=time_s, samples=samples, side=side, null=null,
        multiply_accumulates={"int16": 10**8, "int32": 0}, least_s=2e-3 if side == FLOAT else 1e-3,
        profile_s={"matmul": time_s / 2},
    )  # fmt: skip


def rows(fixed_32_s: float, products_s: float) -> list[FormatResult]:
    times_s = {FLOAT: 4e-3, FIXED_32: fixed_32_s, ACTIVATIONS: 2e-3, PRODUCTS: products_s}
    return [*(row(side, time_s) for side, time_s in times_s.items()), row(FLOAT, 4e-3, null=True)]


def test_targets_that_are_met_need_no_note() -> None:
    text = quantization_bench.table(rows(8e-3, 2e-3))
    assert "| 16-bit products | 2.00 ms | 2.00x [2.00, 2.00] | 1.5x: met | 1.00 ms, 2.00x | 50% |" in text
    assert "0.4x: met" in text
    assert "\n- " not in text


def test_a_target_that_is_missed_says_where_the_time_goes() -> None:
    text = quantization_bench.table(rows(20e-3, 3e-3))
    assert "0.4x: missed" in text
    assert "1.5x: missed" in text
    assert "- 16-bit products: matmul 1.50 ms" in text
    assert "100 million 16-bit and 0 million 32-bit multiply-accumulates, 1.00 ms at the peak" in text
    assert "1.50 ms of the step are no node's" in text
    assert "0.50 ms of them are codes and packing before" in text
    assert "A/A null of floats: 1.000" in text


def test_formats_are_compared_in_the_rounds_that_each_has_a_sample_of() -> None:
    drift = np.random.default_rng(0).uniform(1, 1.6, 1 + PAIRS)

    def drifting(side: str, time_s: float, dropped: int, null: bool = False) -> FormatResult:
        kept = [number for number in range(len(drift)) if number != dropped]
        rounds = [[0, dropped - 1], [dropped + 1, PAIRS]]
        made = row(side, time_s, null)
        return replace(made, samples=tuple(time_s * drift[kept]), timed=HowTimed(sample_rounds=rounds))

    measured = [drifting(FLOAT, 4e-3, 2), drifting(FIXED_32, 2e-3, 17), drifting(FLOAT, 4e-3, 9, null=True)]
    outcome = quantization_bench.compared(measured, FIXED_32)
    assert outcome.pairs == PAIRS - 2
    assert outcome.ratio is not None
    assert (outcome.ratio.low, outcome.ratio.high) == pytest.approx((2, 2))


def test_a_format_that_failed_is_named_in_the_table() -> None:
    stored = rows(8e-3, 2e-3)
    lost = {"status": "failed", "reason": "call: no memory", "value": None, "low": None, "high": None}
    stored[1] = replace(stored[1], samples=(), **lost)
    assert "| fixed 32 | failed: call: no memory |" in quantization_bench.table(stored)


@pytest.mark.parametrize(("option", "least"), [("--batch-size", "1"), ("--rounds", "15")])
def test_a_batch_or_rounds_out_of_range_are_refused(placerl: Placerl, option: str, least: str) -> None:
    outcome = placerl("bench", "quantization", option, "0")
    refused(outcome, f"{option}: found '0'; allowed: greater than or equal to {least}")
