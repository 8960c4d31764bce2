"""Successive halving, on a clock that the sides themselves move."""

from collections import Counter

import pytest

from placerl.harness.measure.halving import Heats, Standing, halve


def heats(**settings):
    return Heats(**{"finalists": 4, "budget_s": 1e6} | settings)


class Race:
    """Sides whose rates are known, and every turn that they took."""

    def __init__(self, rates, failing=()):
        self.now_s, self.turns = 0.0, []
        self._rates, self._failing = rates, failing

    def side(self, name):
        def turn(seconds):
            self.now_s += seconds
            self.turns.append((name, seconds))
            return None if name in self._failing else self._rates[name]

        return turn

    def run(self, **settings):
        sides = {name: self.side(name) for name in self._rates}
        return halve(sides, heats(**settings), clock=lambda: self.now_s)

    def turns_of(self, name):
        return [seconds for one, seconds in self.turns if one == name]


def test_the_better_half_goes_on_with_longer_turns():
    race = Race({f"side {rate}": float(rate) for rate in range(16)})
    found = race.run(finalists=4, turn_s=1.0, growth=2.0, rounds=2)
    assert list(found)[:4] == ["side 15", "side 14", "side 13", "side 12"]
    assert {name: one.heats for name, one in found.items()} == {
        f"side {rate}": 1 + (rate >= 8) for rate in range(16)
    }
    assert race.turns_of("side 0") == [1.0, 1.0]
    assert race.turns_of("side 8") == [1.0, 1.0, 2.0, 2.0]
    assert found["side 8"] == Standing(2, (8.0, 8.0))
    assert list(found)[4:8] == ["side 11", "side 10", "side 9", "side 8"]
    assert list(found)[-1] == "side 0"


def test_a_side_that_fails_is_out_and_keeps_no_rate():
    race = Race({"a": 1.0, "b": 2.0, "c": 3.0}, failing=("c",))
    found = race.run(finalists=1, turn_s=1.0, rounds=2)
    assert next(iter(found)) == "b"
    assert found["c"] == Standing(1, ())
    assert race.turns_of("c") == [1.0]


def test_sides_that_all_fail_in_the_same_round_keep_no_rate():
    answers = {"a": [1.0, None], "b": [2.0, None]}
    sides = {name: lambda seconds, name=name: answers[name].pop(0) for name in answers}
    found = halve(sides, heats(rounds=3))
    assert found == {"a": Standing(1, ()), "b": Standing(1, ())}


def test_few_sides_are_timed_once_and_none_is_nothing():
    race = Race({"a": 1.0, "b": 2.0})
    assert race.run(finalists=4, turn_s=1.0, rounds=1) == {
        "b": Standing(1, (2.0,)),
        "a": Standing(1, (1.0,)),
    }
    assert halve({}, heats()) == {}


def test_the_budget_bounds_the_rounds_and_one_round_is_always_run():
    race = Race({str(rate): float(rate) for rate in range(1, 9)})
    race.run(finalists=2, turn_s=1.0, growth=1.0, rounds=3, budget_s=0.0)
    assert len(race.turns) == 8 + 4
    # 32 s for the first heat, which takes 8 s a round, and what is left for the second.
    rich = Race({str(rate): float(rate) for rate in range(1, 9)})
    rich.run(finalists=2, turn_s=1.0, growth=1.0, rounds=100, budget_s=64.0)
    assert [len(rich.turns_of(name)) for name in ("1", "8")] == [4, 4 + 8]


def test_by_default_a_heat_has_three_rounds_of_10_ms_and_the_next_one_turns_twice_as_long():
    race = Race({"slow": 1.0, "fast": 2.0, "fastest": 3.0})
    race.run(finalists=1)
    assert race.turns_of("slow") == [10e-3] * 3
    assert race.turns_of("fast") == race.turns_of("fastest") == [10e-3] * 3 + [20e-3] * 3


def test_who_got_further_is_ahead_although_its_rate_fell():
    rates = {"first": [9.0, 9.0], "fell": [8.0, 0.5], "out": [1.0], "last": [0.1]}
    sides = {name: lambda seconds, name=name: rates[name].pop(0) for name in rates}
    assert list(halve(sides, heats(finalists=1, rounds=1))) == ["first", "fell", "out", "last"]


def test_a_spent_budget_runs_one_round_a_heat_however_short_the_turns():
    race = Race({str(rate): float(rate) for rate in range(1, 9)})
    race.run(finalists=2, turn_s=1e-3, rounds=3, budget_s=0.0)
    assert len(race.turns) == 8 + 4


def test_of_an_odd_number_the_larger_half_goes_on():
    race = Race({str(rate): float(rate) for rate in range(1, 6)})
    found = race.run(finalists=1, turn_s=1.0, rounds=1)
    assert [(name, one.heats) for name, one in found.items()] == [
        ("5", 3),
        ("4", 3),
        ("3", 2),
        ("2", 1),
        ("1", 1),
    ]


@pytest.mark.parametrize("finalists", [1, 3, 4])
@pytest.mark.parametrize("sides", range(1, 20))
def test_heats_are_as_many_as_halve_the_sides_to_the_finalists(sides, finalists):
    race = Race({rate: float(rate) for rate in range(sides)})
    found = race.run(finalists=finalists, turn_s=1.0, growth=2.0, rounds=1)
    assert list(found) == list(range(sides))[::-1]
    in_heat = list(Counter(seconds for _, seconds in race.turns).values())
    assert in_heat[0] == sides
    assert all(number > finalists for number in in_heat[1:])
    assert in_heat[-1] <= 2 * finalists


def test_a_side_that_failed_comes_after_the_slowest_of_its_heat():
    race = Race({"failed": 9.0, "slow": 0.25, "fast": 1.0, "faster": 2.0}, failing=("failed",))
    assert list(race.run(finalists=2, turn_s=1.0, rounds=1)) == ["faster", "fast", "slow", "failed"]


def test_sides_are_ranked_by_their_median_not_by_their_best_round():
    answers = {"steady": [2.0, 2.0, 2.0], "lucky": [9.0, 1.0, 1.0]}
    sides = {name: lambda seconds, name=name: answers[name].pop(0) for name in answers}
    assert list(halve(sides, heats(rounds=3))) == ["steady", "lucky"]


def test_the_seed_decides_the_order_of_the_turns():
    def order(seed):
        race = Race({rate: float(rate) for rate in range(20)})
        race.run(finalists=5, turn_s=1.0, rounds=1, seed=seed)
        return race.turns

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_progress_counts_heats_and_names_the_sides_that_are_left():
    race = Race({str(rate): float(rate) for rate in range(8)})
    said = []
    halve(
        {name: race.side(name) for name in "01234567"},
        heats(finalists=2, turn_s=1.0, rounds=1),
        report=lambda *one: said.append(one),
        clock=lambda: race.now_s,
    )
    assert (
        said
        == [(0.0, 2, "heat 1 of 2, 8 left: round 1")] * 8 + [(1.0, 2, "heat 2 of 2, 4 left: round 1")] * 4
    )


def test_the_least_settings_are_allowed():
    least = Heats(finalists=1, turn_s=1e-9, growth=1, rounds=1, budget_s=0)
    assert halve({"a": lambda seconds: 1.0}, least) == {"a": Standing(1, (1.0,))}


@pytest.mark.parametrize(
    "wrong",
    [{"finalists": 0}, {"growth": 0.5}, {"rounds": 0}, {"turn_s": 0.0}, {"turn_s": -0.5}, {"budget_s": -0.5}],
)
def test_a_setting_out_of_range_is_refused(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}: found"):
        heats(**wrong)
