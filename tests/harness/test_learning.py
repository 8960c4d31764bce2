"""Learning runs: like for like, scores from the end of training, summaries over seeds, failures recorded."""

import sys
from functools import partial

import numpy as np
import pytest

from harness import learning, reproduce, starting, workload
from harness.learning import Task
from harness.mapping import Mapping
from harness.progress import silent
from harness.store import Store
from harness.workers import Worker

MAPPING = Mapping.parse("torch-native-cpu")

# Answers each job with its number as the only return, and two environment steps a gradient step.
COUNTING = """
import json, sys
for number, line in enumerate(sys.stdin):
    steps = json.loads(line)["gradient_steps"]
    print(json.dumps({"gradient_steps": steps, "environment_steps": 2 * steps, "wall_s": 1.0,
                      "episode_returns": [number], "versions": {}}), flush=True)
"""


def fake(program):
    return partial(Worker, [sys.executable, "-c", program])


def test_the_interquartile_mean_leaves_out_the_outer_quarters():
    assert learning.interquartile_mean([0, 1, 2, 3, 4, 5, 6, 1000]) == (2 + 3 + 4 + 5) / 4


def test_what_only_this_project_has_is_off():
    item = learning.like_for_like("cartpole-dqn")
    assert not item.replay.prioritized
    assert not item.algorithm.hyperparameters["double"]
    assert learning.like_for_like("cartpole-ddpg").algorithm == workload.load("cartpole-ddpg").algorithm


def test_the_score_is_of_the_last_fifth():
    row = learning.train(Task("cartpole-dqn", 100), "fake", fake(COUNTING), 3, silent)
    assert row.samples == (8, 9)
    assert row.value == 8.5
    assert row.details["seed"] == 3
    assert row.details["environment_steps"] == [20 * n for n in range(1, 11)]
    assert row.details["mean_returns"] == list(range(10))
    assert row.details["gradient_steps"] == 100


def test_a_system_that_fails_is_a_row():
    row = learning.train(Task("cartpole-dqn", 100), "fake", fake("print('no')"), 0, silent)
    assert row.status == "failed"
    assert row.details["seed"] == 0


def test_a_run_without_episodes_at_its_end_is_no_score():
    program = COUNTING.replace("[number]", "[]")
    row = learning.train(Task("cartpole-dqn", 100), "fake", fake(program), 0, silent)
    assert row.status == "failed"
    assert "no episode ended" in row.reason


def scored(*values):
    return [
        learning.train(
            Task("cartpole-dqn", 100), "fake", fake(COUNTING.replace("[number]", f"[{value}]")), 0, silent
        )
        for value in values
    ]


def test_a_summary_is_over_seeds():
    rows = scored(1, 2, 3, 4, 50)
    failed = learning.train(Task("cartpole-dqn", 100), "fake", fake(""), 0, silent)
    summary = learning.summary("cartpole-dqn", "fake", [*rows, failed])
    assert summary.value == 3
    assert 1 <= summary.low <= 3 <= summary.high <= 50
    assert summary.details == {"seeds": 5, "failed": 1}
    few = learning.summary("cartpole-dqn", "fake", rows[:2])
    assert (few.value, few.low) == (1.5, None)
    assert learning.summary("cartpole-dqn", "fake", [failed]).status == "failed"
    assert learning.table([summary, few]).row_count == 2


@pytest.mark.parametrize("tier", learning.TASKS)
def test_a_plan_trains_five_seeds_of_each_system_and_then_sums_up(tier):
    cells = learning.plan(tier, ["placerl", "sb3"], MAPPING)
    assert len(cells) == len({cell.key for cell in cells}) == 12 * len(learning.TASKS[tier])
    first = [cell.key for cell in cells[:2]]
    assert first == ["learn/cartpole-dqn/placerl/seed0", "learn/cartpole-dqn/sb3/seed0"]
    assert cells[11].key == "learn/cartpole-dqn/sb3/summary"


def test_the_own_worker_trains_ppo_too():
    """Two stretches of a tiny run through the real worker."""
    start = partial(starting.own_worker, str(MAPPING))
    row = learning.train(Task("cartpole-ppo", 20), "placerl", start, 0, silent)
    assert row.status == "ok"
    assert np.isfinite(row.value)


def test_a_run_is_stored_seed_by_seed_and_summed_up(tmp_path, monkeypatch):
    silent_zero = COUNTING.replace("[number]", "[0]")
    monkeypatch.setattr(learning.starting, "own_worker", lambda mapping: fake(COUNTING)())
    monkeypatch.setattr(learning.starting, "baseline_worker", lambda name: fake(silent_zero)())
    cells = learning.plan("quick", ["placerl", "other"], MAPPING)[:12]
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "revision", {"fingerprint": "here"})
        reproduce.execute(run, cells, silent)
        rows = run.measurements(suite="learn")
        assert not [row.reason for row in rows if row.status == "failed"]
        assert len(rows) == 12
        ours, other = learning.summaries(run)
        assert ours.backend == "placerl"
        assert ours.details["seeds"] == 5
        assert ours.value > other.value == 0


def test_a_summary_is_made_anew_once_a_seed_that_failed_has_been_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(learning.starting, "own_worker", lambda mapping: fake("")())
    cells = [cell for cell in learning.plan("quick", ["placerl"], MAPPING) if "cartpole-dqn" in cell.key]
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "revision", {"fingerprint": "here"})
        reproduce.execute(run, cells, silent)
        (before,) = learning.summaries(run)
        assert (before.status, before.details) == ("failed", {"seeds": 0, "failed": 5})
        monkeypatch.setattr(learning.starting, "own_worker", lambda mapping: fake(COUNTING)())
        reproduce.execute(run, cells, silent)
        (after,) = learning.summaries(run)
        assert (after.status, after.details) == ("ok", {"seeds": 5, "failed": 0})
        held = len(run.measurements(suite="learn"))
        reproduce.execute(run, cells, silent)  # nothing is due
        assert len(run.measurements(suite="learn")) == held
