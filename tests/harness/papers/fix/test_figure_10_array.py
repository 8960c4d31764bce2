"""FIX's accelerator over batch size: rows with their cycles, formula and clock, and the verdicts on them."""

from pathlib import Path

import pytest

from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from placerl.harness.papers.clocks import FIXAR, placed_clock
from placerl.harness.papers.fix import figure_10_array
from placerl.harness.papers.fix.figure_10_array import BACKENDS, EXPERIMENT, QUANTITY
from placerl.harness.papers.fix.throughput import BATCH_SIZES
from placerl.harness.papers.number import from_cell
from placerl.primitives.fpga.cycles.fixar_dataflows import ddpg_products
from placerl.primitives.learner.fpga import fpga_backend
from tests.harness.old_form import details_of, replace
from tests.harness.papers.rows import frame_of, measurement, verdict


def test_the_products_of_an_update_cover_every_multiply_accumulate() -> None:
    state, action, batch = 17, 6, 64
    actor, critic = (17 * 400 + 400 * 300 + 300 * 6), (23 * 400 + 400 * 300 + 300)
    wanted = batch * (2 * actor + 3 * critic)  # forward
    wanted += batch * ((critic - 23 * 400) + critic + critic)  # the critic's own, its gradient, through it
    wanted += batch * ((actor - 17 * 400) + actor)
    products = ddpg_products(state, action, batch)
    assert sum(p.outputs * p.inputs * p.vectors for p in products) == wanted


def test_without_the_hardware_s_description_rows_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fpga_backend, "unavailable_reason", lambda: "not installed: amaranth")
    rows = figure_10_array.measure(silent)
    assert len(rows) == 2 * len(figure_10_array.BATCH_SIZES)
    assert {row.provenance for row in rows} == {Provenance.SIMULATED}
    assert {(row.status, row.reason, row.value) for row in rows} == {
        ("not_run", "needs not installed: amaranth", None)
    }


@pytest.mark.skipif(bool(fpga_backend.unavailable_reason()), reason=fpga_backend.unavailable_reason())
def test_rows_are_simulated_at_an_assumed_clock() -> None:
    rows = figure_10_array.measure(silent)
    assert {row.batch_size for row in rows} == set(figure_10_array.BATCH_SIZES)
    for row in rows:
        assert row.provenance is Provenance.SIMULATED
        assert details_of(row)["clock_assumed"]
        assert row.value == pytest.approx(row.batch_size * 164e6 / details_of(row)["cycles"])
        assert details_of(row)["cycles"] == sum(details_of(row)["unit_cycles"].values())
        assert 0 < details_of(row)["forward_cycles"] < details_of(row)["unit_cycles"]["products"]


def array(rates: list[float], bits: int = 16, products: float = 1e5) -> list[Row]:
    """Rows of the accelerator; the forward products of each take `products` cycles."""
    parts = {"products": 4e5, "adam": 1e5}
    details = {"experiment": EXPERIMENT, "clock_mhz": 164.0, "cycles": 10_000_000, "unit_cycles": parts}
    details["forward_cycles"] = products
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
            provenance=Provenance.SIMULATED,
            details=details,
        )
        for size, rate in zip(BATCH_SIZES, rates, strict=True)
    ]


def both(rates: list[float]) -> list[Row]:
    """Rows of the accelerator with the same rates for both widths of the activations."""
    return [*array(rates, 32), *array(rates, 16)]


@pytest.mark.parametrize(
    ("rates", "outcome"),
    [
        ([57e3] * 4, Outcome.CONSISTENT),
        ([55e3, 57e3, 59e3, 60e3], Outcome.NO_VERDICT),  # not constant
        ([53.8e3] * 4, Outcome.CONSISTENT),  # 53,826.8 is published
        ([43.2e3] * 4, Outcome.CONSISTENT),  # a fifth below it
        ([34.6e3] * 4, Outcome.CONSISTENT),  # a fifth below it if Adam, a fifth of the cycles, runs beside
        ([34.3e3] * 4, Outcome.NO_VERDICT),
        ([67.2e3] * 4, Outcome.CONSISTENT),  # a quarter above it
        ([67.4e3] * 4, Outcome.NO_VERDICT),
    ],
)
def test_the_accelerators_rate_is_judged(rates: list[float], outcome: Outcome, tmp_path: Path) -> None:
    found = verdict("FIX-F10-rate", tmp_path, *both(rates))
    assert found.finding.outcome is outcome
    assert found.provenance == "modelled"  # the shares of its parts
    assert len(found.rows) == 8
    slow = [n for n in found.finding.ours if n.quantity.endswith("at 64.5 MHz")]
    assert [n.value for n in slow] == pytest.approx([min(rates) * placed_clock(FIXAR).mhz / 164] * 2)
    slowest, fastest = (f"{100 * (end(rates) / 53_826.8 - 1):+.1f}%" for end in (min, max))
    said = f"its slowest is {slowest} from the published one, its fastest {fastest}"
    assert found.finding.explanation.count(said) == 2
    assert "no more than the bars of Fig. 10, and from the published one by a factor of 1.25 at most." in (
        found.finding.explanation
    )


@pytest.mark.parametrize(
    ("full", "half", "outcome"),
    [
        (57e3, 57e3, Outcome.CONSISTENT),
        (30e3, 57e3, Outcome.CONSISTENT),
        (57e3, 80e3, Outcome.CONSISTENT),
        (30e3, 80e3, Outcome.NO_VERDICT),
    ],
)
def test_one_width_of_activations_must_agree(
    full: float, half: float, outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict("FIX-F10-rate", tmp_path, *array([full] * 4, 32), *array([half] * 4))
    assert found.finding.outcome is outcome
    assert "FIX does not say whether its rates are of 32-bit or 16-bit" in found.finding.explanation


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
    assert verdict("FIX-F10-rate", tmp_path, *both([57e3, fast, 57e3, 57e3])).finding.outcome is outcome


def test_one_batch_size_says_nothing_about_every_one(tmp_path: Path) -> None:
    one, full = array([57e3] * 4)[:1], array([57e3] * 4, 32)
    assert verdict("FIX-F10-rate", tmp_path / "a", *full, *one).needs == figure_10_array.NEEDS_ROWS
    two = [*full[:2], *array([57e3] * 4)[:2]]
    assert verdict("FIX-F10-rate", tmp_path / "b", *two).finding.outcome is Outcome.CONSISTENT
    assert verdict("FIX-V-C", tmp_path / "d", *one, *full[1:]).needs == figure_10_array.NEEDS_ROWS


def test_the_share_of_adam_and_the_use_of_elements(tmp_path: Path) -> None:
    found = verdict("FIX-F10-rate", tmp_path, *both([57e3] * 4)).finding
    full, half = found.ours[:12], found.ours[12:]
    done = sum(p.outputs * p.inputs * p.vectors for p in ddpg_products(17, 6, 512))
    for numbers, possible in ((full, 1), (half, 2)):  # a cycle, of an element
        small, large, used = numbers[5:8]
        assert (small.unit, small.value, large.value) == ("%", pytest.approx(20), pytest.approx(20))
        assert used.value == pytest.approx(100 * done / (possible * 512 * 1e7))
        assert {n.provenance for n in (small, large, used)} == {Provenance.MODELLED}
        assert [n.value for n in numbers[8:]] == pytest.approx([57e3 / 0.8] * 4), (
            "with Adam beside the next step"
        )


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
def test_half_words_halve_the_cycles_of_forward_products_or_not(
    half: float, outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict("FIX-V-C", tmp_path, *array([5e4] * 4, 32), *array([9e4] * 4, 16, half))
    assert found.finding.outcome is outcome
    assert [n.value for n in found.finding.ours] == pytest.approx([1e5 / half] * 4 + [1.8] * 4)
    assert found.provenance == "modelled"  # a simulation counts the whole update alone


def test_rates_of_an_earlier_model_are_not_read(tmp_path: Path) -> None:
    old = [replace(row, backend="array of 32-bit activations") for row in array([5e4] * 4)]
    assert not figure_10_array.array_rates(frame_of(tmp_path / "a", *old))
    rates = figure_10_array.array_rates(frame_of(tmp_path / "b", *array([5e4] * 4, 32), *array([9e4] * 4)))
    assert {rate.provenance for rate in rates} == {Provenance.SIMULATED}
    assert [rate.value for rate in rates] == [5e4] * 4 + [9e4] * 4
