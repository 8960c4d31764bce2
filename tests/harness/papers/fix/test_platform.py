"""Verdicts on FIX's platform and its simulated accelerator (FIX V-C, Fig. 8 to 10, Table II) from made-up rows."""

from pathlib import Path

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers import Finding, Outcome
from placerl.harness.papers.clocks import FIXAR, placed_clock
from placerl.harness.papers.fix import against_gpu, platform, platform_run
from placerl.harness.papers.fix.figure_10_array import BACKENDS
from placerl.harness.papers.fix.throughput import BATCH_SIZES, TERMS
from placerl.harness.papers.fix.training import DYNAMIC
from placerl.harness.papers.number import from_cell
from tests.harness.old_form import replace
from tests.harness.papers.drawn import points
from tests.harness.papers.fix.test_figure_10_array import array, both, verdict
from tests.harness.papers.rows import TOO_FEW, frame_of, measurement


def host(environment_s: float, spread: float = 0.01, learner_s: dict[int, float] | None = None) -> list[Row]:
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


def test_the_platform_is_this_host_with_the_array(tmp_path: Path) -> None:
    found = verdict("FIX-F8-host", tmp_path, *both([5e4] * 4), *host(5e-3))
    assert found.finding.outcome is Outcome.CONSISTENT
    said = "the rates grow with the batch, and the bottleneck moves to the accelerator."
    assert found.finding.explanation.startswith(f"With 32-bit activations {said}")
    ours = found.finding.ours
    first = ours[0]
    assert first.quantity == "this host with the accelerator, 32-bit activations, batch size 64, at 164 MHz"
    assert first.provenance is Provenance.MODELLED
    assert first.value == pytest.approx(64 / (5.01e-3 + 64 / 5e4))
    assert first.low == pytest.approx(64 / (5.01e-3 * 1.01 + 64 / 5e4))
    assert first.high == pytest.approx(64 / (5.01e-3 * 0.99 + 64 / 5e4))
    assert ours[1].value == pytest.approx(64 / (5.01e-3 + 64 / 5e4 * 164 / placed_clock(FIXAR).mhz))
    theirs, _ = (n for n in ours if n.quantity.startswith("the paper's host") and "512, at 164" in n.quantity)
    assert theirs.value == pytest.approx(512 / (1.93e-3 + 2.22e-3 + 512 / 5e4))
    assert theirs.provenance is Provenance.PUBLISHED
    parts = [
        from_cell("fix_figure_9", "B = 512", f"{part}, time")
        for part in ("PCIe communication", "Python environment")
    ]
    longest_ms, shortest_ms = (sum(getattr(part, end) for part in parts) for end in ("high", "low"))
    assert theirs.low == pytest.approx(512 / (1e-3 * longest_ms + 512 / 5e4))
    assert theirs.high == pytest.approx(512 / (1e-3 * shortest_ms + 512 / 5e4))
    shares = {n.quantity: n for n in ours if n.quantity.startswith("share of the accelerator")}
    share = shares[
        "share of the accelerator, 32-bit activations, in a step of this host, batch size 64, at 164 MHz"
    ]
    assert (share.unit, share.low, share.high) == ("%", None, None)
    assert share.value == pytest.approx(100 * (64 / 5e4) / (5.01e-3 + 64 / 5e4))
    assert len(shares) == 8  # smallest and largest batch, at both clocks, of both widths


def test_runs_of_the_whole_platform_come_before_a_sum_of_parts(tmp_path: Path) -> None:
    array_s = 64 / 5e4
    runs = [
        measurement(
            value,
            0.01,
            suite="claim",
            workload="halfcheetah-ddpg",
            primitive="training",
            backend=BACKENDS[bits],
            device="fpga:u50",
            batch_size=size,
            quantity=quantity,
            provenance=Provenance.MODELLED,
            details={
                "experiment": platform_run.EXPERIMENT,
                "accelerator_s": size / 5e4,
                "platform": "fixar21",
            },
        )
        for bits in BACKENDS
        for size in BATCH_SIZES
        for quantity, value in (
            ("inferences_per_s", size / (2e-3 + size / 5e4)),
            ("environment_time", 1.9e-3),
            ("inference_time", 5e-5),
            ("transfer_time", 5e-5),
        )
    ]
    rows = [*both([5e4] * 4), *host(5e-3), *runs]
    found = verdict("FIX-F8-host", tmp_path / "rates", *rows).finding
    assert found.ours[0].value == pytest.approx(64 / (2e-3 + array_s))
    assert found.ours[1].value == pytest.approx(64 / (2e-3 + array_s * 164 / placed_clock(FIXAR).mhz))
    assert found.ours[0].low == pytest.approx(64 / (2e-3 + array_s) * 0.99)
    assert "in runs of the whole platform in virtual time" in found.explanation
    bottleneck = platform.EnvironmentTimeIsConstant().judge(frame_of(tmp_path / "parts", *rows))
    assert bottleneck.outcome is Outcome.IN_KIND
    assert "environment at 64, learner at 128" in bottleneck.explanation
    assert "The learner is the simulated accelerator" in bottleneck.explanation


FAST = 1e5
"""A rate with which the paper's host would not have the rates of Fig. 8."""


@pytest.mark.parametrize(
    ("environment_s", "spread", "said"),
    [
        (1.0, 0.01, "does not clearly move, with this host,"),  # the environment stays the bottleneck
        (1e-5, 0.01, "does not clearly move, with this host,"),  # the array is the bottleneck from the start
        (2.5e-3, 0.9, "the rates do not clearly grow with the batch"),  # the host is too noisy for an order
    ],
)
def test_a_bottleneck_that_does_not_move_is_no_verdict(
    environment_s: float, spread: float, said: str, tmp_path: Path
) -> None:
    found = verdict("FIX-F8-host", tmp_path, *both([FAST] * 4), *host(environment_s, spread))
    assert found.finding.outcome is Outcome.NO_VERDICT
    assert said in found.finding.explanation
    assert "the platform does not have the published rates" in found.finding.explanation


@pytest.mark.parametrize(
    ("environment_s", "outcome"),
    [
        (0.66e-3, Outcome.CONSISTENT),  # at 164 MHz the array takes 0.64 ms for the smallest batch
        (0.62e-3, Outcome.NO_VERDICT),
        (5.05e-3, Outcome.CONSISTENT),  # and 5.12 ms for the largest
        (5.2e-3, Outcome.NO_VERDICT),  # at the clock of the placed blocks, which is not FIX's, it would move
    ],
)
def test_the_bottleneck_is_what_takes_more_than_half_at_one_clock(
    environment_s: float, outcome: Outcome, tmp_path: Path
) -> None:
    rows = [*both([FAST] * 4), *host(environment_s, spread=0.001)]
    assert verdict("FIX-F8-host", tmp_path / "a", *rows).finding.outcome is outcome
    noisy = [replace(row, **TOO_FEW) if row.backend == DYNAMIC else row for row in rows]
    assert verdict("FIX-F8-host", tmp_path / "noisy", *noisy).finding.outcome is Outcome.NO_VERDICT


@pytest.mark.parametrize(("rate", "published"), [(5.4e4, True), (2.7e4, False)])
def test_the_papers_host_with_this_accelerator_has_the_published_rates(
    rate: float, published: bool, tmp_path: Path
) -> None:
    found = verdict("FIX-F8-host", tmp_path, *both([rate] * 4), *host(1e-5)).finding
    assert found.outcome is (Outcome.CONSISTENT if published else Outcome.NO_VERDICT)
    assert ("the platform has the published rates, within 20%" in found.explanation) is published


@pytest.mark.parametrize(("key", "environment_s"), [("FIX-F8-host", 5e-3), ("FIX-T2", 1e-4)])
def test_one_width_of_activations_must_give_the_outcome(
    key: str, environment_s: float, tmp_path: Path
) -> None:
    def finding(*rates: float) -> Finding:
        rows = [row for rate, bits in zip(rates, (32, 16), strict=True) for row in array([rate] * 4, bits)]
        return verdict(key, tmp_path / str(rates), *rows, *host(environment_s)).finding

    assert finding(6e4, 6e4).outcome is Outcome.CONSISTENT
    assert finding(1e3, 1e3).outcome is Outcome.NO_VERDICT
    apart = finding(1e3, 6e4)
    assert apart.outcome is Outcome.CONSISTENT
    assert "with 32 bits no verdict, with 16 bits consistent" in apart.explanation


def test_words_follow_the_provenance_of_the_rows(tmp_path: Path) -> None:
    quick = [replace(row, provenance=Provenance.MODELLED) for row in both([5e4] * 4)]
    found = verdict("FIX-F8-host", tmp_path, *quick, *host(5e-3)).finding
    assert "The accelerator's step is modelled" in found.explanation
    assert "simulated" not in found.explanation


def test_a_platform_of_one_batch_size_is_not_judged(tmp_path: Path) -> None:
    one = array([57e3] * 4)[:1]
    assert verdict("FIX-F8-host", tmp_path, *one, *host(5e-3)).finding.outcome is Outcome.NOT_RUN


def test_a_platform_without_a_host_is_none(tmp_path: Path) -> None:
    for key in ("FIX-F8-host", "FIX-T2"):
        assert verdict(key, tmp_path, *array([5e4] * 4)).finding.outcome is Outcome.NOT_RUN


@pytest.mark.parametrize(
    ("rate", "outcome"),
    [
        (6e4, Outcome.CONSISTENT),
        (3e4, Outcome.CONSISTENT),  # ahead of both at 164 MHz, of one at the placed clock
        (9e3, Outcome.NO_VERDICT),
    ],
)
def test_the_platforms_peak_stands_beside_the_earlier_accelerators(
    rate: float, outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict("FIX-T2", tmp_path, *both([rate] * 4), *host(1e-4))
    assert found.finding.outcome is outcome
    assert "Judged is only that it is above both earlier peaks" in found.finding.explanation
    peak, slow, gain = found.finding.ours[:3]
    quantities = " ".join(number.quantity for number in found.finding.ours)
    assert "that of FCCM'20 [20], published 5.7x" in quantities  # 38,779.8 over 6,823.2
    assert peak.quantity == "this host with the accelerator, 32-bit activations, batch size 512, at 164 MHz"
    assert peak.value < rate  # the accelerator alone does not stand in Table II
    assert slow.value < peak.value
    assert gain.quantity.startswith(
        "32-bit activations: its peak over that of ASPLOS'19 [19], published 3.0x"
    )
    assert gain.value == pytest.approx(peak.value / 12849.1)


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
    finding = platform.EnvironmentTimeIsConstant().judge(frame_of(tmp_path, *rows))
    assert finding.outcome is outcome
    from_the_start = "whether the bottleneck moves cannot be seen here" in finding.explanation
    assert from_the_start == (min(learner_s.values()) > environment_s)
    if outcome is Outcome.IN_KIND:
        assert "environment at 64" in finding.explanation
        assert "learner at 512" in finding.explanation


@pytest.mark.parametrize(
    ("factor", "spread", "outcome"),
    [
        (1.2, 0.01, Outcome.IN_KIND),
        (2.0, 0.01, Outcome.NO_VERDICT),
        (0.5, 0.01, Outcome.NO_VERDICT),
        (1.5, 0.01, Outcome.NO_VERDICT),  # its interval holds the limit
        (2.0, 0.3, Outcome.NO_VERDICT),
        (1.2, None, Outcome.NO_VERDICT),  # too few samples for an interval
        (1.46, 0.01, Outcome.IN_KIND),  # with its interval just within 1.5 times
        (1.55, 0.01, Outcome.NO_VERDICT),
        (0.69, 0.01, Outcome.IN_KIND),
        (0.64, 0.01, Outcome.NO_VERDICT),
    ],
)
def test_an_environments_time_is_constant_with_its_whole_interval(
    factor: float, spread: float | None, outcome: Outcome, tmp_path: Path
) -> None:
    """One that varies may do so because of the learner on the same processor, which FIX's does not have."""

    def changed(row: Row) -> Row:
        if row.quantity != "environment_time" or row.batch_size != 512:
            return row
        value = factor * (row.value or 0)
        if spread is None:
            return replace(row, value=value, **TOO_FEW)
        return replace(row, value=value, low=value * (1 - spread), high=value * (1 + spread))

    rows = [changed(row) for row in host(1e-3, learner_s=GROWS)]
    finding = platform.EnvironmentTimeIsConstant().judge(frame_of(tmp_path / "grows", *rows))
    assert finding.outcome is outcome
    varies = spread == 0.01 and not 0.65 < factor < 1.53
    assert ("shares the processor and its caches" in finding.explanation) == varies
    shrinks = [changed(row) for row in host(1e-3, learner_s={64: 4e-3, 512: 5e-4})]
    finding = platform.EnvironmentTimeIsConstant().judge(frame_of(tmp_path / "shrinks", *shrinks))
    assert finding.outcome is Outcome.NOT_REPRODUCED, "whatever the environment takes"


@pytest.mark.parametrize(
    ("learner_s", "size", "low", "high"),
    [
        ({64: 5e-4, 128: 3e-3, 512: 9e-3}, 64, 4e-4, 1.2e-3),
        ({64: 5e-4, 128: 7e-4, 512: 1.1e-3}, 512, 0.9e-3, 1.3e-3),
    ],
)
def test_a_bottleneck_that_noise_could_move_is_no_verdict(
    learner_s: dict[int, float], size: int, low: float, high: float, tmp_path: Path
) -> None:
    """The environment takes 1 ms: by its values alone the learner is the bottleneck at the largest batch only."""
    rows = host(1e-3, learner_s=learner_s)
    assert (
        platform.EnvironmentTimeIsConstant().judge(frame_of(tmp_path / "sure", *rows)).outcome
        is Outcome.IN_KIND
    )
    unsure = [
        replace(row, low=low, high=high) if (row.quantity, row.batch_size) == ("learner_time", size) else row
        for row in rows
    ]
    assert (
        platform.EnvironmentTimeIsConstant().judge(frame_of(tmp_path / "unsure", *unsure)).outcome
        is Outcome.NO_VERDICT
    )


@pytest.mark.parametrize(
    ("rate", "outcome"),
    [
        (
            53_800.0,
            Outcome.CONSISTENT,
        ),  # 1.2 ms at batch size 64, 9.5 ms at 512; FIX's environment takes 2 ms
        (20_000.0, Outcome.NO_VERDICT),  # 3.2 ms at batch size 64
        (500_000.0, Outcome.NO_VERDICT),  # 1 ms at batch size 512
    ],
)
def test_the_bottleneck_moves_next_to_the_papers_environment(
    rate: float, outcome: Outcome, tmp_path: Path
) -> None:
    """Here the learner takes the largest part from the start."""
    rows = [*host(1e-4, learner_s=GROWS), *array([rate] * 4, 32), *array([rate] * 4)]
    found = platform.EnvironmentTimeIsConstant().judge(frame_of(tmp_path, *rows))
    assert found.outcome is outcome
    assert "cannot be seen here" in found.explanation
    assert found.ours[-1].quantity.endswith("batch size 512: over the paper's environment")


def test_what_the_paper_draws_over_the_batch_is_drawn(tmp_path: Path) -> None:
    sizes = len(BATCH_SIZES)
    frame = frame_of(tmp_path, *array([5e4] * 4, 32), *array([9e4] * 4), *host(5e-3))
    assert points(against_gpu.PlatformOverBatch().draw(frame)) == {
        "this host with the accelerator, 32-bit activations (modelled)": sizes,
        "this host with the accelerator, 16-bit activations (modelled)": sizes,
        "FIXAR (published)": sizes,
        "CPU-GPU (published)": sizes,
    }
    assert points(platform.RateIsConstant().draw(frame)) == {
        "accelerator, 32-bit activations (simulated)": sizes,
        "accelerator, 16-bit activations (simulated)": sizes,
        "accelerator (published)": sizes,
        "GPU (published)": sizes,
    }
    parts = ("Python environment", "PCIe communication", "accelerator")
    assert points(platform.EnvironmentTimeIsConstant().draw(frame)) == {
        **dict.fromkeys(TERMS, sizes),
        **dict.fromkeys((f"{part} (published)" for part in parts), sizes),
    }


def test_a_step_s_shares_are_those_of_the_smallest_and_the_largest_batch() -> None:
    published = platform.EnvironmentTimeIsConstant.published[1:]
    assert [(number.quantity, number.value) for number in published] == [
        ("B = 64: Python environment, share", 0.414),
        ("B = 64: accelerator, share", 0.242),
        ("B = 512: Python environment, share", 0.161),
        ("B = 512: accelerator, share", 0.692),
    ]
