"""Plots the report's tables; each plot shows the rows of one table."""

from collections.abc import Sequence
from itertools import product
from textwrap import shorten

import matplotlib as mpl
import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.papers import Verdict, charts
from placerl.harness.papers.charts import Panel
from placerl.harness.papers.device_figures import DeviceFigure
from placerl.harness.papers.drawing import (
    GRID,
    INK,
    LINES,
    MARKERS,
    SERIES,
    WIDTH_IN,
    colour,
    draw_across,
    ends_of,
    errors,
    legend_below,
    logarithmic,
    marker,
    new_figure,
    plain,
    thousands,
)
from placerl.harness.papers.number import Number
from placerl.harness.report.drawing import STYLE, svg
from placerl.harness.report.formatting import MARKS
from placerl.harness.report.names import people_s_name
from placerl.harness.report.rows.libraries import BaselineComparison
from placerl.harness.report.rows.mappings import HeatMap, PredictedThroughput
from placerl.harness.report.rows.primitives import PrimitiveTime
from placerl.harness.report.rows.trainings import TrainingCurve


def time_over_batch(workload: str, primitive: str, times: Sequence[PrimitiveTime]) -> Markup:
    """Plot the time of a call over the batch size, one line per backend and device, both axes logarithmic."""

    def series(t: PrimitiveTime) -> str:
        return t.backend if t.device in ("cpu", t.backend) else f"{t.backend} {t.device}"

    points: dict[tuple[str, str], list[tuple[int, Number]]] = {}
    for t in sorted(times, key=lambda t: (series(t), t.batch_size or 0)):
        if t.time is not None and t.batch_size is not None:
            points.setdefault((series(t), t.time.provenance), []).append((t.batch_size, t.time))
    lines = [charts.line(label, some) for (label, _), some in points.items()]
    name = people_s_name(primitive)
    with mpl.rc_context(STYLE):
        figure = charts.chart(Panel("batch size", "time per call (s)", lines, name, log_x=True, log_y=True))
    assert figure is not None, "of measured, simulated or modelled times"
    return svg(
        figure,
        f"time-{workload}-{primitive}",
        f"{workload}, {people_s_name(primitive)}: time per call over batch size",
    )


def predicted_against_achieved(predictions: Sequence[PredictedThroughput], limit_percent: float) -> Markup:
    """Plot predicted over achieved training throughput, with the line of equality and a band around it.

    Points whose achieved value is simulated or modelled are hollow. There is one series per workload.

    Args:
        predictions: predictions; those of mappings (placements of the training) that were not run are left out.
        limit_percent: half the width of the band, percent.
    """

    with mpl.rc_context(STYLE):
        figure, axes = new_figure(3.6)
        pairs = [(p, p.predicted, p.achieved) for p in predictions if p.achieved is not None]
        values = [n.value for _, *numbers in pairs for n in numbers]
        ends = np.array([min(values) / 1.5, max(values) * 1.5])
        axes.plot(ends, ends, color=INK, linewidth=0.5, label="equal")
        share = limit_percent / 100
        # On logarithmic axes a few percent are only a few points wide, so a narrow band must be darker than a
        # wide one.
        axes.fill_between(ends, ends * (1 - share), ends * (1 + share), color=INK, alpha=0.3, linewidth=0)
        names = sorted({p.workload for p, _, _ in pairs})
        provenances = [p for p in Provenance if any(achieved.provenance == p for _, _, achieved in pairs)]
        labelled = set[str]()
        for (index, name), provenance in product(enumerate(names), provenances):
            points = [pair for pair in pairs if (pair[0].workload, pair[2].provenance) == (name, provenance)]
            if not points:
                continue
            axes.errorbar(
                [achieved.value for _, _, achieved in points],
                [predicted.value for _, predicted, _ in points],
                xerr=errors([achieved for _, _, achieved in points]),
                label="" if name in labelled else name,
                color=colour(index),
                marker=marker(index),
                markerfacecolor=colour(index) if provenance == Provenance.MEASURED else "none",
                linestyle="none",
                capsize=2,
            )
            labelled.add(name)
        filled = [p for p in provenances if p == Provenance.MEASURED]
        hollow = [p for p in provenances if p != Provenance.MEASURED]
        kinds = "; ".join([*filled, *([f"hollow: {', '.join(hollow)}"] if hollow else [])])
        axes.set(xlabel=f"achieved GPS\n({kinds})", ylabel="predicted GPS (modelled)")
        for axis in (axes.xaxis, axes.yaxis):
            logarithmic(axis, values, plain)
        legend_below(axes)
    return svg(figure, "predicted-achieved", "predicted over achieved gradient steps per second")


def errors_by_model(predictions: Sequence[PredictedThroughput]) -> Markup | None:
    """Plot how far off each model's predictions are: quantiles of predicted over achieved, the best model on top.

    Args:
        predictions: predictions; those without an error are left out.

    Returns:
        The plot; None without an error.
    """
    ratios: dict[str, list[float]] = {}
    for p in predictions:
        if p.error is not None and p.error.value > -100:
            ratios.setdefault(p.strategy, []).append(1 + p.error.value / 100)
    if not ratios:
        return None
    ordered = sorted(ratios, key=lambda name: -float(np.median(np.abs(np.log(ratios[name])))))
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(1.0 + 0.27 * len(ordered))
        axes.axvline(1, color=INK, linewidth=0.5)
        quantiles = {name: np.quantile(ratios[name], (0.05, 0.25, 0.5, 0.75, 0.95)) for name in ordered}
        for row, name in enumerate(ordered):
            least, lower, middle, upper, most = quantiles[name]
            axes.plot((least, most), (row, row), color=colour(0), linewidth=1)
            axes.plot((lower, upper), (row, row), color=colour(0), linewidth=4, solid_capstyle="butt")
            axes.plot(middle, row, color=INK, marker="o", linestyle="none")
        axes.set_yticks(range(len(ordered)), [f"{name} ({len(ratios[name]):,})" for name in ordered])
        axes.set(xlabel="predicted / achieved (modelled)")
        logarithmic(axes.xaxis, [value for ends in quantiles.values() for value in ends], plain)
    return svg(figure, "errors-by-model", "predicted over achieved gradient steps per second of each model")


_LONGEST_IN_A_CELL = 7
"""Characters of a line of text that fit a cell of four columns."""


def heat_map(throughputs: HeatMap) -> Markup:
    """Plot the training throughput of every mapping as a share of the best mapping's at each batch size.

    Marks show the mapping that the performance model chose and the best one, throughputs that are too noisy, and those
    that are not measured.
    """
    shape = len(throughputs.mappings), len(throughputs.batch_sizes)
    shares = np.full(shape, np.nan)
    for (mapping, size), number in throughputs.achieved.items():
        place = throughputs.mappings.index(mapping), throughputs.batch_sizes.index(size)
        # A mapping that was dropped as slower may have met faster rounds.
        shares[place] = min(1.0, number.value / throughputs.achieved[throughputs.best(size), size].value)
    with mpl.rc_context(STYLE | {"axes.grid": False}):
        figure, axes = new_figure(1.4 + 0.32 * shape[0])
        mesh = axes.pcolormesh(shares, cmap="cividis", vmin=0, vmax=1, edgecolor=GRID, linewidth=0.5)
        for (mapping, size), number in throughputs.achieved.items():
            row, column = throughputs.mappings.index(mapping), throughputs.batch_sizes.index(size)
            marks = "" if number.provenance == Provenance.MEASURED else MARKS[number.provenance]
            marks += "★" if mapping == throughputs.best(size) else ""
            marks += "◇" if mapping == throughputs.chosen.get(size) else ""
            ink = "black" if shares[row, column] > 0.5 else "white"
            noise = "~" if (mapping, size) in throughputs.noisy else ""
            text = f"{noise}{plain(number.value)}"
            text += ("\n" if len(f"{text} {marks}") > _LONGEST_IN_A_CELL else " ") * bool(marks) + marks
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=8.5, color=ink)
        axes.set_xticks(np.arange(shape[1]) + 0.5, [f"{size:,}" for size in throughputs.batch_sizes])
        axes.set_yticks(np.arange(shape[0]) + 0.5, throughputs.mappings)
        axes.set(title=f"{throughputs.workload}, {throughputs.devices}", xlabel="batch size")
        figure.colorbar(mesh, ax=axes, label="share of the best", location="bottom", aspect=30)
    name = f"{throughputs.workload}, devices {throughputs.devices}"
    return svg(figure, f"heat-{name}", f"{name}: throughput of each mapping at each batch size")


def chosen_not_run(throughputs: HeatMap) -> str:
    """Return a sentence for each mapping that the performance model chose but that was not run.

    Such a mapping has no mark on the heat map. The text is empty if all were run.
    """
    sizes_of: dict[str, list[str]] = {}
    for size in throughputs.batch_sizes:
        mapping = throughputs.chosen.get(size)
        if mapping is not None and (mapping, size) not in throughputs.achieved:
            sizes_of.setdefault(mapping, []).append(f"{size:,}")
    lines = [
        f"Chosen mapping {mapping} was not run at batch size {', '.join(sizes)}."
        for mapping, sizes in sizes_of.items()
    ]
    return " ".join(lines)


def gains(comparisons: Sequence[BaselineComparison]) -> Markup:
    """Plot this project's throughput over that of each other library, with its interval.

    Next to it is the ratio of two timings of this project in the same rounds, which shows the noise (the A/A null).

    Args:
        comparisons: comparisons; those without a ratio are left out.
    """
    shown = [c for c in comparisons if c.ratio is not None]
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(0.9 + 0.5 * len(shown))
        for offset, index, label in ((0.12, 0, "this project / baseline"), (-0.18, 1, "A/A null")):
            points = [
                (len(shown) - 1 - place + offset, n)
                for place, c in enumerate(shown)
                if (n := c.null if index else c.ratio) is not None
            ]
            draw_across(axes, points, index, label)
        axes.axvline(1, color=INK, linewidth=1)
        axes.set_yticks(
            range(len(shown)), [f"{c.workload}\n{c.baseline}, batch {c.batch_size}" for c in reversed(shown)]
        )
        axes.set(xlabel="throughput over the baseline's")
        axes.set_ylim(-0.6, len(shown) - 0.4)
        ends = ends_of(n for c in shown for n in (c.ratio, c.null) if n is not None)
        logarithmic(axes.xaxis, [1.0, *ends], plain)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return svg(figure, "gains", "throughput of this project over each baseline's")


def rates(comparisons: Sequence[BaselineComparison]) -> Markup:
    """Plot the rates of this project and of other libraries, and write next to each pair what both had learnt.

    Args:
        comparisons: comparisons with a ratio, at least one.
    """
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(0.9 + 0.5 * len(comparisons))
        places = range(len(comparisons) - 1, -1, -1)
        for index, label in enumerate(("this project", "the other library")):
            drawn = [
                (y, number)
                for y, c in zip(places, comparisons, strict=True)
                if (number := c.theirs if index else c.ours) is not None
            ]
            draw_across(axes, drawn, index, label)
        axes.set_yticks(places, [f"{c.workload}, {c.baseline}\n{_learnt(c)}" for c in comparisons])
        both = [number for c in comparisons for number in (c.ours, c.theirs) if number is not None]
        counted = " or ".join(sorted({c.rate for c in comparisons}))
        of = weakest(*(number.provenance for number in both))
        axes.set(xlabel=f"{counted}/s ({of})", ylim=(-0.6, len(comparisons) - 0.4))
        logarithmic(axes.xaxis, ends_of(both), thousands)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return svg(
        figure, "rates", "training rates of this project and of other libraries, with what both learnt"
    )


def _learnt(compared: BaselineComparison) -> str:
    """Return the mean returns of both sides after the same steps, in words."""
    ours, theirs = compared.our_return, compared.their_return
    if ours is None or theirs is None:
        return "returns not compared"
    return f"return {ours.value:.3g}, theirs {theirs.value:.3g}"


MOST_EPISODES = 400
"""Most episodes of a learning curve that are drawn one by one, limited by the room of a plot.

The hundreds of thousands of episodes of a training of minutes would make a page that no browser opens.
"""
_MOST_STRETCHES, _EPISODES_A_STRETCH = 200, 20  # on average


def learning_curves(workload: str, curves: Sequence[TrainingCurve], window: int) -> Markup:
    """Plot the episode return over environment steps, one line per training run.

    Up to 400 episodes (`MOST_EPISODES`) are drawn faintly, with a line for the mean of the last `window` episodes. If
    there are more, the line is the mean over stretches of equally many environment steps, and a faint band shows the
    5th to 95th percentile of the episodes in each stretch. The legend states the provenances if there are several.
    """
    with mpl.rc_context(STYLE):
        figure, axes = new_figure()
        kinds = {curve.last.provenance for curve in curves}
        for index, curve in enumerate(curves):
            shade, steps, returns = colour(index), np.array(curve.environment_steps), np.array(curve.returns)
            if len(returns) > MOST_EPISODES:
                stretches = min(_MOST_STRETCHES, len(returns) // _EPISODES_A_STRETCH)
                ends = np.linspace(steps[0], steps[-1], stretches + 1)[1:-1]
                edges = np.searchsorted(steps, ends, "right")
                some = [of for of in np.split(returns, edges) if len(of)]
                steps = np.array([of[-1] for of in np.split(steps, edges) if len(of)])
                low, high = zip(*(np.quantile(of, (0.05, 0.95)) for of in some), strict=True)
                axes.fill_between(steps, low, high, color=shade, alpha=0.2, linewidth=0)
            else:
                some = [returns[max(0, end - window) : end] for end in range(1, len(returns) + 1)]
                axes.plot(
                    steps, returns, marker(index), color=shade, markersize=2, linestyle="none", alpha=0.35
                )
            means = [float(np.mean(of)) for of in some]
            label = curve.system if curve.seed is None else f"{curve.system}, seed {curve.seed}"
            label += f" ({curve.last.provenance})" if len(kinds) > 1 else ""
            axes.plot(steps, means, color=shade, label=label, linestyle=LINES[index % SERIES])
        axes.set(title=workload, xlabel="environment steps", ylabel="episode return")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: thousands(value)))
        axes.xaxis.set_major_locator(MaxNLocator(6))
        legend_below(axes, columns=1)
    return svg(figure, f"curve-{workload}", f"{workload}: episode return over environment steps")


def of_devices(figure: DeviceFigure) -> Markup | None:
    """Return the plots of a figure's tables of CPU, GPU and FPGA as one SVG; None if no table has one."""
    panels = [panel for table in figure.tables if (panel := table.panel())]
    with mpl.rc_context(STYLE):
        drawn = charts.chart(*panels)
        if drawn is None:
            return None
        return svg(drawn, f"devices-{figure.key}", f"{figure.place}: CPU, GPU and FPGA")


def in_the_paper_s_axes(verdict: Verdict, rows: pd.DataFrame) -> Markup | None:
    """Return the figure that a claim (a statement of a paper) draws in the axes of the paper's own figure.

    Returns:
        The figure as SVG; None if the claim defines no figure, or if the measurements are not sufficient.
    """
    with mpl.rc_context(STYLE):
        figure = verdict.claim.draw(rows)
        if figure is None:
            return None
        return svg(figure, None, f"{verdict.place}: {verdict.statement}")


_NAMED_LINE_IN = 0.36
"""Height of a number with its name above it."""


def published_and_ours(verdict: Verdict) -> Markup | None:
    """Plot the paper's numbers for a claim (a statement of the paper) and this project's, with one axis per unit.

    Returns:
        The plot as SVG; None if no number of this project has the unit of a published one.
    """
    published, ours = verdict.claim.published, verdict.finding.ours
    units = [u for u in dict.fromkeys(n.unit for n in published) if any(n.unit == u for n in ours)]
    panels = [([n for n in published if n.unit == u], [n for n in ours if n.unit == u], u) for u in units]
    if not panels:
        return None
    heights = [len(theirs) + len(mine) for theirs, mine, _ in panels]  # in lines, each with its name above it
    with mpl.rc_context(STYLE):
        size = (WIDTH_IN, 0.7 * len(panels) + _NAMED_LINE_IN * sum(heights))
        figure = Figure(figsize=size, layout="constrained")
        every = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (theirs, mine, unit) in zip(every, panels, strict=True):
            numbers = [*theirs, *mine]
            for index, group, start in ((1, theirs, 0), (0, mine, len(theirs))):
                axes.errorbar(
                    [n.value for n in group],
                    [len(numbers) - 1 - start - place for place in range(len(group))],
                    xerr=errors(group),
                    color=colour(index),
                    marker=MARKERS[index],
                    linestyle="none",
                    capsize=2,
                )
            for place, n in enumerate(reversed(numbers)):
                name = f"{shorten(n.quantity, 48, placeholder=' ...')} ({n.provenance})"
                above = axes.get_yaxis_transform()  # from the left edge of the axes
                axes.text(0, place + 0.22, name, transform=above, fontsize=8.5, va="bottom")
            axes.set_yticks([])
            axes.set(xlabel=unit, ylim=(-0.4, len(numbers) - 0.1))
            values = ends_of(numbers)
            if values and min(n.value for n in numbers) > 0 and max(values) > 10 * min(values):
                logarithmic(axes.xaxis, values, plain)
    return svg(figure, f"claim-{verdict.key}", f"{verdict.key}: the paper's numbers and this project's")
