"""Sides that take turns: the one loop behind everything that is timed in interleaved rounds.

In each round every side takes one turn, in a fresh random order, so that drift and disturbances of the machine favour
no side. `take_turns` is the loop. `measure` (`harness.measure.protocol`) drives it with cases that it times itself;
`in_rounds` with sides that bring their own clock: worker processes, teams of threads, whole trainings. What is found is
judged by `harness.measure.statistics` either way.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

import numpy as np

from harness.core.progress import Report, silent
from harness.measure import statistics

S = TypeVar("S")
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def take_turns(
    next_round: Callable[[int], Sequence[S]], order: np.random.Generator
) -> Iterator[tuple[int, S]]:
    """Yield every turn of every round.

    Args:
        next_round: the sides of the next round, given the number of rounds done; none at the end.
        order: draws the order of each round.

    Yields:
        The round's number, from 0, and the side whose turn it is.
    """
    done = 0
    while sides := next_round(done):
        for place in order.permutation(len(sides)):
            yield done, sides[place]
        done += 1


@dataclass(frozen=True)
class Rounds:
    """How many rounds are made.

    Attributes:
        most: timed rounds at most, at least 1; intervals take 5, comparisons 15, usually 45.
        fewest: timed rounds that are made whatever the budget, at least 1; no more than `most` are made.
        budget_s: begin no further round after this many seconds, warm-up included; None: no limit.
        warm_up: rounds before the timed ones, whose results are dropped, at least 0.
        seed: of the orders.
    """

    most: int = statistics.PAIRS
    fewest: int = statistics.FEWEST_SAMPLES
    budget_s: float | None = None
    warm_up: int = 0
    seed: int | tuple[int, ...] = 0

    def __post_init__(self) -> None:
        """Raises ValueError for a value out of range."""
        for name, low in (("most", 1), ("fewest", 1), ("warm_up", 0)):
            if getattr(self, name) < low:
                raise ValueError(f"{name}: found {getattr(self, name)}; allowed: at least {low}")

    def share(self, done: int, spent_s: float) -> float:
        """Return which share of the work is done, 1 where no further round begins.

        Args:
            done: timed rounds, `most` at most.
            spent_s: seconds, warm-up included.
        """
        by_rounds = done / self.most
        if self.budget_s is None:
            return by_rounds
        by_time = 1.0 if spent_s >= self.budget_s else spent_s / self.budget_s
        return max(by_rounds, min(by_time, done / self.fewest))


def in_rounds(
    sides: Mapping[K, Callable[[], T | None]],
    rounds: Rounds,
    *,
    report: Report = silent,
    go_on: Callable[[], bool] = lambda: True,
    clock: Callable[[], float] = monotonic,
) -> dict[K, list[T]]:
    """Let sides take turns, and collect what each measured.

    Args:
        sides: the turn of each, which returns its result: seconds by a clock of its own, or what else a round tells.
            None says that the side failed: it takes no further turn. An exception ends all rounds.
        rounds: how many.
        report: called before each turn with the share of the work that is done, of 1.
        go_on: asked before each round whether another one is worth its time.
        clock: seconds from some moment, never going back.

    Returns:
        The results of each side, one a timed round, in the order given. Those of sides that did not fail belong
        together by their places: paired samples.
    """
    results: dict[K, list[T]] = {name: [] for name in sides}
    at_work = dict(sides)
    begin_s = clock()

    def share(done: int) -> float:
        return 0.0 if done < rounds.warm_up else rounds.share(done - rounds.warm_up, clock() - begin_s)

    def next_round(done: int) -> list[K]:
        return list(at_work) if share(done) < 1 and at_work and go_on() else []

    for number, name in take_turns(next_round, np.random.default_rng(rounds.seed)):
        timed = number - rounds.warm_up
        report(share(number), 1.0, f"round {timed + 1}" if timed >= 0 else "warm-up")
        result = at_work[name]()
        if result is None:
            del at_work[name]
        elif timed >= 0:
            results[name].append(result)
    return results
