"""Successive halving: finds the fastest of many sides, the things that are compared, by heats of interleaved rounds.

In a heat every side that is left takes turns, in the rounds of `harness.measure.turns`. The faster half goes on to the
next heat, whose turns are longer. The sides that are left at the end are measured thoroughly elsewhere.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from math import ceil
from statistics import median
from time import monotonic
from typing import TypeVar

from placerl.harness.core.progress import Report, part, silent
from placerl.harness.measure.turns import Rounds, in_rounds

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Heats:
    """The number of heats of successive halving, and their length.

    After each heat the faster half of the sides, the things that are compared, is left.

    Attributes:
        finalists: number of sides that are left at the end, at least 1.
        budget_s: seconds of all heats together; the seconds that are left are divided evenly among the heats to come.
        turn_s: seconds of a turn in the first heat, more than 0.
        growth: factor by which turns become longer from heat to heat, at least 1.
        rounds: most rounds of a heat, at least 1; one round is always run.
        seed: seed of the random order of the turns.
    """

    finalists: int
    budget_s: float
    turn_s: float = 10e-3
    growth: float = 2.0
    rounds: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a value out of range."""
        for name, low in (("finalists", 1), ("growth", 1), ("rounds", 1), ("budget_s", 0)):
            if getattr(self, name) < low:
                raise ValueError(f"{name}: found {getattr(self, name)}; allowed: at least {low}")
        if not self.turn_s > 0:
            raise ValueError(f"turn_s: found {self.turn_s}; allowed: more than 0")


@dataclass(frozen=True)
class Standing:
    """The result of one side (one of the things that are compared) in successive halving.

    Attributes:
        heats: number of heats that it took part in, at least 1.
        rates: its rates in the last of these heats, one per round; empty if it failed.
    """

    heats: int
    rates: tuple[float, ...]


def halve(
    sides: Mapping[K, Callable[[float], float | None]],
    heats: Heats,
    *,
    report: Report = silent,
    clock: Callable[[], float] = monotonic,
) -> dict[K, Standing]:
    """Compare many sides in heats, each with the faster half of the last one, until `heats.finalists` sides are left.

    Args:
        sides: the turn of each side, by name: a function that runs for about the given seconds and returns its rate
            (higher is better), or None if it failed and takes no further turn.

    Returns:
        The standing of every side, by name: first the finalists, the fastest first, then the others, those with the
        most heats first.
    """
    end_s, left, turn_s = clock() + heats.budget_s, list(sides), heats.turn_s
    total = _heats(len(left), heats.finalists)
    standings: dict[K, Standing] = {}
    failed: set[K] = set()

    def turn(name: K, seconds: float) -> float | None:
        rate = sides[name](seconds)
        if rate is None:
            failed.add(name)
        return rate

    for heat in range(total):
        budget_s = max(0.0, end_s - clock()) / (total - heat)
        by_name = in_rounds(
            {name: partial(turn, name, turn_s) for name in left},
            Rounds(heats.rounds, fewest=1, budget_s=budget_s, seed=(heats.seed, heat)),
            report=part(report, heat, 1, total, f"heat {heat + 1} of {total}, {len(left)} left"),
            clock=clock,
        )
        for name, rates in by_name.items():
            standings[name] = Standing(heat + 1, () if name in failed else tuple(rates))
        able = [name for name in left if standings[name].rates]
        able.sort(key=lambda name: -median(standings[name].rates))
        left = able[: max(heats.finalists, ceil(len(left) / 2))]
        turn_s *= heats.growth
    first = left[: heats.finalists]
    rest = sorted(
        (name for name in standings if name not in first),
        key=lambda name: (-standings[name].heats, -median(standings[name].rates or (0.0,))),
    )
    return {name: standings[name] for name in (*first, *rest)}


def _heats(sides: int, finalists: int) -> int:
    """Return the heats after which the better halves are `finalists` or fewer; at least one, which times them all."""
    return max(1, ((sides - 1) // finalists).bit_length())
