"""The tier night of learning: who trains what, scores, and figures over goals and seeds."""

from collections.abc import Iterator

import pytest

from placerl.harness.compare import night_learning, registry
from placerl.harness.compare.night_learning import PRIORITISED, UNIFORM, Compared, Learnt, by_task, over_all
from placerl.harness.compare.own_settings import goals
from placerl.harness.core.progress import silent
from placerl.harness.plan import execution
from placerl.harness.store.store import Store
from tests.harness.compare.test_curves import Learner
from tests.harness.report import sample


def learnt(
    system: str, seed: int, *returns: float, workload: str = "cartpole-dqn", seconds: float = 1.0
) -> Learnt:
    """A training with evaluations at equal distances over the goal's steps and some seconds."""
    count, steps = len(returns), goals()[workload].steps
    every = [(n + 1) / count for n in range(count)]
    return Learnt(
        workload, system, seed, [round(n * steps) for n in every], [n * seconds for n in every], returns
    )


def test_this_project_trains_with_both_replays() -> None:
    for goal in goals().values():
        sides = {one.name: one for one in night_learning.sides(goal, ["placerl", "sb3"])}
        both = {one.item.replay.prioritized for name, one in sides.items() if name.startswith("placerl")}
        ppo = goal.name.endswith("ppo")
        assert both == ({False} if ppo else {True, False})
        assert len(sides) == (2 if ppo else 3)
        for name, one in sides.items():
            if name in (PRIORITISED, UNIFORM):
                assert one.item.replay.prioritized == (name == PRIORITISED)


def test_every_seed_of_all_goals_comes_before_the_next() -> None:
    cells = night_learning.plan(["placerl", "sb3", "sbx"])
    assert len({cell.key for cell in cells}) == len(cells)
    seeds = [int(cell.key.rpartition("seed")[2]) for cell in cells]
    assert seeds == sorted(seeds)
    assert set(seeds) == set(range(5))


def test_scores_are_0_for_random_actions_and_1_at_the_goal() -> None:
    goal = goals()["cartpole-dqn"]
    half = (goal.random_return + goal.threshold) / 2
    run = learnt("sb3", 0, goal.random_return, half, goal.threshold, seconds=3.0)
    assert run.score == 1.0
    assert run.after_steps(2 / 3) == pytest.approx(0.5, abs=1e-4), "of whole steps"
    assert run.after_seconds(0.0) == run.after_seconds(1.0) == 0
    assert run.after_seconds(2.5) == pytest.approx(0.75)
    assert run.after_seconds(100.0) == 1


def compared() -> Compared:
    """This project reaches the goal in a second, the library in ten; one goal this project alone has trained."""

    def runs() -> Iterator[Learnt]:
        for seed in range(5):
            yield learnt("placerl", seed, 22, 475)
            yield learnt("sb3", seed, 22, 475 - seed, seconds=10.0)
            yield learnt(UNIFORM, seed, 22, 22)
            yield learnt("placerl", seed, 22, 22, workload="cartpole-ppo")

    return Compared(list(runs()))


def test_systems_are_compared_on_the_goals_that_both_trained() -> None:
    found = compared()
    assert found.systems == ["placerl", UNIFORM, "sb3"]
    assert found.libraries == ["placerl", "sb3"]
    assert found.common(["placerl", "sb3"]) == ["cartpole-dqn"]
    higher = found.improvement("sb3")
    assert higher is not None
    assert higher.value == pytest.approx(0.9), "one seed in five is equal"
    ended = found.when_ours_ended("sb3")
    assert ended is not None
    assert ended.value == 0, "the library has not begun to learn after a second"
    assert found.improvement("sbx") is None


def test_lines_are_of_goals_and_of_all() -> None:
    lines = by_task(compared())
    assert ["cartpole-dqn", "placerl", "475 [475, 475]", "1", "5"] in lines
    assert len(lines) == 4
    assert [line[:2] for line in over_all(compared())] == [["placerl", "2"], [UNIFORM, "1"], ["sb3", "1"]]


def test_a_night_is_stored_training_by_training(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "own_worker", lambda mapping, **_: Learner(lambda steps: 475.0))
    monkeypatch.setattr(registry, "is_built", lambda name: False)
    cells = [one for one in night_learning.plan(["placerl", "sb3"]) if "/cartpole-ppo/" in one.key][:2]
    with Store.open(f"{tmp_path}/s.sqlite") as store:
        run = store.begin_run("night", "r", sample.MACHINE)
        execution.execute(run, cells, silent)
        rows = night_learning.rows_of(run)
        assert [row.status for row in rows] == ["ok", "not_run"]
        assert len(rows[0].returns_at or ()) == night_learning.EVALUATIONS
        (line,) = over_all(Compared.of(rows))
        assert line == ["placerl", "1", "1.00", "1.00", ""], "one seed has no interval"
