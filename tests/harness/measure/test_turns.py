"""Sides that take turns: orders, warm-up, when rounds end, and sides that fail."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from placerl.harness.measure.turns import Rounds, in_rounds, take_turns


class World:
    """A clock that only turns move, and a log of them."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.log: list[str] = []

    def side(self, name: str, seconds: float = 1.0) -> Callable[[], float]:
        def turn() -> float:
            self.log.append(name)
            self.now_s += seconds
            return seconds

        return turn

    def sides(self, names: str) -> dict[str, Callable[[], float | None]]:
        return {name: self.side(name) for name in names}

    def rounds(self, of: int) -> list[str]:
        return ["".join(self.log[first : first + of]) for first in range(0, len(self.log), of)]


@pytest.fixture
def world() -> World:
    return World()


def test_every_round_has_every_side_once_in_orders_of_its_own(world: World) -> None:
    rounds = in_rounds(world.sides("abc"), Rounds(600))
    assert {name: len(seconds) for name, seconds in rounds.items()} == {"a": 600, "b": 600, "c": 600}
    counts = Counter(world.rounds(3))
    assert set(counts) == {"abc", "acb", "bac", "bca", "cab", "cba"}
    assert min(counts.values()) > 60  # 100 of each are expected, 9 the standard deviation


def test_a_seed_gives_the_orders(world: World) -> None:
    logs = []
    for seed in (1, 1, (1, 2)):
        world.log.clear()
        in_rounds(world.sides("abc"), Rounds(20, seed=seed))
        logs.append(list(world.log))
    assert logs[0] == logs[1] != logs[2]


def test_results_are_those_of_the_timed_rounds_in_their_order(world: World) -> None:
    numbers = iter(range(100))
    rounds = in_rounds({"a": lambda: next(numbers)}, Rounds(3, warm_up=2))
    assert rounds == {"a": [2, 3, 4]}


def test_a_result_of_zero_is_one() -> None:
    assert in_rounds({"a": lambda: 0}, Rounds(2)) == {"a": [0, 0]}


@pytest.mark.parametrize(
    ("rounds", "made"),
    [
        (Rounds(20), 20),
        (Rounds(20, budget_s=1e9), 20),
        (Rounds(20, fewest=5, budget_s=0.0), 5),
        (Rounds(20, fewest=5, budget_s=-1.0), 5),
        (Rounds(20, fewest=5, budget_s=14.0), 7),  # 2 s a round
        (Rounds(20, fewest=5, budget_s=14.1), 8),
        (Rounds(20, fewest=5, budget_s=14.0, warm_up=1), 6),
        (Rounds(3, fewest=5, budget_s=0.0), 3),
        (Rounds(1, fewest=1, budget_s=0.0, warm_up=4), 1),
    ],
)
def test_rounds_end_at_their_number_or_with_the_budget(world: World, rounds: Rounds, made: int) -> None:
    found = in_rounds(world.sides("ab"), rounds, clock=lambda: world.now_s)
    assert [len(seconds) for seconds in found.values()] == [made, made]


def test_the_share_of_the_work_grows_to_its_end(world: World) -> None:
    told: list[tuple[float, float, str]] = []
    rounds = Rounds(20, fewest=2, budget_s=8.0, warm_up=1)
    in_rounds(world.sides("ab"), rounds, report=lambda *one: told.append(one), clock=lambda: world.now_s)
    assert told == [
        (0.0, 1.0, "warm-up"),
        (0.0, 1.0, "warm-up"),
        (0.0, 1.0, "round 1"),
        (0.0, 1.0, "round 1"),
        (0.5, 1.0, "round 2"),
        (0.5, 1.0, "round 2"),
        (0.75, 1.0, "round 3"),
        (0.875, 1.0, "round 3"),
    ]
    told.clear()
    in_rounds(world.sides("a"), Rounds(4), report=lambda *one: told.append(one))
    assert [share for share, _, _ in told] == [0, 0.25, 0.5, 0.75]


def test_the_share_of_the_work_is_never_more_than_all_of_it() -> None:
    rounds = Rounds(20, fewest=5, budget_s=10.0)
    assert [rounds.share(done, 99.0) for done in (4, 5, 8, 20)] == [0.8, 1, 1, 1]
    assert [rounds.share(done, 5.0) for done in (0, 2, 8, 12, 20)] == [0, 0.4, 0.5, 0.6, 1]
    assert Rounds(3, fewest=5, budget_s=0.0).share(3, 1.0) == 1


def test_a_side_that_failed_takes_no_further_turn(world: World) -> None:
    results = iter([1, None, 3])
    rounds = in_rounds({"fails": lambda: next(results), **world.sides("a")}, Rounds(5))
    assert rounds == {"fails": [1], "a": [1.0] * 5}


def test_rounds_end_when_every_side_failed() -> None:
    asked = []
    assert in_rounds({"a": lambda: asked.append(1)}, Rounds(5)) == {"a": []}
    assert asked == [1]


def test_rounds_end_when_another_is_not_worth_its_time(world: World) -> None:
    rounds = in_rounds(world.sides("ab"), Rounds(9, fewest=9), go_on=lambda: world.now_s < 5)
    assert [len(seconds) for seconds in rounds.values()] == [3, 3]


def test_an_exception_ends_all_rounds() -> None:
    def fail() -> float:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        in_rounds({"a": fail}, Rounds(5))


def test_no_sides_take_no_turns() -> None:
    assert in_rounds({}, Rounds(5)) == {}


def test_whoever_takes_part_is_chosen_anew_for_each_round() -> None:
    def next_round(done: int) -> list[str]:
        return [["a", "b"], ["b"], ["a"], [], ["a"]][done]

    turns = list(take_turns(next_round, np.random.default_rng(0)))
    assert sorted(turns[:2]) == [(0, "a"), (0, "b")]
    assert turns[2:] == [(1, "b"), (2, "a")]


@pytest.mark.parametrize("field", ["most", "fewest"])
def test_fewer_rounds_than_one_are_refused(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field}: found 0; allowed: at least 1"):
        Rounds(**{field: 0})
    assert Rounds(1, fewest=1, warm_up=0).most == 1
    with pytest.raises(ValueError, match="warm_up: found -1"):
        Rounds(warm_up=-1)
