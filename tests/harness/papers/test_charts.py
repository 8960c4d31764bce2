"""Papers' figures in their own axes: what is drawn of lines and panels, and nothing where there are no rows."""

from pathlib import Path

import numpy as np
import pytest

from placerl.harness import papers
from placerl.harness.core.provenance import Provenance
from placerl.harness.papers import charts
from placerl.harness.papers.charts import Line, Panel, chart
from placerl.harness.papers.number import Number
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import compared, frame_of


def number(value: float, provenance: Provenance = Provenance.MEASURED, spread: float = 0.1) -> Number:
    low, high = (value - spread, value + spread) if spread else (None, None)
    return Number("rate", value, "1/s", provenance, low=low, high=high)


def line(label: str, provenance: Provenance = Provenance.MEASURED, spread: float = 0.1) -> Line:
    return charts.line(
        label, [(1.0, number(1.0, provenance, spread)), (10.0, number(2.0, provenance, spread))]
    )


def test_without_its_rows_nothing_is_drawn(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, compared(2.0, "faster"))
    for claim in papers.claims():
        assert claim.draw(frame) is None, claim.key
        assert claim.draw(frame[:0]) is None, claim.key


def test_every_paper_draws(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, compared(2.0, "faster"))
    assert {claim.paper for claim in papers.claims() if claim.panels(frame)} == set(papers.titles())


def test_marks_say_where_numbers_come_from() -> None:
    kinds = list(Provenance)
    figure = chart(Panel("batch size", "rate (1/s)", [line(str(kind), kind) for kind in kinds]))
    assert points(figure) == {
        "measured": 2,
        "simulated (simulated)": 2,
        "modelled (modelled)": 2,
        "published (published)": 2,
    }
    assert figure is not None
    marks = {kind: one[0] for kind, one in zip(kinds, figure.axes[0].containers, strict=True)}
    filled = {kind: mark.get_markerfacecolor() != "none" for kind, mark in marks.items()}
    assert filled[Provenance.MEASURED]
    assert not filled[Provenance.SIMULATED]
    assert not filled[Provenance.MODELLED]
    styles = {kind: mark.get_linestyle() for kind, mark in marks.items()}
    assert styles[Provenance.MEASURED] == styles[Provenance.SIMULATED] == "-"
    assert styles[Provenance.MODELLED] == "--"
    assert styles[Provenance.PUBLISHED] == "None"


def test_a_published_line_has_the_colour_of_its_twin() -> None:
    figure = chart(
        Panel(
            "steps",
            "return",
            [line("float 32"), line("other", Provenance.PUBLISHED), line("float 32", Provenance.PUBLISHED)],
        )
    )
    assert figure is not None
    ours, other, theirs = (one[0].get_color() for one in figure.axes[0].containers)
    assert ours == theirs != other


def test_published_numbers_alone_are_no_figure() -> None:
    assert chart(Panel("steps", "return", [line("FIXAR", Provenance.PUBLISHED)])) is None
    assert chart(Panel("steps", "return", [charts.line("empty", [])])) is None
    assert chart() is None


def test_panels_without_numbers_are_left_out() -> None:
    panels = [Panel("x", "y", [line("a")], title) for title in ("one", "two", "three")]
    panels.insert(1, Panel("x", "y", [], "none"))
    figure = chart(*panels)
    assert figure is not None
    assert [axes.get_title(loc="center") or axes.get_title(loc="left") for axes in figure.axes] == [
        "one",
        "two",
        "three",
    ]


def test_categories_stand_next_to_each_other_and_are_not_joined() -> None:
    of = [charts.line(name, [("a", number(1.0)), ("b", number(2.0))]) for name in ("one", "two")]
    figure = chart(Panel("workload", "gain", of))
    assert figure is not None
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b"]
    one, two = (container[0] for container in axes.containers)
    assert one.get_linestyle() == two.get_linestyle() == "None"
    assert all(x < y for x, y in zip(one.get_xdata(), two.get_xdata(), strict=True))


@pytest.mark.parametrize(("spread", "bars"), [(0.1, 2), (0.0, 0)])
def test_a_number_without_an_interval_has_no_bar(spread: float, bars: int) -> None:
    figure = chart(Panel("x", "y", [line("rate", spread=spread)]))
    assert figure is not None
    (drawn,) = figure.axes[0].containers[0][2]
    segments = [np.asarray(segment) for segment in drawn.get_segments()]
    assert sum(len(segment) > 0 and bool(np.isfinite(segment).all()) for segment in segments) == bars


def test_what_the_paper_names_on_its_axes_is_drawn() -> None:
    figure = chart(
        Panel(
            "batch size",
            "gain",
            [line("ours")],
            log_x=True,
            log_y=True,
            published_x=[("linear above (published)", 5.0)],
            published_y=[("range (published)", 1.0, 30.0)],
        )
    )
    assert figure is not None
    axes = figure.axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_ylim()[1] > 30
    labels = {text.get_text() for text in figure.legends[0].get_texts()}
    assert labels == {"linear above (published)", "range (published)", "ours"}
