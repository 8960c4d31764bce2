"""Draws by when this project and other libraries had reached a return: rows of `placerl bench time-to-return`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import matplotlib as mpl
from markupsafe import Markup

from placerl.harness.compare import arrivals
from placerl.harness.compare.arrivals import Arrival
from placerl.harness.compare.curves import QUANTITY
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.papers.drawing import (
    GRID,
    MARKERS,
    draw_across,
    ends_of,
    legend_below,
    logarithmic,
    new_figure,
    plain,
)
from placerl.harness.papers.number import Number
from placerl.harness.report.drawing import STYLE, svg
from placerl.harness.store.rows import OURS

_KINDS = {
    "this project": MARKERS[0],
    "another library": MARKERS[1],
    "fewer than half of the seeds arrived in this time": ">",
}
"""The marker of each kind of point."""


@dataclass(frozen=True)
class Race:
    """A goal, and by when each system had reached it.

    Attributes:
        name: the goal's name.
        threshold: the mean return to reach and hold.
        systems: the arrival of each system, in the order in which they ran.
        settings_from: where each system's settings are from.
    """

    name: str
    threshold: float
    systems: Mapping[str, Arrival]
    settings_from: Mapping[str, str]

    def ranked(self) -> list[tuple[str, Arrival]]:
        """Return the systems, the fastest first; those that did not arrive come last."""
        return sorted(self.systems.items(), key=lambda one: (one[1].seconds is None, one[1].seconds or 0.0))


def races(rows: Iterable[Any]) -> list[Race]:
    """Return the goals of `placerl bench time-to-return`, in the order in which they ran.

    Args:
        rows: measurements of a run, of all suites: rows, or records of a frame.
    """
    found: dict[str, dict[str, list[Any]]] = {}
    for row in rows:
        if row.suite == Suite.BENCH_TIME_TO_RETURN and row.quantity == QUANTITY:
            found.setdefault(row.workload, {}).setdefault(row.system, []).append(row)
    made = [
        Race(
            name,
            next(iter(systems.values()))[0].threshold,
            arrivals.of_systems(systems),
            {system: rows[0].settings_from for system, rows in systems.items()},
        )
        for name, systems in found.items()
    ]
    return [race for race in made if race.systems]


def figure(drawn: Sequence[Race]) -> Markup | None:
    """Plot the seconds of each system for each goal, the fastest first, on one logarithmic axis.

    Returns:
        The plot; None if no system arrived at any goal.
    """
    entries = [(race, *entry) for race in drawn for entry in race.ranked()]
    if all(one.seconds is None for _, _, one in entries):
        return None
    points = [(_kind(name, one), y, _number(one)) for y, (_, name, one) in enumerate(entries)]
    with mpl.rc_context(STYLE):
        chart, axes = new_figure(0.9 + 0.26 * len(entries))
        for index, (kind, marker) in enumerate(_KINDS.items()):
            draw_across(
                axes, [(y, number) for said, y, number in points if said == kind], index, kind, marker
            )
        for y, ((race, *_), (next_race, *_)) in enumerate(pairwise(entries)):
            if race is not next_race:
                axes.axhline(y + 0.5, color=GRID, linewidth=1.2)
        names = [f"{race.name}, {name}: {one.arrived}/{one.seeds}" for race, name, one in entries]
        axes.set_yticks(range(len(entries)), names)
        axes.set(xlabel=f"seconds ({Provenance.MEASURED})", ylim=(len(entries) - 0.4, -0.6))
        logarithmic(axes.xaxis, ends_of(number for _, _, number in points), plain)
        legend_below(axes)
    goals = ", ".join(f"{race.threshold:g} on {race.name}" for race in drawn)
    return svg(chart, "seconds-to-a-return", f"seconds until half of the seeds held a return of {goals}")


def _kind(system: str, arrival: Arrival) -> str:
    ours, other, never = _KINDS
    return never if arrival.seconds is None else ours if system == OURS else other


def _number(arrival: Arrival) -> Number:
    """Return the time of an arrival with its interval; of one that is not known, the time that was not enough."""
    if arrival.seconds is None:
        return Number("seconds", arrival.budget_s, "s", Provenance.MEASURED)
    return Number("seconds", arrival.seconds, "s", Provenance.MEASURED, low=arrival.low, high=arrival.high)
