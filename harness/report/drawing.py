"""Draws plots as inline SVG, which follows the page's light or dark colours and needs no file or network.

Series differ by colour, marker and line style, so that no plot depends on colour alone. The style sheet defines
the colours (`--series-1` ...), after Okabe and Ito's palette for colour-blind readers.
"""

import hashlib
import io
import math
import re
from typing import Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from placerl.harness.papers.drawing import GRID, INK, SERIES

# Placeholder colours; the finished SVG has the style sheet's names in their place.
_COLOURS = {f"#fe00{n:02x}": f"var(--series-{n})" for n in range(1, SERIES + 1)}
LEAST_TEXT_PX = 9.0  # on a phone: a plot whose text would be smaller is scrolled instead
_POINTS = 72  # units of matplotlib's SVG per inch
_DIGITS = 2  # of coordinates after the point
_COLOURS |= {INK: "currentColor", GRID: "var(--rule)"}
STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar sign in a name is not mathematics
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.edgecolor": GRID,
    "axes.formatter.useoffset": False,  # ticks show whole numbers, not offsets
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color"), INK),
}


def svg(figure: Figure, name: str | None, description: str) -> Markup:
    """Return a figure as an `<svg>` element within a `<div>` that scrolls if its text would be too small to read.

    Args:
        name: any text that is unique on the page; it separates the ids in this plot from those in others. None: what
            is drawn names it, so that equal figures are equal text but for their descriptions (`same_drawing`).
    """
    buffer = io.StringIO()
    with mpl.rc_context(STYLE | {"svg.hashsalt": name or "drawn"}):
        _lay_out(figure)
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
    text = _compact(text)
    prefix = f"plot-{hashlib.sha256((name or text).encode()).hexdigest()[:12]}"
    text = re.sub(r'id="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'(href="#|url\(#)', rf"\1{prefix}-", text)
    text = re.sub(r'<svg ([^>]*?)width="[^"]+" height="[^"]+"', r"<svg \1", text, count=1)
    opened = Markup('<svg role="img" aria-label="{}" style="--least-width: {}px" ')
    label = opened.format(description, _least_width_px(figure, text))
    drawn = text.replace("<svg ", label, 1).strip()  # matplotlib escapes the texts in the drawing
    return Markup(f'<div class="plot">{drawn}</div>')


def same_drawing(plot: Markup) -> str:
    """Return what is equal for plots without a name that show the same: all but the description."""
    return re.sub(r' aria-label="[^"]*"', "", plot, count=1)


def _compact(text: str) -> str:
    """Return an SVG of matplotlib's without what no reader sees, which is more than half of it.

    Left out are white space, digits below a hundredth of a pixel, ids that nothing refers to, rotations by zero
    degrees, and fonts, which are the page's. Marks of one group that look alike get their looks from the group.
    """
    text = re.sub(r"font: ([\d.]+)px [^;\"]+", r"font-size: \1px", text)
    text = re.sub(r" font-family: [^;\"]+;", "", text)
    text = re.sub(r' (d|x|y|width|height|transform)="([^"]*)"', _with_short_numbers, text)
    text = re.sub(r' transform="rotate\(-?0 [^"]*"', "", text)
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda match: match[0] if match[1] in used else "", text)
    text = re.sub(r">\s+<", "><", text)
    return re.sub(r"<g([^>]*)>((?:<use [^>]*/>)+)</g>", _with_looks_of_the_group, text)


def _with_short_numbers(attribute: re.Match[str]) -> str:
    """Return an attribute with its lines joined, and its numbers, unless they are factors, with `_DIGITS` digits."""
    joined = re.sub(r"\s*\n", " ", attribute[2]).strip()
    if "scale" in joined or "matrix" in joined:
        return f' {attribute[1]}="{joined}"'
    short = re.sub(
        r"-?\d+\.\d+", lambda n: f"{float(n[0]):.{_DIGITS}f}".rstrip("0").removesuffix("."), joined
    )
    return f' {attribute[1]}="{short}"'


def _with_looks_of_the_group(group: re.Match[str]) -> str:
    """Return a group of marks with their style, if they share one, at the group."""
    attributes, marks = group.groups()
    style, *others = set(re.findall(r' style="[^"]*"', marks)) or {""}
    if others or marks.count("<use ") != marks.count(style or "<use ") or "style=" in attributes:
        return group[0]
    return f"<g{attributes}{style}>{marks.replace(style, '')}</g>"


def _lay_out(figure: Figure) -> None:
    """Place the parts of a figure; without this, saving it draws it twice, the first time to find their places."""
    if engine := figure.get_layout_engine():
        FigureCanvasSVG(figure)  # texts are as large as in the file
        engine.execute(figure)
        figure.set_layout_engine(None)


def _least_width_px(figure: Figure, text: str) -> int:
    """Return the width at which the smallest text of the SVG has `LEAST_TEXT_PX`."""
    smallest = min(map(float, re.findall(r"font-size: ([\d.]+)px", text)), default=LEAST_TEXT_PX)
    return math.ceil(figure.get_figwidth() * _POINTS * LEAST_TEXT_PX / smallest)
