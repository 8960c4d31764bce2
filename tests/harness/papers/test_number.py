"""Numbers of verdicts: their texts, their intervals, and what is made of two of them."""

from dataclasses import replace

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.number import (
    Number,
    checked_baseline,
    format_value,
    from_cell,
    from_text,
    merge_rows,
    ratio,
    shortfall,
)


def measured(value: float, low: float | None = None, high: float | None = None, unit: str = "s") -> Number:
    return Number("time", value, unit, Provenance.MEASURED, "", low, high)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("inf"), "inf"),
        (-float("inf"), "-inf"),
        (0.0, "0"),
        (-3.0, "-3"),
        (12345678.0, "12,345,678"),  # whole numbers keep all of their digits
        (999_999_999_999.0, "999,999,999,999"),
        (1e12, "1.000e+12"),
        (9_999_999.5, "10,000,000"),
        (10_000_000.5, "1.000e+07"),
        (0.0001, "0.0001"),
        (0.00009, "9.000e-05"),
        (0.5, "0.5"),  # no zeros that say nothing
        (1234.56, "1,235"),
        (100.04, "100"),
        (0.012345, "0.01235"),
        (-12.3456, "-12.35"),
    ],
)
def test_a_value_is_shown_with_four_digits(value: float, text: str) -> None:
    assert format_value(value) == text


def test_a_value_is_shown_with_as_many_digits_as_asked_for() -> None:
    assert [format_value(2.71828, digits) for digits in (1, 2, 5)] == ["3", "2.7", "2.7183"]
    assert [format_value(2.71828e-9, digits) for digits in (1, 3)] == ["3e-09", "2.72e-09"]


@pytest.mark.parametrize(
    ("unit", "text"),
    [("ratio", "2.5x"), ("1", "2.5"), ("count", "2.5"), ("%", "2.5%"), ("s", "2.5 s")],
)
def test_a_number_is_shown_with_its_unit(unit: str, text: str) -> None:
    assert str(measured(2.5, unit=unit)) == text
    assert str(measured(2.5, 2.0, 3.0, unit)) == f"{text} [2, 3]"
    assert str(measured(2.5, low=2.0, unit=unit)) == text
    assert str(measured(2.5, high=3.0, unit=unit)) == text


def test_a_number_is_above_or_below_a_limit_with_its_whole_interval() -> None:
    number = measured(2.0, 1.0, 3.0)
    assert [number.above(limit) for limit in (0.9, 1.0, 1.1)] == [True, False, False]
    assert [number.below(limit) for limit in (2.9, 3.0, 3.1)] == [False, False, True]
    assert not measured(2.0).above(0.0)
    assert not measured(2.0).below(9.0)


def test_numbers_of_the_text_keep_their_key_s_place() -> None:
    low, high = from_text("MAP.rllib_speedup_low", "MAP.rllib_speedup_high")
    assert low.value < high.value
    assert {low.provenance, high.provenance} == {Provenance.PUBLISHED}
    assert low.source.startswith("MAP")
    with pytest.raises(KeyError):
        from_text("MAP.not_transcribed")


def test_a_value_read_off_a_figure_has_its_reading_error_as_interval() -> None:
    bar = from_cell("fix_figure_10", "HalfCheetah, B = 64", "accelerator, throughput")
    assert bar.low is not None
    assert bar.high is not None
    assert bar.low < bar.value < bar.high
    assert bar.value - bar.low == pytest.approx(bar.high - bar.value)
    assert bar.source.endswith("read off the figure")
    printed = from_cell("map_table_6", "DQN learner", "LUT")
    assert (printed.low, printed.high) == (None, None)
    assert "figure" not in printed.source


def test_a_ratio_has_an_interval_only_where_both_have() -> None:
    sure, bare = measured(6.0, 5.0, 8.0), measured(2.0)
    for a, b in (
        (sure, bare),
        (bare, sure),
        (sure, replace(sure, low=None)),
        (sure, replace(sure, high=None)),
    ):
        made = ratio("a/b", a, b)
        assert (made.value, made.low, made.high) == (a.value / b.value, None, None)
    for half in (replace(sure, low=None), replace(sure, high=None)):
        assert (ratio("a/b", half, sure).low, ratio("a/b", half, sure).high) == (None, None)
    assert (ratio("a/b", sure, sure).unit, ratio("a/b", sure, sure).source) == ("ratio", "time over time")


@pytest.mark.parametrize("divisor", [measured(0.0), measured(-1.0), measured(1.0, 0.0, 2.0)])
def test_a_divisor_is_above_0_with_its_whole_interval(divisor: Number) -> None:
    with pytest.raises(ValueError, match="allowed as a divisor: above 0"):
        ratio("a/b", measured(1.0), divisor)
    assert ratio("a/b", measured(1.0), measured(1e-9)).value == pytest.approx(1e9)


def test_a_shortfall_is_what_is_missing_in_percent() -> None:
    a, b = measured(75.0, 70.0, 80.0, "1/s"), measured(100.0, 100.0, 160.0, "1/s")
    found = shortfall("loss", replace(a, rows=(2,)), replace(b, rows=(1,)))
    assert (found.value, found.unit, found.rows) == (25.0, "%", (1, 2))
    assert found.low == pytest.approx(20.0)  # of the largest ratio, 80 / 100
    assert found.high == pytest.approx(56.25)  # of the smallest, 70 / 160
    assert found.provenance is Provenance.MEASURED
    bare = shortfall("gain", measured(3.0), measured(2.0))
    assert (bare.value, bare.low, bare.high) == (-50.0, None, None)


def test_a_suspect_baseline_says_how_far_it_stays_behind_its_parts() -> None:
    found = checked_baseline(measured(10.0, unit="1/s"), 0.02)
    assert found.suspect == "20% of the 50 per second that its own parts add up to"


def test_rows_are_listed_once_and_in_order() -> None:
    one, other = replace(measured(1.0), rows=(5, 1)), replace(measured(1.0), rows=(3, 5))
    assert merge_rows((one, other)) == (1, 3, 5)
    assert merge_rows(()) == ()
