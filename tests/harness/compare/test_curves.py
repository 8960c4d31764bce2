"""Learning curves: when a return is reached, where evaluations are, when a training ends, and what its row says."""

from collections.abc import Callable
from typing import Self

import pytest

from placerl.harness.compare import curves, registry
from placerl.harness.compare.curves import HOLD, CurveOf, Extent, reached, seconds_to_return
from placerl.harness.compare.own_settings import goals
from placerl.harness.compare.protocol import FailureKind, WorkerFailure, WorkerJob, WorkerResult
from placerl.harness.core.progress import silent
from placerl.harness.core.suites import Suite
from placerl.harness.plan import execution
from placerl.harness.store.rows import LearningCurve
from placerl.harness.store.store import Store
from tests.harness.report import sample

GOAL = goals()["cartpole-dqn"]


class Learner:
    """A worker in this process: two environment steps and a millisecond a gradient step, 100 steps before the first.

    Its greedy episodes return what `learnt` says of its environment steps.
    """

    def __init__(self, learnt: Callable[[int], float]) -> None:
        self.learnt, self.steps, self.jobs = learnt, 100, list[WorkerJob]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def ask(self, job: WorkerJob, limit_s: float) -> WorkerResult:
        self.jobs.append(job)
        self.steps += 2 * job.gradient_steps
        return WorkerResult(
            gradient_steps=job.gradient_steps,
            environment_steps=2 * job.gradient_steps,
            environment_steps_so_far=self.steps,
            wall_s=1e-3 * job.gradient_steps,
            episode_returns=[],
            versions={},
            evaluation_returns=[self.learnt(self.steps)] * job.evaluation_episodes,
        )


def trained(
    monkeypatch: pytest.MonkeyPatch, learner: Learner, extent: Extent, system: str = "sb3"
) -> LearningCurve:
    monkeypatch.setattr(registry, "baseline_worker", lambda name: learner)
    monkeypatch.setattr(registry, "own_worker", lambda mapping, **_: learner)
    monkeypatch.setattr(registry, "is_built", lambda name: True)
    return CurveOf.of(Suite.BENCH_TIME_TO_RETURN, GOAL, system).trained(extent, 3, silent)


def test_a_return_is_reached_when_it_is_held() -> None:
    assert reached([0, 9, 0, *[9] * HOLD], 9) == 3
    assert reached([9] * (HOLD - 1), 9) is None
    assert reached([9] * HOLD, 9.1) is None


def test_gaps_grow_where_a_growth_is_given() -> None:
    assert [Extent(100).next_after(steps) for steps in (0, 10_000)] == [100, 10_100]
    assert [Extent(100, 0.05).next_after(steps) for steps in (0, 2000, 10_000)] == [100, 2100, 10_500]


def test_a_training_ends_once_the_return_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Learner(lambda steps: 500 if steps >= 1100 else 10)
    row = trained(monkeypatch, learner, Extent(200, budget_s=60, threshold=475))
    assert row.steps_at == [302 + 200 * n for n in range(9)]
    assert row.returns_at == [10] * 4 + [500] * HOLD
    assert row.value == 500
    assert seconds_to_return(row) == pytest.approx(1e-3 * (1102 - 100) / 2)
    assert (row.seed, row.settings_from) == (3, "Zoo, DQN, CartPole-v1")
    assert [job.evaluation_episodes for job in learner.jobs] == [0, *[20] * 9]
    assert {job.batch_size for job in learner.jobs} == {64}
    assert {job.library["train_freq"] for job in learner.jobs} == {256}


def test_a_return_that_is_not_held_within_the_budget_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training that is at the threshold when its budget ends goes on until it holds it or falls."""
    late = trained(
        monkeypatch,
        Learner(lambda steps: 500 if steps > 1900 else 0),
        Extent(200, budget_s=1.0, threshold=475),
    )
    assert late.returns_at is not None
    assert late.returns_at[-HOLD:] == [500] * HOLD
    assert seconds_to_return(late) == pytest.approx(0.901)
    never = trained(monkeypatch, Learner(lambda steps: 0), Extent(200, budget_s=1.0, threshold=475))
    assert never.seconds_at is not None
    assert never.seconds_at[-1] == pytest.approx(1.001)
    assert seconds_to_return(never) is None
    after = trained(
        monkeypatch,
        Learner(lambda steps: 500 if steps > 2100 else 0),
        Extent(200, budget_s=1.0, threshold=475),
    )
    assert seconds_to_return(after) is None, "it was there when the budget was over"


def test_a_curve_has_the_steps_that_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Learner(lambda steps: 500)
    row = trained(monkeypatch, learner, Extent(500, steps=2000), "placerl")
    assert row.steps_at == [602, 1102, 1602, 2102]
    assert row.budget_s is None
    assert row.settings_from == "the workload's, as shipped"
    assert learner.jobs[0].library == {}


def test_what_cannot_train_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = {
        FailureKind.REFUSED: ("not_run", "not run: sb3 cannot do it: no such network"),
        FailureKind.CRASH: ("failed", "crash: no such network"),
    }
    for kind, said in failures.items():

        def fail(steps: int, kind: FailureKind = kind) -> float:
            raise WorkerFailure(kind, "no such network", ["last words"])

        row = trained(monkeypatch, Learner(fail), Extent(500, steps=2000))
        assert (row.status, row.reason) == said
        assert row.value is None
        assert row.last_lines == ["last words"]


def test_a_library_that_was_missing_is_trained_once_it_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    built = False
    monkeypatch.setattr(registry, "is_built", lambda name: built)
    monkeypatch.setattr(registry, "baseline_worker", lambda name: Learner(lambda steps: 500))
    cell = CurveOf.of(Suite.BENCH_TIME_TO_RETURN, GOAL, "sb3").cell(Extent(500, steps=2000), 0, 1.0)
    with Store.open(f"{tmp_path}/s.sqlite") as store:
        run = store.begin_run("quick", "r", sample.MACHINE)
        execution.execute(run, [cell], silent)
        (row,) = cell.rows(run)
        assert (row.status, row.reason) == ("not_run", f"{curves._MISSING} sb3")
        assert not cell.due(run)
        built = True
        execution.execute(run, [cell], silent)
        (row,) = cell.rows(run)
        assert row.value == 500
        assert not cell.due(run)
