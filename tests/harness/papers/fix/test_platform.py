"""Verdicts on FIX's platform and its modelled array (FIX V-C, Fig. 8 to 10, Table II) from made-up rows."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness import papers
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.papers import Outcome, Verdict
from harness.papers.clocks import placed_clock
from harness.papers.fix import figure_10_array, platform
from harness.papers.fix.array_runs import BACKENDS, EXPERIMENT, QUANTITY
from harness.papers.fix.throughput import BATCH_SIZES, TERMS
from harness.papers.fix.training import DYNAMIC
from harness.papers.number import from_cell
from tests.harness.papers.rows import frame_of, measurement


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


def host(
    environment_s: float, spread: float = 0.01, learner_s: dict[int, float] | None = None
) -> list[Measurement]:
    """Rows of a training step's terms: an environment, and little else; a learner where one is given."""
    learner = learner_s or dict.fromkeys(BATCH_SIZES, 1e-5)
    return [
        measurement(
            {"environment": environment_s, "learner": learner[size]}.get(term, 1e-5),
            spread,
            suite="claim",
            workload="halfcheetah-ddpg",
            primitive="training",
            backend=DYNAMIC,
            batch_size=size,
            quantity=f"{term}_time",
            details={"experiment": "FIX-F8"},
        )
        for size in learner
        for term in TERMS
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
    assert verdict("FIX-F8-host", tmp_path / "c", *one, *host(5e-3)).finding.outcome is Outcome.NOT_RUN
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


def test_the_platform_is_this_host_with_the_array(tmp_path: Path) -> None:
    found = verdict("FIX-F8-host", tmp_path, *array([5e4] * 4), *host(5e-3))
    assert found.finding.outcome is Outcome.CONSISTENT
    ours = found.finding.ours
    first = ours[0]
    assert first.quantity == "this host with FIX's array, batch size 64, at 164 MHz"
    assert first.provenance is Provenance.MODELLED
    assert first.value == pytest.approx(64 / (5.01e-3 + 64 / 5e4))
    assert first.low == pytest.approx(64 / (5.01e-3 * 1.01 + 64 / 5e4))
    assert first.high == pytest.approx(64 / (5.01e-3 * 0.99 + 64 / 5e4))
    assert ours[1].value == pytest.approx(64 / (5.01e-3 + 64 / 5e4 * 164 / placed_clock().mhz))
    (theirs,) = (n for n in ours if n.quantity.startswith("the paper's host") and "512, at 164" in n.quantity)
    assert theirs.value == pytest.approx(512 / (1.93e-3 + 2.22e-3 + 512 / 5e4))
    assert theirs.provenance is Provenance.PUBLISHED
    parts = [
        from_cell("fix_figure_9", "B = 512", f"{part}, time")
        for part in ("PCIe communication", "Python environment")
    ]
    longest_ms, shortest_ms = (sum(getattr(part, end) for part in parts) for end in ("high", "low"))
    assert theirs.low == pytest.approx(512 / (1e-3 * longest_ms + 512 / 5e4))
    assert theirs.high == pytest.approx(512 / (1e-3 * shortest_ms + 512 / 5e4))
    shares = {n.quantity: n for n in ours if n.quantity.startswith("share of the array")}
    share = shares["share of the array in a step of this host, batch size 64, at 164 MHz"]
    assert (share.unit, share.low, share.high) == ("%", None, None)
    assert share.value == pytest.approx(100 * (64 / 5e4) / (5.01e-3 + 64 / 5e4))
    assert len(shares) == 4  # smallest and largest batch, at both clocks


@pytest.mark.parametrize(
    ("environment_s", "spread"),
    [
        (1.0, 0.01),  # the environment stays the bottleneck
        (1e-5, 0.01),  # the array is the bottleneck from the start
        (2e-3, 0.01),  # at 164 MHz the bottleneck moves, at the placed clock it is the array from the start
        (5e-3, 0.9),  # the host is too noisy for the rates to be in order
    ],
)
def test_a_bottleneck_that_does_not_move_at_both_clocks_is_no_verdict(
    environment_s: float, spread: float, tmp_path: Path
) -> None:
    found = verdict("FIX-F8-host", tmp_path, *array([5e4] * 4), *host(environment_s, spread))
    assert found.finding.outcome is Outcome.NO_VERDICT


@pytest.mark.parametrize(
    ("environment_s", "outcome"),
    [
        (3.4e-3, Outcome.CONSISTENT),  # at 64.5 MHz the array takes 3.25 ms for the smallest batch
        (3.1e-3, Outcome.NO_VERDICT),
        (10.0e-3, Outcome.CONSISTENT),  # at 164 MHz 10.24 ms for the largest
        (10.5e-3, Outcome.NO_VERDICT),
    ],
)
def test_the_bottleneck_is_what_takes_more_than_half(
    environment_s: float, outcome: Outcome, tmp_path: Path
) -> None:
    rows = [*array([5e4] * 4), *host(environment_s, spread=0.001)]
    assert verdict("FIX-F8-host", tmp_path / "a", *rows).finding.outcome is outcome
    noisy = [
        replace(row, status="too_noisy", reason="wide") if row.backend == DYNAMIC else row for row in rows
    ]
    assert verdict("FIX-F8-host", tmp_path / "noisy", *noisy).finding.outcome is Outcome.NO_VERDICT


def test_rates_of_a_whole_step_and_of_a_gradient_step_are_shown(tmp_path: Path) -> None:
    def rates(quantity: str) -> list[Measurement]:
        like = [row for row in host(1e-3) if row.quantity == "environment_time"]
        return [
            replace(row, quantity=quantity, unit="IPS", value=2.0 * row.batch_size, low=None, high=None)
            for row in like
        ]

    whole, alone = rates("inferences_per_s"), rates("learner_inferences_per_s")
    found = verdict("FIX-F8", tmp_path / "a", *whole, *array([5e4] * 4), *host(1e-3))
    assert [n.value for n in found.finding.ours[:4]] == [2.0 * size for size in BATCH_SIZES]
    assert len(found.finding.ours) == 8
    assert found.needs == platform.NEEDS_GPU_STEPS
    assert platform.NEEDS_STEPS in verdict("FIX-F8", tmp_path / "b").needs
    found = verdict("FIX-F10", tmp_path / "c", *alone, *array([5e4] * 4))
    assert [n.value for n in found.finding.ours] == [2.0 * size for size in BATCH_SIZES] + [5e4] * 4
    assert platform.ACCELERATOR not in found.needs
    assert verdict("FIX-F10", tmp_path / "d", *alone).needs.startswith(platform.ACCELERATOR)


def test_a_platform_without_a_host_is_none(tmp_path: Path) -> None:
    for key in ("FIX-F8-host", "FIX-T2"):
        assert verdict(key, tmp_path, *array([5e4] * 4)).finding.outcome is Outcome.NOT_RUN


@pytest.mark.parametrize(
    ("rate", "outcome"),
    [
        (6e4, Outcome.CONSISTENT),
        (3e4, Outcome.NO_VERDICT),  # ahead of both at 164 MHz, of one at the placed clock
        (9e3, Outcome.NO_VERDICT),
    ],
)
def test_the_platforms_peak_stands_beside_the_earlier_accelerators(
    rate: float, outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict("FIX-T2", tmp_path, *array([rate] * 4), *host(1e-4))
    assert found.finding.outcome is outcome
    peak, slow, gain = found.finding.ours[:3]
    quantities = " ".join(number.quantity for number in found.finding.ours)
    assert "that of FCCM'20 [20], published 5.7x" in quantities  # 38,779.8 over 6,823.2
    assert peak.quantity == "this host with FIX's array, batch size 512, at 164 MHz"
    assert peak.value < rate  # the accelerator alone does not stand in Table II
    assert slow.value < peak.value
    assert gain.quantity.startswith("its peak over that of ASPLOS'19 [19], published 3.0x")
    assert gain.value == pytest.approx(peak.value / 12849.1)


@pytest.mark.parametrize("key", ["FIX-F8", "FIX-F10"])
def test_a_comparison_with_a_gpu_is_not_run_without_one(key: str, tmp_path: Path) -> None:
    found = verdict(key, tmp_path, *array([5e4] * 4), *host(1e-3))
    assert found.finding.outcome is Outcome.NOT_RUN
    assert "a CUDA device" in found.needs


GROWS = {64: 5e-4, 128: 1e-3, 512: 4e-3}


@pytest.mark.parametrize(
    ("learner_s", "environment_s", "outcome"),
    [
        (GROWS, 1e-3, Outcome.IN_KIND),
        (GROWS, 1e-4, Outcome.NO_VERDICT),  # the learner is the bottleneck from the start
        (GROWS, 1e-1, Outcome.NO_VERDICT),  # it never is
        ({64: 5e-4, 128: 5e-4, 512: 4e-3}, 1e-3, Outcome.NO_VERDICT),  # grows from end to end alone
        ({64: 4e-3, 512: 5e-4}, 1e-3, Outcome.NOT_REPRODUCED),
        ({64: 5e-4}, 1e-3, Outcome.NOT_RUN),
    ],
)
def test_the_bottleneck_moves_to_the_learner_or_not(
    tmp_path: Path, learner_s: dict[int, float], environment_s: float, outcome: Outcome
) -> None:
    rows = host(environment_s, learner_s=learner_s)
    finding = platform.breakdown(frame_of(tmp_path, *rows))
    assert finding.outcome is outcome
    if outcome is Outcome.IN_KIND:
        assert "environment at 64" in finding.explanation
        assert "learner at 512" in finding.explanation


@pytest.mark.parametrize(
    ("factor", "spread", "status", "outcome"),
    [
        (1.2, 0.01, "ok", Outcome.IN_KIND),
        (2.0, 0.01, "ok", Outcome.NOT_REPRODUCED),
        (0.5, 0.01, "ok", Outcome.NOT_REPRODUCED),
        (1.5, 0.01, "ok", Outcome.NO_VERDICT),  # its interval holds the limit
        (2.0, 0.3, "ok", Outcome.NO_VERDICT),
        (1.2, 0.01, "too_noisy", Outcome.NO_VERDICT),
        (1.46, 0.01, "ok", Outcome.IN_KIND),  # with its interval just within 1.5 times
        (1.55, 0.01, "ok", Outcome.NOT_REPRODUCED),
        (0.69, 0.01, "ok", Outcome.IN_KIND),
        (0.64, 0.01, "ok", Outcome.NOT_REPRODUCED),
    ],
)
def test_an_environments_time_is_constant_with_its_whole_interval(
    factor: float, spread: float, status: str, outcome: Outcome, tmp_path: Path
) -> None:
    def changed(row: Measurement) -> Measurement:
        if row.quantity != "environment_time" or row.batch_size != 512:
            return row
        value = factor * (row.value or 0)
        reason = "made up" if status == "too_noisy" else ""
        low, high = value * (1 - spread), value * (1 + spread)
        return replace(row, value=value, low=low, high=high, status=status, reason=reason)

    rows = [changed(row) for row in host(1e-3, learner_s=GROWS)]
    assert platform.breakdown(frame_of(tmp_path, *rows)).outcome is outcome


def test_rows_that_earlier_runs_called_simulated_are_modelled(tmp_path: Path) -> None:
    rates = figure_10_array.array_rates(frame_of(tmp_path, *array([5e4] * 4), *array([9e4] * 4, 16)))
    assert {rate.provenance for rate in rates} == {Provenance.MODELLED}
    assert [rate.value for rate in rates] == [5e4] * 4 + [9e4] * 4
