"""The median over seeds of which some never arrive, and its interval."""

from placerl.harness.compare.arrivals import half_arrived, interval


def test_the_median_is_when_half_had_arrived() -> None:
    assert half_arrived([3, 1, 2]) == 2
    assert half_arrived([4, 1, 3, 2]) == 2
    assert half_arrived([4, None, 3, None]) == 4, "half arrived"
    assert half_arrived([4, None, None]) is None


def test_the_interval_is_of_ranks_that_arrived() -> None:
    assert interval(range(1, 11)) == (2, 9)
    assert interval([*range(1, 9), None, None]) == (2, None)
    assert interval([1, 2, 3]) == (None, None), "three seeds have none"
