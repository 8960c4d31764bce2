"""FIX's array over batch size: rows that say their cycles, their formula and their clock, and the verdicts on them."""

from pathlib import Path

import pytest

from harness import papers
from harness.core.progress import silent
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.papers import Outcome, Verdict
from harness.papers.clocks import placed_clock
from harness.papers.fix import figure_10_array
from harness.papers.fix.figure_10_array import BACKENDS, EXPERIMENT, QUANTITY
from harness.papers.fix.throughput import BATCH_SIZES
from harness.papers.number import from_cell
from primitives.fpga.cycles import fixar
from primitives.learner.fpga import fpga_backend
from tests.harness.papers.rows import frame_of, measurement


def test_the_products_of_an_update_cover_every_multiply_accumulate() -> None:
    state, action, batch = 17, 6, 64
    actor, critic = (17 * 400 + 400 * 300 + 300 * 6), (23 * 400 + 400 * 300 + 300)
    wanted = batch * (2 * actor + 3 * critic)  # forward
    wanted += batch * ((critic - 23 * 400) + critic + critic)  # the critic's own, its gradient, through it
    wanted += batch * ((actor - 17 * 400) + actor)
    products = fixar.ddpg_products(state, action, batch)
    assert sum(p.outputs * p.inputs * p.vectors for p in products) == wanted
    assert fixar.ddpg_weights(state, action) == actor + critic + 2 * 700 + 6 + 1


def test_without_the_tools_rows_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fpga_backend, "unavailable_reason", lambda: "not installed: verilator")
    rows = figure_10_array.measure(silent)
    assert len(rows) == 2 * len(figure_10_array.BATCH_SIZES)
    assert {row.provenance for row in rows} == {Provenance.MODELLED}
    assert {(row.status, row.reason, row.value) for row in rows} == {
        ("not_run", "needs not installed: verilator", None)
    }


@pytest.mark.slow
@pytest.mark.timeout(1800)  # builds simulations with the C++ compiler
@pytest.mark.skipif(bool(fpga_backend.unavailable_reason()), reason=fpga_backend.unavailable_reason())
def test_rows_are_modelled_at_an_assumed_clock() -> None:
    rows = figure_10_array.measure(silent)
    assert {row.batch_size for row in rows} == set(figure_10_array.BATCH_SIZES)
    for row in rows:
        assert row.provenance is Provenance.MODELLED
        assert row.details["clock_assumed"]
        assert row.value == pytest.approx(row.batch_size * 164e6 / row.details["cycles"])
        assert row.details["cycles"] == sum(row.details["unit_cycles"].values())


def verdict(key: str, folder: Path, *rows: Measurement) -> Verdict:
    (found,) = (v for v in papers.evaluate(frame_of(folder, *rows), key) if v.key == key)
    return found


def array(rates: list[float], bits: int = 32, products: float = 1e5) -> list[Measurement]:
    """Rows of the array; the products of each take `products` cycles."""
    details = {"experiment": EXPERIMENT, "clock_mhz": 164.0, "unit_cycles": {"array": products, "adam": 1}}
    return [
        measurement(
            rate,
            low=None,
            high=None,
            suite="claim",
            workload="halfcheetah-ddpg",
            primitive="learner.step",
            backend=BACKENDS[bits],
            device="fpga:u50",
            batch_size=size,
            quantity=QUANTITY,
            unit="IPS",
            provenance=Provenance.SIMULATED,  # as earlier runs called it
            details=details,
        )
        for size, rate in zip(BATCH_SIZES, rates, strict=True)
    ]


@pytest.mark.parametrize(
    ("rates", "outcome"),
    [
        ([57e3] * 4, Outcome.CONSISTENT),
        ([55e3, 57e3, 59e3, 60e3], Outcome.NO_VERDICT),  # not constant
        ([50e3] * 4, Outcome.NO_VERDICT),  # a bound below what was published
        ([90e3] * 4, Outcome.NO_VERDICT),  # too far above it to say anything
        ([53.9e3] * 4, Outcome.CONSISTENT),  # 53,826.8 is published
        ([53.8e3] * 4, Outcome.NO_VERDICT),
        ([67.2e3] * 4, Outcome.CONSISTENT),  # a quarter above it
        ([67.4e3] * 4, Outcome.NO_VERDICT),
    ],
)
def test_the_arrays_rate_is_judged_as_a_model(rates: list[float], outcome: Outcome, tmp_path: Path) -> None:
    found = verdict("FIX-F10-rate", tmp_path, *array(rates))
    assert found.finding.outcome is outcome
    assert found.provenance == "modelled"
    assert len(found.rows) == 4
    (slow,) = (n for n in found.finding.ours if n.quantity.endswith("at 64.5 MHz"))
    assert slow.value == pytest.approx(min(rates) * placed_clock().mhz / 164)


@pytest.mark.parametrize(("share", "outcome"), [(0.99, Outcome.CONSISTENT), (1.01, Outcome.NO_VERDICT)])
def test_the_array_s_rates_may_differ_as_far_as_the_bars_can_be_misread(
    share: float, outcome: Outcome, tmp_path: Path
) -> None:
    bars = [
        from_cell("fix_figure_10", f"HalfCheetah, B = {size}", "accelerator, throughput")
        for size in BATCH_SIZES
    ]
    apart = max(bar.high or 0 for bar in bars) / min(bar.low or 0 for bar in bars) - 1
    assert apart > 0
    fast = 57e3 * (1 + share * apart)
    assert verdict("FIX-F10-rate", tmp_path, *array([57e3, fast, 57e3, 57e3])).finding.outcome is outcome


def test_one_batch_size_says_nothing_about_every_one(tmp_path: Path) -> None:
    one = array([57e3] * 4)[:1]
    assert verdict("FIX-F10-rate", tmp_path / "a", *one).needs == figure_10_array.NEEDS_ROWS
    assert (
        verdict("FIX-F10-rate", tmp_path / "b", *array([57e3] * 4)[:2]).finding.outcome is Outcome.CONSISTENT
    )
    halves = array([9e4] * 4, 16)
    assert verdict("FIX-V-C", tmp_path / "d", *one, *halves[1:]).needs == figure_10_array.NEEDS_ROWS


def test_the_array_s_products_alone_and_how_full_its_blocks_are(tmp_path: Path) -> None:
    found = verdict("FIX-F10-rate", tmp_path, *array([57e3] * 4)).finding
    products, occupied = found.ours[-2:]
    # Each of the two cores takes 256 products a cycle, at 164 MHz.
    assert products.unit == "IPS"
    assert products.value > 57e3
    # 17-400-300-6: 128,600 weights, in 2 x 25 + 25 x 19 + 19 x 1 blocks of 256.
    assert occupied.value == pytest.approx(100 * 128_600 / (256 * (50 + 475 + 19)))


def test_without_the_arrays_rows_nothing_is_judged(tmp_path: Path) -> None:
    for key in ("FIX-F10-rate", "FIX-V-C", "FIX-T2", "FIX-F8-host"):
        assert verdict(key, tmp_path / key).finding.outcome is Outcome.NOT_RUN
        assert "claim/FIX-F10" in verdict(key, tmp_path / key).needs


@pytest.mark.parametrize(
    ("half", "outcome"),
    [
        (5.1e4, Outcome.CONSISTENT),
        (1e5 / 1.91, Outcome.CONSISTENT),
        (1e5 / 1.89, Outcome.NO_VERDICT),
        (1e5 / 2.09, Outcome.CONSISTENT),
        (1e5 / 2.11, Outcome.NO_VERDICT),
        (1e5, Outcome.NO_VERDICT),
    ],
)
def test_half_words_halve_the_cycles_of_the_products_or_not(
    half: float, outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict("FIX-V-C", tmp_path, *array([5e4] * 4), *array([9e4] * 4, 16, half))
    assert found.finding.outcome is outcome
    assert [n.value for n in found.finding.ours] == pytest.approx([1e5 / half] * 4 + [1.8] * 4)
    assert found.provenance == "modelled"


def test_rows_that_earlier_runs_called_simulated_are_modelled(tmp_path: Path) -> None:
    rates = figure_10_array.array_rates(frame_of(tmp_path, *array([5e4] * 4), *array([9e4] * 4, 16)))
    assert {rate.provenance for rate in rates} == {Provenance.MODELLED}
    assert [rate.value for rate in rates] == [5e4] * 4 + [9e4] * 4
