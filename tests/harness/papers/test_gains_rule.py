"""The rule by which gains are held against the published ones."""

import math

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.base import Outcome
from placerl.harness.papers.gains_rule import in_order, interval, judged
from placerl.harness.papers.number import Number

FIG_14 = ((23.5, 23.5), (21.2, 21.2), (11.2, 11.2))
FIG_15 = ((5.8, 9.3), (22.5, 28.3))


def gain(low: float, high: float) -> Number:
    return Number("gain", (low + high) / 2, "%", Provenance.SIMULATED, low=low, high=high)


@pytest.mark.parametrize(
    ("ours", "published", "outcome"),
    [
        (((23, 24), (20, 22), (11, 12)), FIG_14, Outcome.REPRODUCED),
        (((18.9, 28.1), (20, 22), (11, 12)), FIG_14, Outcome.REPRODUCED),  # a fifth off
        (((18.7, 28.1), (20, 22), (11, 12)), FIG_14, Outcome.NO_VERDICT),  # a little more, and no order
        (((3, 4), (1.5, 2), (0.1, 1)), FIG_14, Outcome.IN_KIND),
        (((3, 4), (1.5, 3.5), (0.1, 1)), FIG_14, Outcome.NOT_REPRODUCED),  # no order, and all too small
        (((3, 40), (1.5, 30), (0.1, 20)), FIG_14, Outcome.NO_VERDICT),
        (((1.4, 1.4), (1.5, 1.5), (5.5, 5.5)), FIG_14, Outcome.NOT_REPRODUCED),  # another order
        (((40, 41), (42, 43), (60, 61)), FIG_14, Outcome.NOT_REPRODUCED),  # and not too small
        (((3, 4), (1.5, 2), (-1, -0.1)), FIG_14, Outcome.NOT_REPRODUCED),  # a loss
        (((30, 40), (25, 29), (-0.5, 12)), FIG_14, Outcome.NO_VERDICT),  # perhaps a loss
        (((30, 40), (25, 29), (0, 12)), FIG_14, Outcome.NO_VERDICT),  # perhaps nothing
        (((30, 40), (25, 29), (-1, 0)), FIG_14, Outcome.NO_VERDICT),  # a loss or nothing
        (
            ((30, 40), (25, 29), (-1, -0.1)),
            FIG_14,
            Outcome.NOT_REPRODUCED,
        ),  # a loss, in order and not too small
        (((30, 40), (25, 29), (0.1, 12)), FIG_14, Outcome.IN_KIND),
        (((8, 12),), ((10, 10),), Outcome.REPRODUCED),  # a fifth off on either side
        (((18.9, 28.1), (20, 22), (11, 13.4)), FIG_14, Outcome.REPRODUCED),
        (((18.9, 28.3), (20, 22), (11, 12)), FIG_14, Outcome.NO_VERDICT),  # more than a fifth above
        (((1, 23.4), (2, 21.1), (3, 11.1)), FIG_14, Outcome.NOT_REPRODUCED),  # each below the published one
        (((1, 23.5), (2, 21.1), (3, 11.1)), FIG_14, Outcome.NO_VERDICT),  # one reaches it
        (((0.2, 2.9), (0.6, 7.9)), FIG_15, Outcome.NOT_REPRODUCED),
        (((0.9, 12.9), (2.6, 35)), FIG_15, Outcome.NO_VERDICT),
        (((5.8, 9.3), (22.5, 28.3)), FIG_15, Outcome.REPRODUCED),
    ],
)
def test_one_rule(
    ours: tuple[tuple[float, float], ...], published: tuple[tuple[float, float], ...], outcome: Outcome
) -> None:
    assert judged([gain(*each) for each in ours], published) is outcome


def test_what_the_paper_does_not_tell_apart_has_no_order() -> None:
    assert in_order(((2, 3), (1, 2)), ((5, 7), (6, 8))) is True
    assert in_order(((2, 3), (0, 1)), ((5, 6), (7, 8))) is False
    assert in_order(((2, 3), (3, 4)), ((5, 6), (7, 8))) is None


def test_intervals_that_overlap_here_are_in_no_order_that_is_sure() -> None:
    apart = ((5, 6), (7, 8))
    assert in_order(((1, 3), (2, 2.5)), apart) is None
    assert in_order(((1, 2), (2, 3)), apart) is None  # they touch
    assert in_order(((2, 3), (1, 2)), apart) is None


def test_ranges_that_the_paper_prints_as_overlapping_may_come_in_any_order() -> None:
    for ours in (((1, 2), (3, 4)), ((3, 4), (1, 2))):
        for printed in (((6, 8), (5, 7)), ((5, 7), (6, 8)), ((5, 6), (6, 7)), ((6, 7), (5, 6))):
            assert in_order(ours, printed) is True


def test_two_that_the_paper_does_not_tell_apart_hide_no_later_contradiction() -> None:
    assert in_order(((2, 3), (1, 2), (0, 0.5)), ((5, 7), (6, 8), (9, 10))) is False


def test_each_gain_has_a_published_one() -> None:
    with pytest.raises(ValueError, match="zip"):
        judged([gain(20, 22)] * 3, FIG_15)


def test_a_number_without_an_interval_is_exact() -> None:
    assert interval(Number("cycles", 3.0, "cycles", Provenance.SIMULATED)) == (3.0, 3.0)


@pytest.mark.parametrize("bounds", [{}, {"low": 2.0}, {"high": 4.0}])
def test_a_measured_number_without_both_bounds_may_have_any_value(bounds: dict[str, float]) -> None:
    timed = Number("time", 3.0, "s", Provenance.MEASURED, **bounds)
    assert interval(timed) == (-math.inf, math.inf)
    assert judged([timed], ((3.0, 3.0),)) is Outcome.NO_VERDICT
