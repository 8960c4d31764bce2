"""Defines colours, marks and axes of the report's plots and of the papers' figures.

Colours are placeholders, which the page replaces by those of its style sheet (`harness.report.drawing`).
"""

import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from placerl.harness.papers.number import Number, format_value

SERIES = 7
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", "-", "--", "-.")
WIDTH_IN = 4.4
"""Width of every figure: at the width of a phone its text can still be read."""
LEGEND_LINE_IN, LEGEND_CHARACTERS = 0.18, 52
LEGEND_HANDLE_IN, LEGEND_CHARACTER_IN = 0.5, 0.07  # widths of a line sample with its gaps, and of a character
INK, GRID = "#fe0100", "#fe0200"


def colour(index: int) -> str:
    """Return the colour of a series by its index, as a placeholder for one of the page's colours.

    The colours repeat after the last.
    """
    return f"#fe00{index % SERIES + 1:02x}"


def marker(index: int) -> str:
    """Return the marker (shape of the points) of a series by its index; with the colour it differs for 49 series."""
    return MARKERS[(index + index // SERIES) % SERIES]


def legend_below(axes: Axes, columns: int = 2) -> None:
    """Place the legend below the label of the x axis, where it covers no data.

    The figure becomes higher by the legend's height.

    Args:
        columns: most columns of the legend; it has one if its labels are too long for more.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    legend_of(figure, *axes.get_legend_handles_labels(), columns)


def legend_of(figure: Figure, handles: Sequence[Any], labels: Sequence[str], columns: int = 2) -> None:
    """Place a legend below a figure, which becomes higher by the legend's height."""
    wrapped = [
        "\n".join(line for part in label.splitlines() for line in textwrap.wrap(part, LEGEND_CHARACTERS))
        for label in labels
    ]
    longest = max((len(line) for label in wrapped for line in label.splitlines()), default=0)
    if columns * (LEGEND_HANDLE_IN + LEGEND_CHARACTER_IN * longest) > figure.get_figwidth():
        columns = 1
    lines = sum(label.count("\n") + 1 for label in wrapped)
    figure.set_figheight(figure.get_figheight() + LEGEND_LINE_IN * -(-lines // columns))
    figure.legend(handles, wrapped, loc="outside lower center", ncols=columns)


def new_figure(height_in: float = 3.0) -> tuple[Figure, Axes]:
    """Return a figure of `WIDTH_IN` and the given height, in inches, and its axes."""
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    return figure, figure.add_subplot()


def seconds(value: float) -> str:
    """Return a time in seconds as text, in a readable unit: 0.0032 is "3.2 ms"."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale * 0.999:
            return f"{format_value(value / scale, 3)} {unit}"
    return f"{format_value(value / 1e-9, 3)} ns"


def plain(value: float) -> str:
    """Return a number as text with three significant digits."""
    return format_value(value, 3)


def thousands(value: float) -> str:
    """Return a number as text with three significant digits and k, M or G: 100,000 is "100k"."""
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{plain(value / scale)}{unit}"
    return plain(value)


def logarithmic(axis: XAxis | YAxis, values: Sequence[float], label: Callable[[float], str]) -> None:
    """Make an axis logarithmic, with limits around the values and readable ticks.

    Args:
        values: values above 0 that it has to show. The upper limit is at least twice the lower one.
    """
    low, high = min(values), max(values)
    middle, half = np.sqrt(low * high), max(np.sqrt(high / low) * 1.15, np.sqrt(2))
    low, high = middle / half, middle * half
    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": (low, high)})
    decades = np.log10(high / low)
    finer = np.arange(1, 10, 0.5 if decades < 0.5 else 1)
    digits = finer if decades < 0.8 else (1, 2, 5) if decades < 1.8 else (1,)
    exponents = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [digit * 10.0**exponent for exponent in exponents for digit in digits]
    ticks = [tick for tick in ticks if low <= tick <= high]
    axis.set_ticks(ticks[:: max(1, round(len(ticks) / 6))])
    axis.set_major_formatter(FuncFormatter(lambda value, _: label(value)))
    axis.set_minor_locator(NullLocator())


def ends_of(numbers: Iterable[Number]) -> list[float]:
    """Return the values and interval bounds of numbers, without those at or below 0, for a logarithmic axis."""
    return [end for n in numbers for end in (n.low, n.value, n.high) if end is not None and end > 0]


def draw_across(
    axes: Axes, points: Sequence[tuple[float, Number]], index: int, label: str, mark: str = ""
) -> None:
    """Draw numbers from left to right with their intervals, each at its place on the y axis.

    Args:
        points: place and number of each; may be empty.
        index: the series, which has its colour and, unless `mark` is another, its marker.
    """
    if points:
        axes.errorbar(
            [number.value for _, number in points],
            [y for y, _ in points],
            xerr=errors([number for _, number in points]),
            label=label,
            color=colour(index),
            marker=mark or MARKERS[index],
            linestyle="none",
            capsize=2,
        )


def errors(numbers: Sequence[Number]) -> np.ndarray:
    """Return the distances of the intervals' bounds from the values, for error bars.

    Returns:
        (2, n) distances of the lower and of the upper bounds; 0 for a number without an interval.
    """
    low = [n.value - n.low if n.low is not None else 0.0 for n in numbers]
    high = [n.high - n.value if n.high is not None else 0.0 for n in numbers]
    return np.maximum(0.0, np.array([low, high]))
