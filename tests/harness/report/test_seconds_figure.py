"""Seconds to a return: what is drawn of stored trainings, and what is not."""

from dataclasses import replace
from pathlib import Path

from placerl.harness.papers.evidence import records
from placerl.harness.report import seconds_figure
from placerl.harness.report.seconds_figure import Race
from placerl.harness.store.rows import LearningCurve
from placerl.harness.store.store import Store
from tests.harness.cli.bench.test_time_to_return_bench import row
from tests.harness.report import sample


def raced(path: Path, *rows: LearningCurve) -> list[Race]:
    """Return what is read of rows from a store."""
    with Store.open(path / "s.sqlite") as store:
        store.begin_run("night", "r", sample.MACHINE).finish("cell", list(rows))
        return seconds_figure.races(records(store.frame()))


def test_every_system_of_a_goal_is_ranked_and_those_that_fail_never_arrive(tmp_path: Path) -> None:
    slow = [row("sb3", seed, 20.0 + seed) for seed in range(10)]
    fast = [row("placerl", seed, 1.0 + seed / 10) for seed in range(10)]
    gone = [replace(row("sbx", 0, None), status="failed", reason="it died", value=None, start_s=None)]
    absent = [replace(row("rltools", 0, None), status="not_run", reason="needs: it", value=None)]
    (race,) = raced(tmp_path, *slow, *gone, *absent, *fast)
    assert (race.name, race.threshold) == ("cartpole-ppo", 475)
    assert [name for name, _ in race.ranked()] == ["placerl", "sb3", "sbx"]
    ours, sb3, sbx = (arrival for _, arrival in race.ranked())
    assert (ours.seconds, ours.low, ours.high, ours.arrived) == (1.4, 1.1, 1.8, 10)
    assert (sb3.seconds, sb3.low, sb3.high) == (24, 21, 28)
    assert (sbx.seconds, sbx.arrived, sbx.failed, sbx.start_s) == (None, 0, 1, None)


def test_the_figure_names_each_system_with_how_many_arrived(tmp_path: Path) -> None:
    races = raced(tmp_path, row("placerl", 0, 1.25), row("sb3", 0, None), row("sb3", 1, 7.0))
    drawn = seconds_figure.figure([*races, replace(races[0], name="another-goal")])
    assert drawn is not None
    for said in (
        "cartpole-ppo, placerl: 1/1",
        "cartpole-ppo, sb3: 1/2",
        "this project",
        "another library",
    ):
        assert said in drawn
    assert "in this time" not in drawn, "half of each system's seeds arrived"
    assert 'aria-label="seconds until half of the seeds held a return of 475 on cartpole-ppo, 475 on' in drawn


def test_a_system_of_which_fewer_than_half_arrive_is_drawn_at_its_budget(tmp_path: Path) -> None:
    drawn = seconds_figure.figure(raced(tmp_path, row("placerl", 0, 1.25), row("sb3", 0, None)))
    assert drawn is not None
    assert "fewer than half of the seeds arrived in this time" in drawn
    assert "another library" not in drawn


def test_nothing_is_drawn_if_none_arrived(tmp_path: Path) -> None:
    assert seconds_figure.figure([]) is None
    assert seconds_figure.figure(raced(tmp_path, row("sb3", 0, None))) is None
