"""Says by when a system had reached a return: a median over seeds of which some never do, with its interval."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from placerl.harness.compare.curves import seconds_to_return

COLUMNS = ("system", "seconds", "95%", "start", "arrived")
"""What the cells of a line are."""


@dataclass(frozen=True)
class Arrival:
    """By when a system's trainings for a goal had reached its return.

    Attributes:
        seconds: the time by which half of them had; None if fewer did within `budget_s`.
        low, high: ends of its 95% interval; None for an end that is unknown.
        start_s: median time from the start of a process until it learns; None if every training failed.
        arrived, failed, seeds: how many arrived, how many failed, and of how many.
    """

    seconds: float | None
    low: float | None
    high: float | None
    budget_s: float
    start_s: float | None
    arrived: int
    failed: int
    seeds: int

    @classmethod
    def of(cls, rows: Sequence[Any]) -> "Arrival":
        """Return that of one training or more, all with one budget: `LearningCurve`s, or records of a frame."""
        times = [None if row.status == "failed" else seconds_to_return(row) for row in rows]
        starts_s = [row.start_s for row in rows if row.status != "failed"]
        return cls(
            half_arrived(times),
            *interval(times),
            rows[0].budget_s,
            float(np.median(starts_s)) if starts_s else None,
            sum(one is not None for one in times),
            len(rows) - len(starts_s),
            len(rows),
        )

    def cells(self) -> list[str]:
        """Return the cells of a table's line, as `COLUMNS` names them after the first."""
        never = "failed" if self.start_s is None else f"> {self.budget_s:g}"
        return [
            never if self.seconds is None else f"{self.seconds:.3g}",
            ""
            if self.low is None
            else f"{self.low:.3g} to {'?' if self.high is None else f'{self.high:.3g}'}",
            "" if self.start_s is None else f"{self.start_s:.1f}",
            f"{self.arrived}/{self.seeds}" + (f", {self.failed} failed" if self.failed else ""),
        ]


def of_systems(rows: Mapping[str, Sequence[Any]]) -> dict[str, Arrival]:
    """Return the arrival of each system with trainings.

    Args:
        rows: the trainings of each system for one goal, with one budget: `LearningCurve`s, or records of a frame with
            its columns. One that failed never arrived; those that were not run are left out.
    """
    trained = {name: [row for row in some if row.status != "not_run"] for name, some in rows.items()}
    return {name: Arrival.of(some) for name, some in trained.items() if some}


def lines(rows: Mapping[str, Sequence[Any]]) -> list[list[str]]:
    """Return a line of text for each system with trainings (`of_systems`): its cells, as `COLUMNS` names them."""
    return [[name, *arrival.cells()] for name, arrival in of_systems(rows).items()]


def half_arrived(seconds: Sequence[float | None], share: float = 0.5) -> float | None:
    """Return the time by which a share of the seeds had arrived; None if fewer arrived.

    Args:
        seconds: of each seed, the seconds in which it arrived; None if it did not.
    """
    return _ranked(seconds, math.ceil(share * len(seconds)))


def interval(seconds: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Return the 95% interval of the median that follows from ranks alone; None for an end that is unknown."""
    rank = int(stats.binom.ppf(0.025, len(seconds), 0.5))
    return _ranked(seconds, rank), _ranked(seconds, len(seconds) - rank + 1)


def _ranked(seconds: Sequence[float | None], rank: int) -> float | None:
    """Return the time of the seed that arrived as the `rank`-th, from 1; None if so many did not, or at rank 0."""
    times = sorted(one for one in seconds if one is not None)
    return times[rank - 1] if 1 <= rank <= len(times) else None
