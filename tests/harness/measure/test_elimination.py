import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.harness.measure.elimination import ERROR_RATE, Elimination, log_ratios

RACES = 40


def race(rng, slower, noise, rounds, disturbed=0.0):
    """Run a race of sides that are slower than the first by known logs; return the sides left after each round.

    Args:
        slower: logs of the factors by which each side is slower than side 0, all at least 0.
        noise: standard deviation of the log of each side's samples.
        disturbed: share of the samples that take half as long again.
    """
    names = [f"side {number}" for number in range(len(slower))]
    elimination = Elimination(names)
    rates = {name: {} for name in names}
    left = []
    for number in range(rounds):
        shared = rng.normal(0, 0.5)  # what the machine does to all sides of a round
        for name, log, sd in zip(names, slower, noise, strict=True):
            if name in elimination.left:
                more = 0.4 * (rng.random() < disturbed)
                rates[name][number] = float(np.exp(shared - log - more + rng.normal(0, sd)))
        elimination.drop(rates)
        left.append(list(elimination.left))
    return left


# The inputs are the same in every run: new ones would fail by chance now and then.
@settings(deadline=None, max_examples=10, derandomize=True)
@given(
    sides=st.integers(2, 30),
    ties=st.integers(0, 5),
    noise=st.sampled_from([(0.01, 0.02), (0.05, 0.05), (0.02, 0.4), (0.3, 0.4)]),
    disturbed=st.sampled_from([0.0, 0.1]),
    rounds=st.integers(1, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_best_side_is_dropped_in_no_more_than_the_stated_share_of_races(
    sides, ties, noise, disturbed, rounds, seed
):
    rng = np.random.default_rng(seed)
    lost = 0
    for _ in range(RACES):
        slower = rng.uniform(0, 2, sides)
        slower[: ties + 1] = 0
        lost += "side 0" not in race(rng, slower, rng.uniform(*noise, sides), rounds, disturbed)[-1]
    # 5% of the races, and 4 standard deviations of chance: of 40 races, 8 or more are lost in 1 of 1,000 tries.
    assert lost <= ERROR_RATE * RACES + 4 * np.sqrt(RACES * ERROR_RATE)


@given(factor=st.floats(4.5, 100), sides=st.integers(2, 30))
def test_a_side_that_is_many_times_slower_is_dropped_after_one_round(factor, sides):
    elimination = Elimination([f"side {number}" for number in range(sides)])
    rates = {f"side {number}": {0: 1.0 if number else factor} for number in range(sides)}
    assert elimination.drop(rates) == {f"side {number}" for number in range(1, sides)}
    assert elimination.left == ["side 0"]
    assert elimination.drop(rates) == set()


def test_what_is_close_is_decided_by_more_rounds():
    rng = np.random.default_rng(0)
    left = race(rng, np.log([1.0, 1.3, 1.3, 2.0]), [0.03] * 4, 40)
    assert left[0] == ["side 0", "side 1", "side 2", "side 3"]
    assert left[3] == ["side 0", "side 1", "side 2"]
    assert left[-1] == ["side 0"]


def test_a_side_that_is_noisier_than_the_others_is_judged_by_its_own_noise():
    elimination = Elimination("abcdefgh")
    rates = {name: dict.fromkeys(range(30), 2.0) for name in "abcdef"}
    steady = dict.fromkeys(range(30), 1.2)
    wild = {number: 1.2 * np.exp((-1) ** number * 1.0) for number in range(30)}
    assert elimination.drop(rates | {"g": steady, "h": wild}) == {"g"}


@pytest.mark.parametrize(
    ("sides", "rounds", "noise", "factor"),
    [
        (2, 1, 0.0, 2.1104),
        (2, 2, 0.0, 1.9828),
        (2, 5, 0.0, 1.6371),
        (5, 1, 0.0, 2.8116),  # the error rate is divided among four rivals
        (5, 8, 0.0, 1.2972),
        (2, 6, 0.3, 2.7838),
        (4, 6, 0.1, 1.5284),
    ],
)
def test_a_side_is_dropped_beyond_the_factor_that_student_s_t_gives(sides, rounds, noise, factor):
    """The samples of neighbouring sides deviate from their median in opposite directions, by a log of `noise`."""
    names = [str(number) for number in range(sides)]
    for near, dropped in ((0.999, set()), (1.001, set(names[1:]))):
        rates = {
            name: {
                number: (1.0 if int(name) else factor * near) * np.exp(noise * (-1) ** (number + int(name)))
                for number in range(rounds)
            }
            for name in names
        }
        assert Elimination(names).drop(rates) == dropped


def test_the_leader_has_the_best_median_of_those_that_are_left():
    rates = {"lucky": {0: 99.0, 1: 1.0, 2: 1.0}, "steady": {0: 2.0, 1: 2.0, 2: 2.0}, "slow": {0: 0.5}}
    elimination = Elimination(rates)
    assert elimination.leader(rates) == "steady"
    elimination.left.remove("steady")
    assert elimination.leader(rates) == "lucky"


def test_rounds_without_both_sides_do_not_count():
    assert log_ratios({0: 2.0, 2: 4.0}, {1: 1.0, 2: 2.0}) == pytest.approx([np.log(2)])
    assert log_ratios({0: 2.0}, {1: 1.0}).size == 0
    elimination = Elimination(["a", "b"])
    assert elimination.drop({"a": {0: 100.0}, "b": {1: 1.0}}) == set()


def test_without_samples_nobody_leads_and_nothing_is_dropped():
    elimination = Elimination(["a", "b"])
    assert elimination.leader({}) is None
    assert elimination.drop({}) == set()
    assert elimination.drop({"b": {0: 1.0}}) == set()
    assert elimination.leader({"b": {0: 1.0}}) == "b"
    assert elimination.left == ["a", "b"]


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1])
def test_an_error_rate_is_a_share(rate):
    with pytest.raises(ValueError, match="error_rate"):
        Elimination(["a"], rate)
