"""Draws a paper's figures in its own axes: this project's points with their intervals, and the published numbers.

A figure's file defines the contents (`Panel`, `Line`), and `chart` draws them. The marks show the provenance: filled
is measured, hollow is simulated, hollow with a broken line is modelled; a cross or a star without a line is
published. Lines that differ only in provenance have one colour.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.papers.number import Number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_HEIGHT_IN = 2.9
_BROKEN = (0, (4, 2))
_PUBLISHED_MARKERS = ("x", "+", "*", "1")
_PUBLISHED_LINES = ((0, (1, 2)), (0, (4, 2)), (0, (7, 2, 1, 2)))

Place = float | str


@dataclass(frozen=True)
class Line:
    """One series of a chart, with one label.

    Attributes:
        label: label in the legend. Lines with the same label have the same colour in all panels of a chart.
        points: positions on the x axis, numbers or categories, each with its number.
    """

    label: str
    points: Sequence[tuple[Place, Number]]

    @property
    def provenance(self) -> Provenance:
        """Return the weakest provenance (measured, simulated, modelled or published) of the points' numbers."""
        return weakest(*(number.provenance for _, number in self.points))


@dataclass(frozen=True)
class Panel:
    """One pair of axes and its lines.

    Attributes:
        x, y: labels of the axes, with units.
        title: title, such as a workload; empty if the figure has one panel.
        log_x, log_y: whether the axis is logarithmic.
        published_x: up to three positions on the x axis that the paper names, each as (label, position), drawn as
            broken vertical lines.
        published_y: ranges of the y axis that the paper states, each as (label, low, high), drawn as grey bands.
    """

    x: str
    y: str
    lines: Sequence[Line]
    title: str = ""
    log_x: bool = False
    log_y: bool = False
    published_x: Sequence[tuple[str, float]] = ()
    published_y: Sequence[tuple[str, float, float]] = ()


Panels = Iterable[Panel]


def line(label: str, points: Iterable[tuple[Place, Number]]) -> Line:
    """Return a series of points for a chart, with its label in the legend.

    Args:
        label: label; the numbers' provenance, such as "simulated", is added to it unless all are measured.
    """
    series = Line(label, tuple(points))
    if not series.points or series.provenance is Provenance.MEASURED:
        return series
    return Line(f"{label} ({series.provenance})", series.points)


def chart(*panels: Panel) -> "Figure | None":
    """Return a figure with the given panels and one legend; None if no panel has a number of this project.

    The panels are stacked, so that the figure fits a phone.

    Args:
        panels: from top to bottom; panels with only published numbers are left out.
    """
    from matplotlib.figure import Figure

    from placerl.harness.papers import drawing

    shown = [panel for panel in panels if any(_ours(one) for one in panel.lines)]
    if not shown:
        return None
    figure = Figure(figsize=(drawing.WIDTH_IN, PANEL_HEIGHT_IN * len(shown) + 0.2), layout="constrained")
    every = figure.subplots(len(shown), 1, squeeze=False).ravel()
    labels = list(dict.fromkeys(one.label for panel in shown for one in panel.lines if one.points))
    for axes, panel in zip(every, shown, strict=False):
        _draw(axes, panel, labels)
    _legend(figure, every)
    return figure


def _ours(one: Line) -> bool:
    return any(number.provenance is not Provenance.PUBLISHED for _, number in one.points)


def _draw(axes: "Axes", panel: Panel, labels: list[str]) -> None:
    from placerl.harness.papers import drawing

    lines = [one for one in panel.lines if one.points]
    places = [place for one in lines for place, _ in one.points]
    categories = list(dict.fromkeys(map(str, places))) if any(isinstance(p, str) for p in places) else []
    for number, one in enumerate(lines):
        shift = 0.5 * ((number + 1) / (len(lines) + 1) - 0.5) if categories else 0.0
        xs = [categories.index(str(place)) + shift if categories else place for place, _ in one.points]
        numbers = [n for _, n in one.points]
        axes.errorbar(
            xs,
            [n.value for n in numbers],
            yerr=_errors(numbers, above_zero=panel.log_y),
            label=one.label,
            capsize=2,
            elinewidth=0.8,
            **_style(one, labels, joined=not categories),
        )
    for label, low, high in panel.published_y:
        axes.axhspan(low, high, color=drawing.INK, alpha=0.15, linewidth=0, label=label)
    for (label, place), dashes in zip(panel.published_x, _PUBLISHED_LINES, strict=False):
        axes.axvline(place, color=drawing.INK, linewidth=1.2, linestyle=dashes, label=label)
    axes.set(xlabel=panel.x, ylabel=panel.y, title=panel.title)
    _scales(axes, panel, lines, categories)


def _style(one: Line, labels: list[str], *, joined: bool) -> dict[str, Any]:
    from placerl.harness.papers import drawing

    names = [label for label in labels if label.endswith(f"({Provenance.PUBLISHED})")]
    ours = list(dict.fromkeys(_without_provenance(label) for label in labels if label not in names))
    twin = _without_provenance(one.label)
    if one.provenance is Provenance.PUBLISHED:
        return {
            "color": drawing.colour(ours.index(twin)) if twin in ours else drawing.INK,
            "marker": _PUBLISHED_MARKERS[names.index(one.label) % len(_PUBLISHED_MARKERS)],
            "markersize": 7,
            "linestyle": "none",
        }
    index = ours.index(twin)
    filled = one.provenance is Provenance.MEASURED
    line_style: Any = _BROKEN if one.provenance is Provenance.MODELLED else "-"
    return {
        "color": drawing.colour(index),
        "marker": drawing.marker(index),
        "markerfacecolor": drawing.colour(index) if filled else "none",
        "linestyle": line_style if joined else "none",
    }


def _without_provenance(label: str) -> str:
    """Return a label without the provenance that `line` added to it: lines that differ in it alone look alike."""
    name, _, added = label.removesuffix(")").rpartition(" (")
    return name if added in set(map(str, Provenance)) else label


def _errors(numbers: Sequence[Number], *, above_zero: bool) -> NDArray[np.float64]:
    """Return (2, n) distances of the bounds from the values, NaN if there are none.

    On a logarithmic axis no bound reaches 0.
    """
    from placerl.harness.papers import drawing

    distances = drawing.errors(numbers)
    distances[:, [n.low is None for n in numbers]] = np.nan  # no bar; a distance of 0 would draw one
    if above_zero:
        distances[0] = np.minimum(distances[0], 0.99 * np.array([n.value for n in numbers]))
    return distances


def _scales(axes: "Axes", panel: Panel, lines: Sequence[Line], categories: list[str]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    from placerl.harness.papers import drawing

    if categories:
        axes.set_xticks(range(len(categories)), categories)
        axes.set_xlim(-0.6, len(categories) - 0.4)
    elif panel.log_x:
        places = sorted({float(place) for one in lines for place, _ in one.points})
        axes.set_xscale("log")
        axes.set_xticks(places[:: -(-len(places) // 8)])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: drawing.thousands(value)))
    else:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: drawing.thousands(value)))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if panel.log_y:
        ends = drawing.ends_of(n for one in lines for _, n in one.points)
        ends += [end for _, *band in panel.published_y for end in band if end > 0]
        label = drawing.seconds if panel.y.endswith("(s)") else drawing.thousands
        drawing.logarithmic(axes.yaxis, ends, label)
    else:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: drawing.thousands(value)))


def _legend(figure: "Figure", every: Iterable["Axes"]) -> None:
    from placerl.harness.papers import drawing

    handles: dict[str, Any] = {}
    for axes in every:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    drawing.legend_of(figure, list(handles.values()), list(handles))
