"""Successive halving: finds the fastest of many sides in heats of interleaved rounds.

In a heat every side that is left takes turns, in the rounds of `harness.measure.turns`. The better half goes on to the
next heat, whose turns are longer. What is left at the end is measured thoroughly elsewhere.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from math import ceil, log2
from statistics import median
from time import monotonic
from typing import TypeVar

from harness.core.progress import Report, part, silent
from harness.measure.turns import Rounds, in_rounds

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Heats:
    """How many heats to run, and how long.

    Attributes:
        finalists: sides that are left at the end, at least 1.
        turn_s: length of a turn in the first heat, more than 0 s.
        growth: factor by which turns grow from heat to heat, at least 1.
        rounds: most rounds of a heat, at least 1; one is always run.
        budget_s: the seconds of all heats; what is left is divided evenly among the heats that are left.
        seed: seed of the orders.
    """

    finalists: int = 4
    turn_s: float = 10e-3
    growth: float = 2.0
    rounds: int = 3
    budget_s: float = 20.0
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
    """How far a side came.

    Attributes:
        heats: heats that it took part in, at least 1.
        rates: its rates in the last of them, one per round; empty if it failed.
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
    """Run heats until `heats.finalists` sides are left.

    Args:
        sides: the turn of each side: given about how many seconds to run, it returns its rate, more being better, or
            None if it failed and takes no further turn.
        heats: how many heats to run, and how long.
        report: called with the progress.
        clock: returns seconds from some moment; must never decrease.

    Returns:
        The standing of every side: finalists first, the fastest of them first, then the others, those that came
        farthest first.
    """
    end_s, left, turn_s = clock() + heats.budget_s, list(sides), heats.turn_s
    total = _heats(len(left), heats.finalists)
    standings: dict[K, Standing] = {}
    for heat in range(total):
        budget_s = max(0.0, end_s - clock()) / (total - heat)
        found = in_rounds(
            {name: partial(sides[name], turn_s) for name in left},
            Rounds(heats.rounds, fewest=1, budget_s=budget_s, seed=(heats.seed, heat)),
            report=part(report, heat, 1, total, f"heat {heat + 1} of {total}, {len(left)} left"),
            clock=clock,
        )
        complete = max(map(len, found.values()), default=0)
        for name, rates in found.items():
            failed = not rates or len(rates) < complete
            standings[name] = Standing(heat + 1, () if failed else tuple(rates))
        able = [name for name in left if standings[name].rates]
        able.sort(key=lambda name: -median(standings[name].rates))
        left = able if heat == total - 1 else able[: max(heats.finalists, ceil(len(left) / 2))]
        turn_s *= heats.growth
    rest = sorted(
        (name for name in standings if name not in set(left[: heats.finalists])),
        key=lambda name: (-standings[name].heats, -median(standings[name].rates or (0.0,))),
    )
    return {name: standings[name] for name in (*left[: heats.finalists], *rest)}


def _heats(sides: int, finalists: int) -> int:
    """Return the heats after which the better halves are `finalists` or fewer; at least one, which times them all."""
    return max(1, ceil(log2(sides / finalists))) if sides else 0
