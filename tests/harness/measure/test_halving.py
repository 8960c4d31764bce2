"""Successive halving, on a clock that the sides themselves move."""

import pytest

from placerl.harness.measure.halving import Heats, Standing, halve


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
        return halve(sides, Heats(**settings), clock=lambda: self.now_s)

    def turns_of(self, name):
        return [seconds for one, seconds in self.turns if one == name]


def test_the_better_half_goes_on_with_longer_turns():
    race = Race({f"side {rate}": float(rate) for rate in range(16)})
    found = race.run(finalists=4, turn_s=1.0, growth=2.0, rounds=2, budget_s=1e6)
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
    found = race.run(finalists=1, turn_s=1.0, rounds=2, budget_s=1e6)
    assert next(iter(found)) == "b"
    assert found["c"] == Standing(1, ())
    assert race.turns_of("c") == [1.0]


def test_sides_that_all_fail_in_the_same_round_keep_no_rate():
    answers = {"a": [1.0, None], "b": [2.0, None]}
    sides = {name: lambda seconds, name=name: answers[name].pop(0) for name in answers}
    found = halve(sides, Heats(rounds=3))
    assert found == {"a": Standing(1, ()), "b": Standing(1, ())}


def test_few_sides_are_timed_once_and_none_is_nothing():
    race = Race({"a": 1.0, "b": 2.0})
    assert race.run(finalists=4, turn_s=1.0, rounds=1) == {
        "b": Standing(1, (2.0,)),
        "a": Standing(1, (1.0,)),
    }
    assert halve({}, Heats()) == {}


def test_the_budget_bounds_the_rounds_and_one_round_is_always_run():
    race = Race({str(rate): float(rate) for rate in range(1, 9)})
    race.run(finalists=2, turn_s=1.0, growth=1.0, rounds=3, budget_s=0.0)
    assert len(race.turns) == 8 + 4
    # 32 s for the first heat, which takes 8 s a round, and what is left for the second.
    rich = Race({str(rate): float(rate) for rate in range(1, 9)})
    rich.run(finalists=2, turn_s=1.0, growth=1.0, rounds=100, budget_s=64.0)
    assert [len(rich.turns_of(name)) for name in ("1", "8")] == [4, 4 + 8]


@pytest.mark.parametrize("wrong", [{"finalists": 0}, {"growth": 0.5}, {"rounds": 0}, {"turn_s": 0.0}])
def test_a_setting_out_of_range_is_refused(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}: found"):
        Heats(**wrong)
