"""The figure of learning at own settings: it needs two systems with a common goal, and names each."""

from placerl.harness.compare.night_learning import Compared
from placerl.harness.report import night_figure
from tests.harness.compare.test_night_learning import compared, learnt


def test_the_figure_has_four_panels_with_every_library() -> None:
    drawn = night_figure.figure(compared())
    assert drawn is not None
    for said in ("Over environment steps", "Over time", "Performance profile", "placerl higher than", "sb3"):
        assert said in drawn


def test_nothing_is_drawn_of_one_system_alone() -> None:
    assert night_figure.figure(Compared([learnt("placerl", 0, 22, 475)])) is None
    assert night_figure.figure(Compared([])) is None
