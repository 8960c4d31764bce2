"""The loop behind everything that is timed in interleaved rounds.

The things that are compared are called sides. In each round every side takes one turn, in a
new random order, so that drift and disturbances of the machine favour no side. `take_turns` is the loop. `measure`
(`harness.measure.protocol`) runs it with cases, functions that it times itself. `in_rounds` runs it with sides that
time themselves: worker processes, teams of threads, whole trainings. `harness.measure.statistics` judges the results
of both.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

import numpy as np

from placerl.harness.core.progress import Report, silent
from placerl.harness.measure import statistics

S = TypeVar("S")
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def take_turns(
    next_round: Callable[[int], Sequence[S]], order: np.random.Generator
) -> Iterator[tuple[int, S]]:
    """Yield the turns of all sides (the things that are compared), round by round, each in a new random order.

    Args:
        next_round: returns the sides of the next round, given the number of rounds done; empty ends the loop.

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
    """The number of rounds to run, and when to end before that.

    Attributes:
        most: most timed rounds, at least 1. An interval needs 5, a comparison 15; the default is 45.
        fewest: timed rounds that are run whatever the budget, at least 1; never more than `most`.
        budget_s: begin no further round after this many seconds, warm-up included; None: no limit.
        warm_up: rounds before the timed ones, whose results are dropped, at least 0.
        seed: seed of the random order of the turns in each round.
    """

    most: int = statistics.PAIRS
    fewest: int = statistics.FEWEST_SAMPLES
    budget_s: float | None = None
    warm_up: int = 0
    seed: int | tuple[int, ...] = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a value out of range."""
        for name, low in (("most", 1), ("fewest", 1), ("warm_up", 0)):
            if getattr(self, name) < low:
                raise ValueError(f"{name}: found {getattr(self, name)}; allowed: at least {low}")

    def share(self, done: int, spent_s: float) -> float:
        """Return the fraction of all rounds' work that is done, from 0 to 1; 1 if no further round begins.

        Args:
            spent_s: seconds spent, including warm-up.
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
    """Let several sides, the things that are compared, take turns in rounds, and return what each of them measured.

    Args:
        sides: the turn of each side, a function that returns its result: seconds by its own clock, or another
            result. None means that the side takes no further turn, as after a failure. An exception ends all rounds.
        report: called before each turn with the fraction of the work that is done.
        go_on: called before each round; returns whether another round is worth its time.

    Returns:
        The results of each side, one per timed round, in the order given. For sides that did not fail, results at
        the same position belong to the same round: they are paired samples.
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
