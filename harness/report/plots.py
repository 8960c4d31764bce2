"""Plots as SVG that is part of the page: it follows the page's light or dark colours and needs no file or network.

Series differ by colour, marker and line style, so that no plot depends on colour alone. The colours are named by
the style sheet (`--series-1` ...), after Okabe and Ito's palette for colour-blind readers.
"""

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from textwrap import shorten
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from harness.claims import Verdict
from harness.claims.number import Number, format_value
from harness.provenance import Provenance
from harness.report.content import Comparison, Curve, HeatMap, Prediction, PrimitiveTime

SERIES = 7
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LINES = ("-", "--", "-.", ":", "-", "--", "-.")
# Stand-ins for colours of the style sheet; exchanged for their names in the finished SVG.
_COLOURS = {f"#fe00{n:02x}": f"var(--series-{n})" for n in range(1, SERIES + 1)}
_INK, _GRID = "#fe0100", "#fe0200"
_COLOURS |= {_INK: "currentColor", _GRID: "var(--rule)"}
_STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "axes.edgecolor": _GRID,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color"), _INK),
}


def _colour(index: int) -> str:
    return f"#fe00{index % SERIES + 1:02x}"


def _figure(width_in: float = 4.3, height_in: float = 3.0) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    return figure, figure.add_subplot()


def _svg(figure: Figure, name: str, description: str) -> Markup:
    """The figure as an `<svg>` element.

    Args:
        figure: what was drawn.
        name: unique on the page; keeps the ids inside apart from those of the other plots. Any text.
        description: what a reader who cannot see it is told.
    """
    buffer = io.StringIO()
    prefix = f"plot-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    with mpl.rc_context(_STYLE | {"svg.hashsalt": name}):
        figure.savefig(
            buffer,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for stand_in, colour in _COLOURS.items():
        text = text.replace(stand_in, colour)
    text = re.sub(r"font: ([\d.]+)px [^;\"]+", r"font-size: \1px", text)
    text = re.sub(r'id="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'(href="#|url\(#)', rf"\1{prefix}-", text)
    text = re.sub(r'<svg ([^>]*?)width="[^"]+" height="[^"]+"', r"<svg \1", text, count=1)
    label = Markup('<svg role="img" aria-label="{}" ').format(description)
    return Markup(text.replace("<svg ", label, 1).strip())  # matplotlib escapes what it draws


def _seconds(value: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale * 0.999:
            return f"{format_value(value / scale, 3)} {unit}"
    return f"{format_value(value / 1e-9, 3)} ns"


def _plain(value: float) -> str:
    return format_value(value, 3)


def _logarithmic(axis: XAxis | YAxis, values: Sequence[float], label: Callable[[float], str]) -> None:
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


def _ends(numbers: Iterable[Number]) -> list[float]:
    """Values and bounds above 0, which a logarithmic axis must hold."""
    return [end for n in numbers for end in (n.low, n.value, n.high) if end is not None and end > 0]


def _errors(numbers: Sequence[Number]) -> np.ndarray:
    """(2, n) distances of the bounds from the values; 0 where there is no interval."""
    low = [n.value - n.low if n.low is not None else 0.0 for n in numbers]
    high = [n.high - n.value if n.high is not None else 0.0 for n in numbers]
    return np.maximum(0.0, np.array([low, high]))


def time_over_batch(workload: str, primitive: str, times: Sequence[PrimitiveTime]) -> Markup:
    """Time of a call over the batch size, a line for each backend and device, both axes logarithmic."""
    with mpl.rc_context(_STYLE):
        figure, axes = _figure()
        timed = [t for t in times if t.time is not None and t.batch_size is not None]

        def series(t: PrimitiveTime) -> str:
            device = "" if t.device in ("cpu", t.backend) else t.device
            mark = f"({t.time.provenance})" if t.time and t.time.provenance != Provenance.MEASURED else ""
            return " ".join(filter(None, (t.backend, t.variant, device, mark)))

        timed.sort(key=lambda t: (series(t), t.batch_size or 0))
        for index, (label, group) in enumerate(groupby(timed, key=series)):
            points = list(group)
            numbers = [t.time for t in points if t.time is not None]
            axes.errorbar(
                [t.batch_size or 0 for t in points],
                [n.value for n in numbers],
                yerr=_errors(numbers),
                label=label,
                color=_colour(index),
                marker=_MARKERS[index % SERIES],
                linestyle=_LINES[index % SERIES],
                capsize=2,
            )
        axes.set(title=primitive, xlabel="batch size", ylabel="time per call", xscale="log")
        axes.set_xticks(sorted({t.batch_size or 0 for t in timed}))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
        axes.xaxis.set_minor_locator(NullLocator())
        _logarithmic(axes.yaxis, _ends(t.time for t in timed if t.time is not None), _seconds)
        axes.legend()
    return _svg(
        figure, f"time-{workload}-{primitive}", f"{workload}, {primitive}: time per call over batch size"
    )


def predicted_against_achieved(predictions: Sequence[Prediction], limit_percent: float) -> Markup:
    """Predicted over achieved throughput, with the line where they are equal and a band of that many percent."""
    with mpl.rc_context(_STYLE):
        figure, axes = _figure(4.3, 3.6)
        pairs = [(p, p.predicted, p.achieved) for p in predictions if p.achieved is not None]
        values = [n.value for _, *numbers in pairs for n in numbers]
        ends = np.array([min(values) / 1.5, max(values) * 1.5])
        axes.plot(ends, ends, color=_INK, linewidth=1, label="equal")
        share = limit_percent / 100
        axes.fill_between(ends, ends * (1 - share), ends * (1 + share), color=_INK, alpha=0.12, linewidth=0)
        pairs.sort(key=lambda pair: pair[0].strategy)
        for index, (strategy, group) in enumerate(groupby(pairs, key=lambda pair: pair[0].strategy)):
            points = list(group)
            axes.errorbar(
                [achieved.value for _, _, achieved in points],
                [predicted.value for _, predicted, _ in points],
                xerr=_errors([achieved for _, _, achieved in points]),
                label=strategy,
                color=_colour(index),
                marker=_MARKERS[index % SERIES],
                linestyle="none",
                capsize=2,
            )
        axes.set(xlabel="achieved GPS (measured)", ylabel="predicted GPS (modelled)")
        for axis in (axes.xaxis, axes.yaxis):
            _logarithmic(axis, values, _plain)
        axes.legend()
    return _svg(figure, "predicted-achieved", "predicted over achieved gradient steps per second")


def heat_map(found: HeatMap) -> Markup:
    """Throughput of every mapping as a share of the best at its batch size; the chosen and the best are marked."""
    shape = len(found.mappings), len(found.batch_sizes)
    shares = np.full(shape, np.nan)
    for (mapping, size), number in found.achieved.items():
        place = found.mappings.index(mapping), found.batch_sizes.index(size)
        shares[place] = number.value / found.achieved[found.best(size), size].value
    with mpl.rc_context(_STYLE | {"axes.grid": False}):
        figure, axes = _figure(2.6 + 0.95 * shape[1], 1.0 + 0.32 * shape[0])
        mesh = axes.pcolormesh(shares, cmap="cividis", vmin=0, vmax=1, edgecolor=_GRID, linewidth=0.5)
        for (mapping, size), number in found.achieved.items():
            row, column = found.mappings.index(mapping), found.batch_sizes.index(size)
            marks = ("★" if mapping == found.best(size) else "") + (
                "◇" if mapping == found.chosen.get(size) else ""
            )
            ink = "black" if shares[row, column] > 0.5 else "white"
            text = f"{_plain(number.value)} {marks}".strip()
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=8, color=ink)
        axes.set_xticks(np.arange(shape[1]) + 0.5, [f"{size:,}" for size in found.batch_sizes])
        axes.set_yticks(np.arange(shape[0]) + 0.5, found.mappings)
        axes.set(title=found.workload, xlabel="batch size")
        figure.colorbar(mesh, ax=axes, label="share of the best")
    return _svg(
        figure, f"heat-{found.workload}", f"{found.workload}: throughput of each mapping at each batch size"
    )


def gains(comparisons: Sequence[Comparison]) -> Markup:
    """Throughput over each baseline's with its interval, beside the A/A null."""
    shown = [c for c in comparisons if c.ratio is not None]
    with mpl.rc_context(_STYLE):
        figure, axes = _figure(4.3, 0.9 + 0.5 * len(shown))
        for offset, index, label in ((0.12, 0, "this project / baseline"), (-0.18, 1, "A/A null")):
            points = [
                (len(shown) - 1 - place + offset, n)
                for place, c in enumerate(shown)
                if (n := c.null if index else c.ratio) is not None
            ]
            if points:
                axes.errorbar(
                    [n.value for _, n in points],
                    [y for y, _ in points],
                    xerr=_errors([n for _, n in points]),
                    label=label,
                    color=_colour(index),
                    marker=_MARKERS[index],
                    linestyle="none",
                    capsize=2,
                )
        axes.axvline(1, color=_INK, linewidth=1)
        axes.set_yticks(
            range(len(shown)), [f"{c.workload}\n{c.baseline}, batch {c.batch_size}" for c in reversed(shown)]
        )
        axes.set(xlabel="throughput over the baseline's; above 1: faster")
        axes.set_ylim(-0.6, len(shown) - 0.4)
        ends = _ends(n for c in shown for n in (c.ratio, c.null) if n is not None)
        _logarithmic(axes.xaxis, [1.0, *ends], _plain)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return _svg(figure, "gains", "throughput of this project over each baseline's")


def learning_curves(workload: str, curves: Sequence[Curve], window: int) -> Markup:
    """Episode return over environment steps: every episode faint, and the mean of the last `window` episodes."""
    with mpl.rc_context(_STYLE):
        figure, axes = _figure()
        for index, curve in enumerate(curves):
            colour = _colour(index)
            axes.plot(
                curve.environment_steps,
                curve.returns,
                color=colour,
                marker=_MARKERS[index % SERIES],
                markersize=2,
                linestyle="none",
                alpha=0.35,
            )
            means = [
                np.mean(curve.returns[max(0, i - window + 1) : i + 1]) for i in range(len(curve.returns))
            ]
            label = curve.system if curve.seed is None else f"{curve.system}, seed {curve.seed}"
            axes.plot(
                curve.environment_steps, means, color=colour, label=label, linestyle=_LINES[index % SERIES]
            )
        axes.set(title=workload, xlabel="environment steps", ylabel="episode return")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
        axes.legend()
    return _svg(figure, f"curve-{workload}", f"{workload}: episode return over environment steps")


def published_and_ours(verdict: Verdict) -> Markup | None:
    """A claim's numbers and this project's on one axis for each unit; None where there is nothing to set beside."""
    published, ours = verdict.claim.published, verdict.finding.ours
    units = [u for u in dict.fromkeys(n.unit for n in published) if any(n.unit == u for n in ours)]
    panels = [([n for n in published if n.unit == u], [n for n in ours if n.unit == u], u) for u in units]
    if not panels:
        return None
    heights = [len(theirs) + len(mine) for theirs, mine, _ in panels]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7.2, 0.7 * len(panels) + 0.24 * sum(heights)), layout="constrained")
        every = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (theirs, mine, unit) in zip(every, panels, strict=True):
            numbers = [*theirs, *mine]
            for index, group, start in ((1, theirs, 0), (0, mine, len(theirs))):
                axes.errorbar(
                    [n.value for n in group],
                    [len(numbers) - 1 - start - place for place in range(len(group))],
                    xerr=_errors(group),
                    color=_colour(index),
                    marker=_MARKERS[index],
                    linestyle="none",
                    capsize=2,
                )
            names = [
                f"{shorten(n.quantity, 60, placeholder=' ...')} ({n.provenance})" for n in reversed(numbers)
            ]
            axes.set_yticks(range(len(numbers)), names)
            axes.set(xlabel=unit, ylim=(-0.7, len(numbers) - 0.3))
            values = _ends(numbers)
            if values and min(n.value for n in numbers) > 0 and max(values) > 10 * min(values):
                _logarithmic(axes.xaxis, values, _plain)
    return _svg(figure, f"claim-{verdict.key}", f"{verdict.key}: the paper's numbers beside this project's")
