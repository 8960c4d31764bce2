"""Drawing as SVG that is part of the page: it follows the page's light or dark colours and needs no file or network.

Series differ by colour, marker and line style, so that no plot depends on colour alone. The colours are named by
the style sheet (`--series-1` ...), after Okabe and Ito's palette for colour-blind readers.
"""

import hashlib
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from harness.papers.number import Number, format_value

SERIES = 7
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", "-", "--", "-.")
# Stand-ins for colours of the style sheet; exchanged for their names in the finished SVG.
_COLOURS = {f"#fe00{n:02x}": f"var(--series-{n})" for n in range(1, SERIES + 1)}
LEGEND_LINE_IN = 0.18
LEAST_TEXT_PX = 9.0  # of a phone: a plot that would be drawn with smaller text is scrolled instead
_POINTS = 72  # units of an SVG of matplotlib in an inch
INK, GRID = "#fe0100", "#fe0200"
_COLOURS |= {INK: "currentColor", GRID: "var(--rule)"}
STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.edgecolor": GRID,
    "axes.formatter.useoffset": False,  # a tick is a number, not what must be added to another
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color"), INK),
}


def colour(index: int) -> str:
    """The stand-in for the colour of a series; after the last the first comes again."""
    return f"#fe00{index % SERIES + 1:02x}"


def marker(index: int) -> str:
    """The marker of a series: after the last colour others come with the first, so that 49 series differ."""
    return MARKERS[(index + index // SERIES) % SERIES]


def legend_below(axes: Axes, columns: int = 2) -> None:
    """The legend under the axes' label, where it covers no data, in a figure that is higher by as much."""
    handles, labels = axes.get_legend_handles_labels()
    lines = sum(label.count("\n") + 1 for label in labels)
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.set_figheight(figure.get_figheight() + LEGEND_LINE_IN * -(-lines // columns))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def new_figure(width_in: float = 4.3, height_in: float = 3.0) -> tuple[Figure, Axes]:
    """A figure of that size, and its only axes."""
    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    return figure, figure.add_subplot()


def svg(figure: Figure, name: str, description: str) -> Markup:
    """The figure as an `<svg>` element, in an element that scrolls where its text would be too small to read.

    Args:
        figure: what was drawn.
        name: unique on the page; keeps the ids inside apart from those of the other plots. Any text.
        description: what a reader who cannot see it is told.
    """
    buffer = io.StringIO()
    prefix = f"plot-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    with mpl.rc_context(STYLE | {"svg.hashsalt": name}):
        figure.savefig(
            buffer,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for stand_in, name_of_colour in _COLOURS.items():
        text = text.replace(stand_in, name_of_colour)
    text = re.sub(r"font: ([\d.]+)px [^;\"]+", r"font-size: \1px", text)
    text = re.sub(r'id="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'(href="#|url\(#)', rf"\1{prefix}-", text)
    text = re.sub(r'<svg ([^>]*?)width="[^"]+" height="[^"]+"', r"<svg \1", text, count=1)
    opened = Markup('<svg role="img" aria-label="{}" style="--least-width: {}px" ')
    label = opened.format(description, _least_width_px(figure, text))
    drawn = text.replace("<svg ", label, 1).strip()  # matplotlib escapes what it draws
    return Markup(f'<div class="plot">{drawn}</div>')


def _least_width_px(figure: Figure, text: str) -> int:
    """How wide the SVG must be shown so that its smallest text has `LEAST_TEXT_PX`."""
    smallest = min(map(float, re.findall(r"font-size: ([\d.]+)px", text)), default=LEAST_TEXT_PX)
    return math.ceil(figure.get_figwidth() * _POINTS * LEAST_TEXT_PX / smallest)


def seconds(value: float) -> str:
    """A time in the unit in which it reads best."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale * 0.999:
            return f"{format_value(value / scale, 3)} {unit}"
    return f"{format_value(value / 1e-9, 3)} ns"


def plain(value: float) -> str:
    """Three digits of a number."""
    return format_value(value, 3)


def thousands(value: float) -> str:
    """A count in the unit in which it is short: 100,000 is "100k"."""
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{plain(value / scale)}{unit}"
    return plain(value)


def logarithmic(axis: XAxis | YAxis, values: Sequence[float], label: Callable[[float], str]) -> None:
    """Scales an axis logarithmically around the values, at least a factor of 2 wide, with readable ticks."""
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
    """Values and bounds above 0, which a logarithmic axis must hold."""
    return [end for n in numbers for end in (n.low, n.value, n.high) if end is not None and end > 0]


def errors(numbers: Sequence[Number]) -> np.ndarray:
    """(2, n) distances of the bounds from the values; 0 where there is no interval."""
    low = [n.value - n.low if n.low is not None else 0.0 for n in numbers]
    high = [n.high - n.value if n.high is not None else 0.0 for n in numbers]
    return np.maximum(0.0, np.array([low, high]))
