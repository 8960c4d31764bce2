"""Plots the roofline of one backend on one device: the device's upper limits, and each primitive's rate below them."""

from collections.abc import Sequence
from itertools import groupby

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes

from placerl.harness.papers.drawing import INK, colour, legend_below, logarithmic, marker, new_figure, plain
from placerl.harness.report.drawing import STYLE, svg
from placerl.harness.report.names import people_s_name
from placerl.harness.report.rows.primitives import PEAK, DeviceRoof, RooflinePoint

_ROOF_LINES = ("-", "--", "-.", ":")
PRIMITIVES = ("learner.step", "actor.infer", "sum_tree.sample", "sum_tree.update", "sum_tree.insert")


def roofline(points: Sequence[RooflinePoint], roofs: Sequence[DeviceRoof]) -> Markup | None:
    """Plot the operations per second of primitives over their operations per byte, with the upper limits of the device.

    A primitive is a timed operation, such as `learner.step`.

    Returns:
        The plot as SVG; None if no point has operations per byte, because all primitives only move data.
    """
    placed = [(p, p.intensity.value, p.achieved.value) for p in points if p.intensity]
    if not placed:
        return None
    where = f"{placed[0][0].backend} on {placed[0][0].device}"
    x = [intensity for _, intensity, _ in placed]
    wide = np.array([min(x) / 2, max(x) * 4])
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(3.6)
        drawn = _draw_roofs(axes, roofs, wide)
        placed.sort(key=lambda item: _order(item[0].primitive))
        for primitive, group in groupby(placed, key=lambda item: item[0].primitive):
            index, some = _order(primitive), list(group)
            axes.plot(
                [intensity for _, intensity, _ in some],
                [rate for _, _, rate in some],
                color=colour(index),
                marker=marker(index),
                linestyle="none",
                label=people_s_name(primitive),
            )
        logarithmic(axes.xaxis, list(wide), plain)
        rates = [*drawn, *(rate for _, _, rate in placed)]
        logarithmic(axes.yaxis, [min(rates) / 1.5, max(rates) * 1.5], _operations)
        axes.set(title=where, xlabel="FLOP per byte (modelled)", ylabel="FLOP/s")
        legend_below(axes)
    return svg(figure, f"roofline-{where}", f"{where}: operations a second over operations for each byte")


def _order(primitive: str) -> int:
    return PRIMITIVES.index(primitive) if primitive in PRIMITIVES else len(PRIMITIVES)


def _draw_roofs(axes: Axes, roofs: Sequence[DeviceRoof], wide: np.ndarray) -> list[float]:
    """Draw the roofs; returns the rates at their ends."""
    peaks = {(roof.primitives, roof.workloads): roof.rate.value for roof in roofs if roof.name == PEAK}
    ends = [roof.rate.value for roof in roofs if roof.is_peak]
    for number, roof in enumerate(roofs):
        x, rates = wide, np.full(2, roof.rate.value)
        if not roof.is_peak:
            ridge = peaks.get((roof.primitives, roof.workloads), np.inf) / roof.rate.value
            x = np.array([wide[0], min(wide[1], ridge)])
            if x[0] >= x[1]:
                continue  # the peak is below the whole line
            rates = roof.rate.value * x
            ends.append(float(rates[0]))
        name = f"{people_s_name(roof.primitives)}: {roof.name}" if roof.primitives else roof.name
        alike = [r for r in roofs if (r.primitives, r.name) == (roof.primitives, roof.name)]
        if len(alike) > 1:
            name += "".join(f"\n{workload}" for workload in roof.workloads)
        axes.plot(x, rates, color=INK, linewidth=1, linestyle=_ROOF_LINES[number % 4], label=name)
    return ends


def _operations(value: float) -> str:
    for scale, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale * 0.999:
            return f"{plain(value / scale)}{unit}"
    return plain(value)
