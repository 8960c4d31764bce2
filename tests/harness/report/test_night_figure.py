"""Learning at own settings in the report: its figure, and its place on the page of libraries."""

from dataclasses import replace
from pathlib import Path

from placerl.harness.compare.night_learning import Compared
from placerl.harness.core.suites import Suite
from placerl.harness.report import night_figure, pages, reading
from placerl.harness.store.store import Store
from tests.harness.cli.bench.test_time_to_return_bench import row
from tests.harness.compare.test_night_learning import compared, learnt
from tests.harness.report import sample


def test_the_figure_has_four_panels_with_every_library() -> None:
    drawn = night_figure.figure(compared())
    assert drawn is not None
    for said in ("Over environment steps", "Over time", "Performance profile", "placerl higher than", "sb3"):
        assert said in drawn


def test_nothing_is_drawn_of_one_system_alone() -> None:
    assert night_figure.figure(Compared([learnt("placerl", 0, 22, 475)])) is None
    assert night_figure.figure(Compared([])) is None


def test_stored_trainings_are_on_the_page_of_libraries(tmp_path: Path) -> None:
    raced = [row("placerl", 0, 1.25), row("sb3", 0, None)]
    curves = [replace(one, suite=Suite.LEARN, budget_s=None) for one in raced]
    with Store.open(tmp_path / "s.sqlite") as store:
        store.begin_run("night", "r", sample.MACHINE).finish("cell", [*raced, *curves])
    page = pages.render(reading.read(tmp_path / "s.sqlite"), "libraries")
    times = page.partition('id="seconds-to-a-return"')[2].partition("<h3")[0]
    assert "cartpole-ppo" in times
    assert "&gt; 300" in times
    assert ">1.25<" in times
    night = page.partition('id="own-settings"')[2]
    assert "<svg" in night
    assert ">500<" in night
    assert "500 [" not in night, "one seed has no interval"
