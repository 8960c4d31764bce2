"""FIX's numbers among themselves: its figures, its text and Table II."""

from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest

from harness.claims import Finding, Outcome, fixar_figures
from harness.claims.number import Number
from harness.provenance import Provenance

Check = Callable[[pd.DataFrame], Finding]


def scaled(monkeypatch: pytest.MonkeyPatch, factor: float, *where: str) -> None:
    """Has the paper print or draw something else: cells whose table, row and column are named, times a factor."""
    found = fixar_figures.from_cell

    def other(*place: str) -> Number:
        cell = found(*place)
        return _times(cell, factor) if all(part in place for part in where) else cell

    monkeypatch.setattr(fixar_figures, "from_cell", other)


def printed(monkeypatch: pytest.MonkeyPatch, key: str, factor: float) -> None:
    """Has the text print a number times a factor."""
    found = fixar_figures.from_text

    def other(*keys: str) -> tuple[Number, ...]:
        return tuple(
            _times(each, factor) if name == key else each
            for name, each in zip(keys, found(*keys), strict=True)
        )

    monkeypatch.setattr(fixar_figures, "from_text", other)


def _times(number: Number, factor: float) -> Number:
    low, high = (None if bound is None else factor * bound for bound in (number.low, number.high))
    return replace(number, value=factor * number.value, low=low, high=high)


@pytest.mark.parametrize(
    "check",
    [
        fixar_figures.speedup_range,
        fixar_figures.peak,
        fixar_figures.normalised_peak,
        fixar_figures.efficiency,
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
    assert fixar_figures.speedup_range(pd.DataFrame()).outcome is Outcome.INCONSISTENT


def test_another_average_of_the_bars_would_contradict_the_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled(monkeypatch, 1.2, "fix_figure_8", "Swimmer, B = 512", "FIXAR")
    finding = fixar_figures.speedup_range(pd.DataFrame())
    assert finding.outcome is Outcome.CONSISTENT  # within what can be misread
    scaled(monkeypatch, 2.0, "fix_figure_8", "Swimmer, B = 512", "FIXAR")
    assert fixar_figures.speedup_range(pd.DataFrame()).outcome is Outcome.INCONSISTENT


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
    assert fixar_figures.peak(pd.DataFrame()).outcome is Outcome.INCONSISTENT


def test_a_platform_faster_than_its_accelerator_would_be_inconsistent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scaled(monkeypatch, 1.5, "FIXAR")
    assert fixar_figures.peak(pd.DataFrame()).outcome is Outcome.INCONSISTENT


def test_peaks_that_do_not_follow_from_the_sizes_would_be_inconsistent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scaled(monkeypatch, 1.01, "fix_table_2", "network size", "FCCM'20 [20]")
    assert fixar_figures.normalised_peak(pd.DataFrame()).outcome is Outcome.INCONSISTENT


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
    assert fixar_figures.efficiency(pd.DataFrame()).outcome is Outcome.INCONSISTENT
