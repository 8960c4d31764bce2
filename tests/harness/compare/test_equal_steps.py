"""Returns at equal numbers of environment steps: who learns more is found, and what cannot be told is not judged."""

import sys
import time
from dataclasses import replace
from functools import partial

import numpy as np
import psutil
import pytest

from placerl.harness import workloads
from placerl.harness.compare import equal_steps
from placerl.harness.compare.equal_steps import (
    FASTER,
    LEARNS_LESS,
    NOT_COMPARED,
    ComparedSide,
    Returns,
    StepExtent,
    Trained,
)
from placerl.harness.compare.protocol import Worker, WorkerJob, WorkerResult
from placerl.harness.core.progress import silent

# The arguments: returns at the beginning and at the end, of the episodes that end ten a job, and environment steps a
# gradient step. Each seed's returns lie a little apart, and so do its episodes'.
LEARNER = """
import json, sys
first, last, ratio, total = map(float, sys.argv[1:5])
taken = 0
for line in sys.stdin:
    job = json.loads(line)
    steps = job["gradient_steps"]
    environment_steps = round(steps * ratio)
    taken += environment_steps
    level = first + (last - first) * min(1, taken / total)
    returns = [level + job["seed"] % 3 + 0.1 * n for n in range(10)]
    print(json.dumps({"gradient_steps": steps, "environment_steps": environment_steps, "wall_s": 1.0,
                      "episode_returns": returns, "versions": {}}), flush=True)
"""
STEPS = 4000


def side(name, program=LEARNER, *arguments, pace=1e6, ratio=1.0):
    start = partial(Worker, [sys.executable, "-c", program, *map(str, arguments)])
    return ComparedSide(name, start, 0.01, pace, ratio)


class Learner:
    """What `LEARNER` does, in this process."""

    def __init__(self, first, last, ratio):
        self.first, self.last, self.ratio, self.taken = first, last, ratio, 0

    def __enter__(self):
        return self

    def __exit__(self, *_): ...

    def ask(self, job, limit_s):
        steps = round(job.gradient_steps * self.ratio)
        self.taken += steps
        level = self.first + (self.last - self.first) * min(1, self.taken / STEPS)
        return WorkerResult(
            gradient_steps=job.gradient_steps,
            environment_steps=steps,
            wall_s=1.0,
            episode_returns=[level + job.seed % 3 + 0.1 * n for n in range(10)],
            versions={},
        )

    def abort(self): ...


def learner(name, first, last, ratio=1.0):
    return ComparedSide(name, partial(Learner, first, last, ratio), 0.01, 1e6, ratio)


@pytest.fixture
def job():
    return WorkerJob(
        workload=workloads.load("cartpole-dqn").tables(), batch_size=32, seed=5, gradient_steps=7
    )


def compared(ours, theirs, job, **extent):
    fields = {"environment_steps": STEPS, "seeds": 3, "budget_s": 100.0} | extent
    return equal_steps.compare(ours, theirs, job, StepExtent(**fields), silent)


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [(80, 40, FASTER), (40, 80, LEARNS_LESS), (60, 60, FASTER), (20, 80, LEARNS_LESS)],
)
def test_faster_counts_only_for_who_learns_no_less(job, ours, theirs, verdict):
    returns = compared(learner("placerl", 20, ours), learner("other", 20, theirs), job)
    assert returns.reason == ""
    assert returns.verdict("faster") == verdict
    assert returns.verdict("slower") == "slower"
    assert returns.verdict("no verdict") == "no verdict"
    assert [one.seed for one in returns.ours] == [one.seed for one in returns.theirs] == [5, 6, 7]
    assert {one.environment_steps for one in (*returns.ours, *returns.theirs)} == {STEPS}
    difference = returns.difference()
    # In the last fifth the level is 95% of the way from the first to the last return.
    assert difference.value == pytest.approx(0.95 * (ours - theirs))
    assert difference.low < difference.value < difference.high
    assert "4,000 environment steps, 3 seeds a side" in str(returns)


def test_the_score_is_of_the_last_fifth(job):
    returns = compared(learner("placerl", 0, 100), learner("other", 0, 100), job, seeds=1)
    # The ninth and tenth of ten stretches; ten episodes each; the seed adds 5 % 3.
    expected = [level + 2 + 0.1 * n for level in (90, 100) for n in range(10)]
    assert returns.ours[0].last == pytest.approx(expected)
    assert returns.ours[0].first == pytest.approx(
        [level + 2 + 0.1 * n for level in (10, 20) for n in range(10)]
    )
    assert equal_steps.mean(returns.ours).value == pytest.approx(np.mean(expected))
    assert "4,000 environment steps, 1 seed a side: " in str(returns)


def test_both_sides_take_the_same_environment_steps_whatever_a_gradient_step_needs(job):
    returns = compared(learner("placerl", 0, 100, ratio=1.0), learner("other", 0, 100, ratio=4.0), job)
    assert {one.environment_steps for one in (*returns.ours, *returns.theirs)} == {STEPS}


def test_sides_that_reach_other_numbers_of_steps_are_not_compared(job):
    # A round of 1,500 environment steps: reached are 4,500.
    rounds = LEARNER.replace("round(steps * ratio)", "1500")
    returns = compared(learner("placerl", 0, 9), side("other", rounds, 0, 9, 1, STEPS), job)
    assert returns.reason == "a round of one side is too long: 4,000 environment steps against 4,500"
    assert returns.verdict("faster") == NOT_COMPARED


def test_too_few_episodes_are_no_score(job):
    one_each = LEARNER.replace("range(10)", "range(1 if taken > 3600 else 0)")
    returns = compared(side("placerl", one_each, 0, 9, 1, STEPS), learner("other", 0, 9), job, seeds=2)
    assert returns.verdict("faster") == NOT_COMPARED
    assert (
        "2 episodes of placerl ended in the last fifth of 4,000 environment steps, 2 seeds" in returns.reason
    )
    never = LEARNER.replace("range(10)", "range(0 if job['seed'] == 6 else 10)")
    returns = compared(learner("placerl", 0, 9), side("other", never, 0, 9, 1, STEPS), job)
    assert "of every seed one" in returns.reason


@pytest.mark.parametrize("rises", [0, 1])
def test_where_neither_side_learns_nothing_is_compared(job, rises):
    returns = compared(learner("placerl", 20, 20), learner("other", 20, 20 + 20 * rises), job)
    assert returns.verdict("faster") == (LEARNS_LESS if rises else NOT_COMPARED)
    assert ("neither side had learnt anything after 4,000" in returns.reason) is not bool(rises)


def test_a_side_that_fails_is_named_and_leaves_no_process_behind(job):
    before = set(psutil.Process().children(recursive=True))
    fails = "import sys; sys.stdin.readline(); raise RuntimeError('the network exploded')"
    returns = compared(learner("placerl", 20, 40), side("other", fails), job)
    assert returns.verdict("faster") == NOT_COMPARED
    assert returns.reason.startswith("other: crash: ")
    assert set(psutil.Process().children(recursive=True)) <= before


def test_environment_steps_that_never_come_are_a_failure(job):
    returns = compared(learner("placerl", 20, 40), side("other", LEARNER, 0, 9, 0, STEPS), job)
    assert returns.reason == "other: invalid: took no environment steps"


def test_an_interrupt_ends_every_training(job):
    before = set(psutil.Process().children(recursive=True))

    def interrupt(done, total, what):
        time.sleep(0.3)
        raise KeyboardInterrupt

    extent = StepExtent(STEPS, 3, 100.0)
    ours, theirs = (side(name, LEARNER, 0, 9, 1, STEPS) for name in ("placerl", "other"))
    with pytest.raises(KeyboardInterrupt):
        equal_steps.compare(ours, theirs, job, extent, interrupt)
    assert set(psutil.Process().children(recursive=True)) <= before


HANGS = "import sys, time; sys.stdin.readline(); time.sleep(3600)"
NEVER_S = 1e5  # longer than a test may take: who waits for a limit of so many seconds fails


def test_an_interrupt_does_not_wait_for_a_side_that_hangs(job, monkeypatch):
    monkeypatch.setattr(equal_steps, "JOB_LIMIT_S", NEVER_S)
    before = set(psutil.Process().children(recursive=True))

    def interrupt(done, total, what):
        time.sleep(0.3)
        raise KeyboardInterrupt

    extent = StepExtent(STEPS, 3, NEVER_S)
    with pytest.raises(KeyboardInterrupt):
        equal_steps.compare(side("placerl", HANGS), side("other", HANGS), job, extent, interrupt)
    assert set(psutil.Process().children(recursive=True)) <= before


def test_a_side_that_fails_does_not_wait_for_one_that_hangs(job, monkeypatch):
    monkeypatch.setattr(equal_steps, "usable_cores", lambda: [0, 1])
    monkeypatch.setattr(equal_steps, "JOB_LIMIT_S", NEVER_S)
    before = set(psutil.Process().children(recursive=True))
    returns = compared(side("placerl", "raise RuntimeError"), side("other", HANGS), job, budget_s=NEVER_S)
    assert returns.reason.startswith("placerl: crash: ")
    assert set(psutil.Process().children(recursive=True)) <= before


def pace(environment_steps_per_s, start_s=5.0):
    return ComparedSide("any", lambda: pytest.fail("started"), start_s, environment_steps_per_s, 1.0)


@pytest.mark.parametrize(
    ("budget_s", "lanes", "planned"),
    [
        (1000, 2, (3, 12_000)),  # time enough for all that is wanted
        (60, 2, (3, 6_000)),  # 40 s a seed, of which 10 s are two starts: 30 s of 5 ms
        (30, 2, (3, 2_000)),  # 20 s a seed
        (29, 2, (2, 3_800)),  # 19.3 s a seed would hold 1,800 steps
        (15, 2, (1, 4_000)),  # 15 s a seed would hold 1,000 steps
        (15, 1, (0, 0)),
        (30, 4, (3, 6_000)),
        (15, 4, (3, 2_000)),
        (15, 8, (3, 4_000)),  # three seeds keep six lanes busy
    ],
)
def test_as_many_seeds_are_trained_as_the_time_holds(budget_s, lanes, planned):
    extent = StepExtent(12_000, 3, budget_s)
    assert equal_steps.planned(pace(400), pace(400), extent, lanes) == planned


def test_no_time_is_no_comparison(job):
    returns = equal_steps.compare(pace(1), pace(1), job, StepExtent(12_000, 3, 22), silent)
    assert returns.verdict("faster") == NOT_COMPARED
    assert returns.reason == "22 s hold no training of 2,000 environment steps on both sides"


def test_seeds_that_come_late_are_left_out_but_the_first_is_not(job, monkeypatch):
    times = iter([0.0, *[1000.0] * 100])
    monkeypatch.setattr(equal_steps, "monotonic", lambda: next(times))
    returns = compared(learner("placerl", 20, 40), learner("other", 20, 40), job)
    assert [one.seed for one in returns.ours] == [one.seed for one in returns.theirs] == [5]
    assert returns.reason == ""


def test_a_side_has_the_pace_of_its_timed_rounds():
    results = [
        WorkerResult(gradient_steps=g, environment_steps=5 * g, wall_s=w, episode_returns=[], versions={})
        for g, w in ((2, 1.5), (6, 2.5))
    ]
    results.append(
        WorkerResult(gradient_steps=8, environment_steps=5, wall_s=4.0, episode_returns=[], versions={})
    )
    made = ComparedSide.of("any", lambda: pytest.fail("started"), 3.0, results)
    assert (made.name, made.start_s) == ("any", 3)
    assert made.environment_steps_per_s == 45 / 8
    assert made.environment_steps_a_gradient_step == 45 / 16


def trained(seed, first, last):
    return Trained(seed, STEPS, tuple(first), tuple(last))


def test_the_interval_holds_the_spread_of_the_seeds_not_of_the_episodes_alone():
    """Three seeds far apart, each with a hundred episodes that agree."""
    rng = np.random.default_rng(0)
    apart = [trained(n, [0.0] * 10, 100 * n + rng.normal(0, 1, 100)) for n in range(3)]
    alike = [trained(n, [0.0] * 10, 100 + rng.normal(0, 1, 100)) for n in range(3)]
    wide, narrow = equal_steps.mean(apart), equal_steps.mean(alike)
    assert wide.high - wide.low > 100
    assert narrow.high - narrow.low < 1
    assert wide.value == pytest.approx(100, abs=1)
    # A side that happens to lie 20 lower is not worse: the seeds of the other spread by more.
    lower = [replace(one, last=tuple(np.array(one.last) - 20)) for one in alike]
    assert Returns("", tuple(lower), tuple(apart)).verdict("faster") == FASTER
    assert Returns("", tuple(lower), tuple(alike)).verdict("faster") == LEARNS_LESS


@pytest.mark.parametrize(("steps", "compared"), [(4400, True), (4401, False)])
def test_a_side_may_reach_a_tenth_more_steps_than_the_other(steps, compared):
    """A training ends with the first of ten stretches that reaches what was planned."""
    ours = [trained(0, [0.0] * 9, range(50, 59))]
    theirs = [replace(ours[0], environment_steps=steps)]
    found = equal_steps.judged("placerl", ours, "other", theirs)
    assert (found.reason == "") is compared
    assert found.environment_steps == STEPS


def test_an_interval_leaves_out_a_fortieth_of_what_was_resampled_on_either_side() -> None:
    assert equal_steps._interval(60.0, np.linspace(0, 100, 2001)) == pytest.approx((60, 2.5, 97.5))


def test_intervals_of_equal_sides_rarely_leave_zero_out():
    """Of 200 pairs of equal sides of five seeds the difference is found "less" in few: 2.5% of a perfect interval."""
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(200):
        ours, theirs = (
            tuple(trained(n, [0.0], rng.normal(100 + rng.normal(0, 20), 30, 40)) for n in range(5))
            for _ in range(2)
        )
        found += Returns("", ours, theirs).verdict("faster") == LEARNS_LESS
    assert found <= 20  # 5% expected of so few seeds; more than 20 of 200 would be a chance below 1 in 300
