"""What a reader must be able to tell apart in a plot, by the places of what was drawn."""

import math
import re
from dataclasses import replace
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.drawing import SERIES, WIDTH_IN, colour, marker, new_figure
from placerl.harness.papers.number import Number
from placerl.harness.report import plots, roofline_plot
from placerl.harness.report.drawing import LEAST_TEXT_PX, STYLE, same_drawing, svg
from placerl.harness.report.rows.libraries import BaselineComparison
from placerl.harness.report.rows.mappings import HeatMap, PredictedThroughput
from placerl.harness.report.rows.primitives import DeviceRoof, PrimitiveTime, RooflinePoint
from placerl.harness.report.rows.trainings import TrainingCurve


def gps(value: float, provenance: Provenance = Provenance.MEASURED) -> Number:
    return Number("GPS", value, "1/s", provenance)


def predicted(workload: str, achieved: Number, model: str = "pal21", off: float = 10) -> PredictedThroughput:
    rate, error = gps(achieved.value * 1.1, Provenance.MODELLED), Number("e", off, "%", Provenance.MODELLED)
    return PredictedThroughput(
        workload, 32, "native-native-cpu", model, (), "fused", rate, achieved, error, "ok", "ok"
    )


def curve(seed: int) -> TrainingCurve:
    steps = tuple(range(0, 750_000, 7_500))
    returns = tuple(500.0 for _ in steps)  # where a legend in the corner would lie on them
    return TrainingCurve("cartpole-dqn", "native-native-cpu", seed, steps, returns, gps(500.0))


def timed(backend: str, size: int) -> PrimitiveTime:
    time = Number("time", 1e-3, "s", Provenance.MEASURED)
    return PrimitiveTime("hopper-ddpg", "cold_round.collect", backend, "cpu", size, time, "ok", "")


def roof(workload: str, name: str, rate: float, primitives: str = "sum_tree") -> DeviceRoof:
    return DeviceRoof("fpga", (workload,), primitives, name, None, gps(rate), "ok")


def point(intensity: float) -> RooflinePoint:
    number, place = gps(intensity), ("hopper-ddpg", "sum_tree.sample", "fpga", "fpga", 32)
    return RooflinePoint(*place, number, number, number, number, number, None, "", None, "ok")


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """The figures of one plot of each kind that has a legend, laid out."""
    drawn: dict[str, Figure] = {}
    for module in (plots, roofline_plot):
        monkeypatch.setattr(module, "svg", lambda figure, name, _: drawn.update({name.split("-")[0]: figure}))
    workloads = [f"workload-{number}" for number in range(SERIES + 1)]
    plots.predicted_against_achieved([predicted(name, gps(100.0 + i)) for i, name in enumerate(workloads)], 5)
    plots.learning_curves("cartpole-dqn", [curve(seed) for seed in range(3)], 10)
    plots.time_over_batch(
        "hopper-ddpg", "x", [timed(b, s) for b in ("native", "flat", "torch") for s in (32, 256)]
    )
    rates = (("peak", 1e10), ("memory on the chip", 1e9))
    roofs = [roof(w, name, rate) for w in ("cartpole-dqn", "hopper-ddpg", "pong-dqn") for name, rate in rates]
    roofs += [roof("hopper-ddpg", name, rate, "learner.pipeline_step") for name, rate in rates]
    roofline_plot.roofline([point(1.0), point(100.0)], roofs)
    for figure in drawn.values():
        figure.draw_without_rendering()
    return drawn


def test_a_long_training_is_drawn_by_stretches_of_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dot and a mean of every episode made a page of 300 MB."""
    figures: list[Figure] = []

    def svg(figure: Figure, name: str, label: str) -> Markup:
        figures.append(figure)
        return original(figure, name, label)

    original = plots.svg
    monkeypatch.setattr(plots, "svg", svg)
    number = 100_000
    returns = tuple(20.0 + 180.0 * (i >= number // 2) + (i % 10 == 0) for i in range(number))
    steps = tuple(range(50, 50 * (number + 1), 50))
    long = TrainingCurve("cartpole-dqn", "native-native-cpu", 0, steps, returns, gps(500.0))
    assert len(plots.learning_curves("cartpole-dqn", [long], 10)) < 100_000
    (axes,) = figures[0].axes
    (line,) = axes.lines
    np.testing.assert_allclose(line.get_ydata()[[0, -1]], [20.1, 200.1])
    assert line.get_xdata()[-1] == steps[-1]
    assert len(axes.collections) == 1


def test_no_legend_lies_on_data_or_labels(figures: dict[str, Figure]) -> None:
    assert set(figures) == {"predicted", "curve", "time", "roofline"}
    for name, figure in figures.items():
        (axes,), (legend,) = figure.axes, figure.legends
        assert not legend.get_window_extent().overlaps(axes.get_tightbbox()), name
        assert axes.get_window_extent().height > 100, f"{name}: the legend leaves the data room"
        edges, box = figure.bbox, legend.get_window_extent()
        assert edges.x0 <= box.x0, name
        assert box.x1 <= edges.x1, name
        assert edges.y0 <= box.y0, name


def test_neighbouring_labels_of_steps_do_not_touch(figures: dict[str, Figure]) -> None:
    axes: Axes = figures["curve"].axes[0]
    low, high = axes.get_xlim()
    labels = [x for x in axes.get_xticklabels() if low <= x.get_position()[0] <= high]
    assert len(labels) > 3
    for left, right in pairwise(label.get_window_extent() for label in labels):
        assert left.x1 + 4 < right.x0


def test_models_are_ordered_by_how_far_off_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Figure] = []
    monkeypatch.setattr(plots, "svg", lambda figure, *_: kept.append(figure))
    errors = {"far": (100, 200, 300), "near": (-2, 0, 2), "between": (-50, -20, 0)}
    plots.errors_by_model(
        [predicted("w", gps(1.0), model, off) for model, several in errors.items() for off in several]
    )
    (axes,) = kept[0].axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["far (3)", "between (3)", "near (3)"]
    medians = [float(line.get_xdata()[0]) for line in axes.lines if line.get_linestyle() == "None"]
    assert medians == pytest.approx([3, 0.8, 1])
    assert plots.errors_by_model([]) is None


def test_more_workloads_than_colours_still_differ(figures: dict[str, Figure]) -> None:
    assert len({(colour(index), marker(index)) for index in range(SERIES**2)}) == SERIES**2
    handles, labels = figures["predicted"].axes[0].get_legend_handles_labels()
    drawn = {label: h[0] for label, h in zip(labels, handles, strict=True) if label != "equal"}
    assert len({(line.get_color(), line.get_marker()) for line in drawn.values()}) == len(drawn) == SERIES + 1


def test_what_was_simulated_is_hollow(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Figure] = []
    monkeypatch.setattr(plots, "svg", lambda figure, *_: kept.append(figure))
    hollow = (Provenance.SIMULATED, Provenance.MODELLED)
    all_kinds = [predicted("a", gps(100.0)), *(predicted("a", gps(200.0, kind)) for kind in hollow)]
    plots.predicted_against_achieved(all_kinds, 5)
    (axes,) = kept[0].axes
    faces = {float(np.asarray(h[0].get_xdata())[0]): h[0].get_markerfacecolor() for h in axes.containers}
    assert faces == {100.0: colour(0), 200.0: "none"}
    assert axes.get_xlabel() == "achieved GPS\n(measured; hollow: simulated, modelled)"
    label, whole = axes.xaxis.label.get_window_extent(), kept[0].bbox
    assert whole.x0 <= label.x0, "nothing is cut off"
    assert label.x1 <= whole.x1


def test_a_chosen_mapping_that_was_not_run_is_named_with_its_batch_sizes() -> None:
    mappings, sizes = ("native-native-cpu", "torch-flat-cpu"), (32, 256, 2048)
    achieved = {(mapping, size): gps(100.0) for mapping in mappings for size in sizes}
    del achieved["torch-flat-cpu", 2048]
    place = ("hopper-ddpg", "measured", "fused", sizes, mappings, achieved, frozenset[tuple[str, int]]())
    assert plots.chosen_not_run(HeatMap(*place, {32: "native-native-cpu", 256: "torch-flat-cpu"})) == ""
    chosen = {32: "torch-flat-cpu", 256: "fpga-fpga-cpu", 2048: "torch-flat-cpu", 8192: "native-native-cpu"}
    assert plots.chosen_not_run(HeatMap(*place, chosen)) == (
        "Chosen mapping fpga-fpga-cpu was not run at batch size 256. "
        "Chosen mapping torch-flat-cpu was not run at batch size 2,048."
    )


def test_the_label_of_the_gains_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Figure] = []
    monkeypatch.setattr(plots, "svg", lambda figure, *_: kept.append(figure))
    rates = gps(300.0), gps(3.0), gps(1.0), gps(1.0)
    plots.gains([BaselineComparison("cartpole-ddpg", 32, "rllib_2_6_3", *rates, "faster", "")])
    kept[0].draw_without_rendering()
    label = kept[0].axes[0].xaxis.label.get_window_extent()
    assert label.x1 <= kept[0].bbox.x1


def test_rates_stand_next_to_what_both_sides_learnt() -> None:
    rates = gps(300.0), gps(3.0), gps(100.0), gps(1.0)
    learnt = {"our_return": gps(194.0), "their_return": gps(236.0), "rate": "gradient steps"}
    compared = BaselineComparison("cartpole-ddpg", 32, "sb3", *rates, "faster", "", **learnt)
    drawn = plots.rates([compared, replace(compared, baseline="sbx", their_return=None)])
    texts = re.findall(r"<text [^>]*>([^<]+)</text>", drawn)
    assert {"cartpole-ddpg, sb3", "return 194, theirs 236", "cartpole-ddpg, sbx", "returns not compared"} <= {
        *texts
    }
    assert "gradient steps/s (measured)" in texts


def test_the_texts_of_a_heat_map_stay_in_their_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Figure] = []
    monkeypatch.setattr(plots, "svg", lambda figure, *_: kept.append(figure))
    names, sizes = ("fpga-fpga-fpga", "native-opencl-opencl"), (32, 256, 2048, 16384)
    rates = {(name, size): gps(66_025.0, Provenance.MODELLED) for name in names for size in sizes}
    chosen = dict.fromkeys(sizes, names[0])
    plots.heat_map(HeatMap("w", "here", "fused", sizes, names, rates, frozenset(rates), chosen))
    kept[0].draw_without_rendering()
    axes = kept[0].axes[0]
    texts = axes.texts
    assert texts[0].get_text() == "~66,025\n○★◇"
    width, height = axes.bbox.width / len(sizes), axes.bbox.height / len(names)
    for text in texts:
        assert text.get_window_extent().width < width
        assert text.get_window_extent().height < height


def test_a_plot_says_how_wide_it_must_be_for_its_smallest_text() -> None:
    with mpl.rc_context(STYLE):
        figure, axes = new_figure()
        axes.set_title("large", fontsize=12)
        axes.text(0.5, 0.5, "small", fontsize=6)
    assert f'style="--least-width: {math.ceil(WIDTH_IN * 72 * LEAST_TEXT_PX / 6)}px"' in svg(
        figure, "name", "said"
    )


def test_a_drawing_holds_only_what_is_seen() -> None:
    with mpl.rc_context(STYLE):
        figure, axes = new_figure()
        axes.plot([0.0, 1 / 3, 1.0], [1 / 7, 2 / 3, 1.0], "o-", color=colour(0), label="ours")
        axes.set(xlabel='x, "1.23456" and  wide', ylabel="upright")
        drawn = svg(figure, "name", "said")
    text = re.sub(r"<text [^>]*>[^<]*</text>", "", drawn)
    assert not re.findall(r">\s+<|\n|font-family|\d\.\d{3}", text.partition("</defs>")[2])
    assert not re.findall(r"rotate\(-?0 ", drawn)
    assert "1.23456" in drawn
    assert "rotate(-90 " in drawn
    ids = re.findall(r'id="([^"]+)"', drawn)
    assert len(set(ids)) == len(ids)
    assert set(ids) == set(re.findall(r'(?:href="|url\()#([^")]+)', drawn))
    (marks,) = re.findall(r"<g[^>]*var\(--series-1\)[^>]*>((?:<use [^>]*/>){3})</g>", drawn)
    assert "style" not in marks


def test_marks_that_look_unlike_keep_their_looks() -> None:
    with mpl.rc_context(STYLE):
        figure, axes = new_figure()
        axes.scatter([1, 2], [1, 2], c=[colour(0), colour(1)])
        drawn = svg(figure, "name", "said")
    assert re.findall(r"<g[^>]*fill: var\(--series-(\d)\)[^>]*><use [^>]*/></g>", drawn) == ["1", "2"]


def test_figures_without_a_name_are_equal_if_they_show_the_same() -> None:
    def drawn(value: float, description: str) -> Markup:
        with mpl.rc_context(STYLE):
            figure, axes = new_figure()
            axes.plot([0.0, value], [0.0, 1.0], "o-")
            return svg(figure, None, description)

    first, same, other = drawn(1.0, "one claim"), drawn(1.0, "another claim"), drawn(2.0, "one claim")
    assert first != same
    assert same_drawing(first) == same_drawing(same)
    ids = [set(re.findall(r' id="([^"]+)"', plot)) for plot in (first, other)]
    assert ids[0]
    assert not ids[0] & ids[1]  # on one page
