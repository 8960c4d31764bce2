"""The median over seeds of which some never arrive, and its interval."""

from dataclasses import replace

from placerl.harness.compare.arrivals import half_arrived, interval, lines
from placerl.harness.store.rows import LearningCurve
from tests.harness.cli.bench.test_time_to_return_bench import row


def test_the_median_is_when_half_had_arrived() -> None:
    assert half_arrived([3, 1, 2]) == 2
    assert half_arrived([4, 1, 3, 2]) == 2
    assert half_arrived([4, None, 3, None]) == 4, "half arrived"
    assert half_arrived([4, None, None]) is None


def test_the_interval_is_of_ranks_that_arrived() -> None:
    assert interval(range(1, 11)) == (2, 9)
    assert interval([*range(1, 9), None, None]) == (2, None)
    assert interval([1, 2, 3]) == (None, None), "three seeds have none"


def failed(seed: int, status: str = "failed") -> LearningCurve:
    return replace(row("sbx", seed, None), status=status, reason="it died", value=None, start_s=None)


def test_a_training_that_failed_never_arrived() -> None:
    """Of ten seeds five arrived: with those that failed left out, it would be six of six."""
    rows = [*(row("sbx", seed, 10.0 + seed) for seed in range(5)), *(failed(seed) for seed in range(5, 10))]
    assert lines({"sbx": rows}) == [["sbx", "14", "11 to ?", "2.5", "5/10, 5 failed"]]
    assert lines({"sbx": [*rows[:4], *rows[5:], failed(10)]}) == [
        ["sbx", "> 300", "11 to ?", "2.5", "4/10, 6 failed"]
    ]
    assert lines({"sbx": rows[5:]}) == [["sbx", "failed", "", "", "0/5, 5 failed"]]
    assert lines({"sbx": [failed(0, "not_run")]}) == []
