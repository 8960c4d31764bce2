"""Says by when a system had reached a return: a median over seeds of which some never do, with its interval."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from placerl.harness.compare.curves import seconds_to_return

COLUMNS = ("system", "seconds", "95%", "start", "arrived")
"""What the cells of a line are."""


def lines(rows: Mapping[str, Sequence[Any]]) -> list[list[str]]:
    """Return a line of text for each system with trainings: its cells, as `COLUMNS` names them.

    Args:
        rows: the trainings of each system for one goal, with one budget: `LearningCurve`s, or records of a frame with
            its columns. One that failed never arrived; those that were not run are left out.
    """
    trained = {name: [row for row in some if row.status != "not_run"] for name, some in rows.items()}
    return [_line(name, some) for name, some in trained.items() if some]


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


def _line(system: str, rows: Sequence[Any]) -> list[str]:
    trained = [row for row in rows if row.status != "failed"]
    failed = len(rows) - len(trained)
    times = [None if row.status == "failed" else seconds_to_return(row) for row in rows]
    middle, (low, high) = half_arrived(times), interval(times)
    budget_s = rows[0].budget_s
    never = f"> {budget_s:g}" if trained else "failed"
    return [
        system,
        never if middle is None else f"{middle:.3g}",
        "" if low is None else f"{low:.3g} to {'?' if high is None else f'{high:.3g}'}",
        f"{np.median([row.start_s for row in trained]):.1f}" if trained else "",
        f"{sum(one is not None for one in times)}/{len(times)}" + (f", {failed} failed" if failed else ""),
    ]
