"""FIX's numbers among themselves: its figures, its text and Table II."""

from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest

from harness.core.provenance import Provenance
from harness.papers import Finding, Outcome
from harness.papers.fix import published_figures
from harness.papers.number import Number

Check = Callable[[pd.DataFrame], Finding]


def scaled(monkeypatch: pytest.MonkeyPatch, factor: float, *where: str) -> None:
    """Has the paper print or draw something else: cells whose table, row and column are named, times a factor."""
    found = published_figures.from_cell

    def other(*place: str) -> Number:
        cell = found(*place)
        return _times(cell, factor) if all(part in place for part in where) else cell

    monkeypatch.setattr(published_figures, "from_cell", other)


def printed(monkeypatch: pytest.MonkeyPatch, key: str, factor: float) -> None:
    """Has the text print a number times a factor."""
    found = published_figures.from_text

    def other(*keys: str) -> tuple[Number, ...]:
        return tuple(
            _times(each, factor) if name == key else each
            for name, each in zip(keys, found(*keys), strict=True)
        )

    monkeypatch.setattr(published_figures, "from_text", other)


def _times(number: Number, factor: float) -> Number:
    low, high = (None if bound is None else factor * bound for bound in (number.low, number.high))
    return replace(number, value=factor * number.value, low=low, high=high)


@pytest.mark.parametrize(
    "check",
    [
        published_figures.speedup_range,
        published_figures.peak,
        published_figures.normalised_peak,
        published_figures.efficiency,
    ],
)
def test_the_papers_numbers_agree_and_reproduce_nothing(check: Check) -> None:
    finding = check(pd.DataFrame())
    assert finding.outcome is Outcome.CONSISTENT
    assert {number.provenance for number in finding.ours} == {Provenance.PUBLISHED}
    assert "A measurement would need" in finding.explanation


@pytest.mark.parametrize(
    ("key", "factor"),
    [
        ("FIX.platform_speedup", 1.2),
        ("FIX.platform_speedup", 0.8),
        ("FIX.platform_speedup_low", 1.2),
        ("FIX.platform_speedup_high", 0.7),
    ],
)
def test_another_gain_would_contradict_figure_8(
    key: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed(monkeypatch, key, factor)
    assert published_figures.speedup_range(pd.DataFrame()).outcome is Outcome.INCONSISTENT


def test_another_average_of_the_bars_would_contradict_the_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled(monkeypatch, 1.2, "fix_figure_8", "Swimmer, B = 512", "FIXAR")
    finding = published_figures.speedup_range(pd.DataFrame())
    assert finding.outcome is Outcome.CONSISTENT  # within what can be misread
    scaled(monkeypatch, 2.0, "fix_figure_8", "Swimmer, B = 512", "FIXAR")
    assert published_figures.speedup_range(pd.DataFrame()).outcome is Outcome.INCONSISTENT


@pytest.mark.parametrize(
    ("factor", "where"),
    [
        (1.3, ("fix_table_2", "peak performance")),  # the accelerator's own
        (0.9, ("fix_table_2", "peak performance")),
        (1.2, ("fix_figure_10", "Hopper, B = 64", "accelerator, throughput")),
        (0.8, ("fix_figure_10", "Hopper, B = 64", "accelerator, throughput")),
    ],
)
def test_another_peak_would_contradict_figures_8_and_10(
    factor: float, where: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    scaled(monkeypatch, factor, *where)
    assert published_figures.peak(pd.DataFrame()).outcome is Outcome.INCONSISTENT


def test_a_platform_faster_than_its_accelerator_would_be_inconsistent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scaled(monkeypatch, 1.5, "FIXAR")
    assert published_figures.peak(pd.DataFrame()).outcome is Outcome.INCONSISTENT


def test_peaks_that_do_not_follow_from_the_sizes_would_be_inconsistent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scaled(monkeypatch, 1.01, "fix_table_2", "network size", "FCCM'20 [20]")
    assert published_figures.normalised_peak(pd.DataFrame()).outcome is Outcome.INCONSISTENT


@pytest.mark.parametrize(
    ("key", "factor"),
    [
        ("FIX.accelerator_power", 1.1),
        ("FIX.accelerator_efficiency_gain", 1.1),
        ("FIX.accelerator_efficiency", 1.01),
    ],
)
def test_watts_that_do_not_fit_would_be_inconsistent(
    key: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed(monkeypatch, key, factor)
    assert published_figures.efficiency(pd.DataFrame()).outcome is Outcome.INCONSISTENT


def set_to(monkeypatch: pytest.MonkeyPatch, key: str, value: float) -> None:
    """Has the text print this number."""
    (was,) = published_figures.from_text(key)
    printed(monkeypatch, key, value / was.value)


@pytest.mark.parametrize(
    ("key", "place"),
    [("FIX.platform_speedup", 0), ("FIX.platform_speedup_low", 1), ("FIX.platform_speedup_high", 2)],
)
def test_a_gain_is_printed_to_one_decimal(key: str, place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read = published_figures.speedup_range(pd.DataFrame()).ours[place]
    assert read.low is not None
    assert read.high is not None
    assert read.low < read.value < read.high
    for value, outcome in (
        (read.low - 0.04, Outcome.CONSISTENT),
        (read.low - 0.06, Outcome.INCONSISTENT),
        (read.high + 0.04, Outcome.CONSISTENT),
        (read.high + 0.06, Outcome.INCONSISTENT),
    ):
        with monkeypatch.context() as patch:
            set_to(patch, key, value)
            assert published_figures.speedup_range(pd.DataFrame()).outcome is outcome, value


def test_the_gain_of_the_abstract_is_that_of_the_means_and_the_range_that_of_the_bars() -> None:
    of_means, least, most = published_figures.speedup_range(pd.DataFrame()).ours
    bars = {
        name: [published_figures.from_cell("fix_figure_8", row, name) for row in published_figures.BARS]
        for name in ("FIXAR", "CPU-GPU")
    }
    ours, theirs = ([bar.value for bar in some] for some in bars.values())
    assert of_means.value == pytest.approx(sum(ours) / sum(theirs))
    assert of_means.low == pytest.approx(
        sum(bar.low or 0 for bar in bars["FIXAR"]) / sum(bar.high or 0 for bar in bars["CPU-GPU"])
    )
    gains = [a / b for a, b in zip(ours, theirs, strict=True)]
    assert (least.value, most.value) == pytest.approx((min(gains), max(gains)))


def test_the_peak_is_beside_the_largest_bar_of_the_platform_and_all_of_the_accelerator() -> None:
    ours = published_figures.peak(pd.DataFrame()).ours
    bars = {
        (figure, column): [
            published_figures.from_cell(figure, row, column).value for row in published_figures.BARS
        ]
        for figure, column in (("fix_figure_8", "FIXAR"), ("fix_figure_10", "accelerator, throughput"))
    }
    platform, alone = bars.values()
    assert ours[0].value == max(platform)
    assert {number.value for number in ours[1:]} == {min(alone), max(alone)}


def test_a_peak_follows_from_its_size_within_one_inference_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    place = ("fix_table_2", "peak performance normalised to FIXAR", "FCCM'20 [20]")
    found = published_figures.normalised_peak(pd.DataFrame())
    assert len(found.ours) == 3
    for off, outcome in (
        (0.9, Outcome.CONSISTENT),
        (-0.9, Outcome.CONSISTENT),
        (1.1, Outcome.INCONSISTENT),
        (-1.1, Outcome.INCONSISTENT),
    ):
        with monkeypatch.context() as patch:
            factor = (found.ours[1].value + off) / published_figures.from_cell(*place).value
            scaled(patch, factor, *place)
            assert published_figures.normalised_peak(pd.DataFrame()).outcome is outcome


def test_the_efficiency_s_gain_is_known_within_the_digit_of_the_speed_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gain, of_card = published_figures.efficiency(pd.DataFrame()).ours
    speedup, card, gpu, ips = (
        number.value
        for number in published_figures.from_text(
            "FIX.accelerator_speedup", "FIX.accelerator_power", "FIX.gpu_power", "FIX.accelerator_ips"
        )
    )
    assert gain.value == pytest.approx(speedup * gpu / card)
    assert gain.low == pytest.approx((speedup - 0.05) * gpu / card)
    assert gain.high == pytest.approx((speedup + 0.05) * gpu / card)
    assert of_card.value == pytest.approx(ips / card)
    assert gain.low is not None
    assert gain.high is not None
    for key, value, outcome in (
        ("FIX.accelerator_efficiency_gain", gain.low + 1e-3, Outcome.CONSISTENT),
        ("FIX.accelerator_efficiency_gain", gain.low - 1e-3, Outcome.INCONSISTENT),
        ("FIX.accelerator_efficiency_gain", gain.high - 1e-3, Outcome.CONSISTENT),
        ("FIX.accelerator_efficiency_gain", gain.high + 1e-3, Outcome.INCONSISTENT),
        ("FIX.accelerator_efficiency", of_card.value / 1.0029, Outcome.CONSISTENT),
        ("FIX.accelerator_efficiency", of_card.value / 1.0031, Outcome.INCONSISTENT),
        ("FIX.accelerator_efficiency", of_card.value / 0.9971, Outcome.CONSISTENT),
        ("FIX.accelerator_efficiency", of_card.value / 0.9969, Outcome.INCONSISTENT),
    ):
        with monkeypatch.context() as patch:
            set_to(patch, key, value)
            assert published_figures.efficiency(pd.DataFrame()).outcome is outcome, (key, value)
