"""Learning runs: like for like, scores from the end of training, summaries over seeds, failures recorded."""

import sys
from functools import partial

import numpy as np
import pytest
from rich.console import Console

from placerl.harness import workloads
from placerl.harness.compare import learning, registry
from placerl.harness.compare.learning import LearnedTask
from placerl.harness.compare.protocol import Worker, WorkerResult
from placerl.harness.core.progress import silent
from placerl.harness.core.quantities import better
from placerl.harness.mapping import Mapping
from placerl.harness.plan import execution
from placerl.harness.store.store import Store
from tests.harness.old_form import details_of, replace

MAPPING = Mapping.parse(learning.DEFAULT_MAPPING)


class Counting:
    """A worker in this process: answers a job with its number as the only return, and two environment steps a step."""

    def __init__(self, returns=lambda number, job: [number]):
        self.returns, self.jobs = returns, 0

    def __enter__(self):
        return self

    def __exit__(self, *_): ...

    def ask(self, job, limit_s):
        number, self.jobs = self.jobs, self.jobs + 1
        steps = job.gradient_steps
        return WorkerResult(
            gradient_steps=steps,
            environment_steps=2 * steps,
            wall_s=1.0,
            episode_returns=self.returns(number, job),
            versions={},
        )


def fake(program):
    return partial(Worker, [sys.executable, "-c", program])


def test_what_only_this_project_has_is_off():
    item = learning.like_for_like("cartpole-dqn")
    assert not item.replay.prioritized
    assert not item.algorithm.hyperparameters["double"]
    assert learning.like_for_like("cartpole-ddpg").algorithm == workloads.load("cartpole-ddpg").algorithm


def test_own_settings_are_the_workloads_and_rows_say_which():
    assert learning.trained_workload("cartpole-dqn", "placerl, own settings") == workloads.load(
        "cartpole-dqn"
    )
    like = learning.like_for_like("cartpole-dqn")
    assert learning.trained_workload("cartpole-dqn", "placerl") == like
    assert learning.trained_workload("cartpole-dqn", "sb3") == like
    told = {
        system: details_of(learning.train(LearnedTask("cartpole-dqn", 100), system, Counting, 0, silent))[
            "settings"
        ]
        for system in ("placerl", "placerl, own settings")
    }
    off = {"replay.prioritized": False, "algorithm.double": False, "algorithm.loss": "huber"}
    assert told == {
        "placerl": off,
        "placerl, own settings": off
        | {"replay.prioritized": True, "algorithm.double": True, "algorithm.loss": "squared"},
    }
    assert learning.settings_of(workloads.load("cartpole-ddpg")) == {"replay.prioritized": True}
    assert learning.settings_of(workloads.load("cartpole-ppo")) == {}


def test_what_is_trained_is_what_the_system_is_to_train():
    """The worker is sent the workload with its prioritised replay, or without."""
    echo = partial(Counting, lambda number, job: [float(job.workload["replay"]["prioritized"])])
    for system, sent in (("placerl", 0), ("placerl, own settings", 1), ("sb3", 0)):
        row = learning.train(LearnedTask("cartpole-dqn", 100), system, echo, 0, silent)
        assert row.value == sent


def test_the_score_is_of_the_last_fifth():
    row = learning.train(LearnedTask("cartpole-dqn", 100), "fake", Counting, 3, silent)
    assert row.samples == (8, 9)
    assert row.value == 8.5
    assert row.seed == 3
    assert details_of(row)["environment_steps"] == [20 * n for n in range(1, 11)]
    assert row.mean_returns == list(range(10))
    assert row.gradient_steps == 100


def test_a_system_that_fails_is_a_row():
    row = learning.train(LearnedTask("cartpole-dqn", 100), "fake", fake("print('no')"), 0, silent)
    assert row.status == "failed"
    assert row.seed == 0


def test_a_run_without_episodes_at_its_end_is_no_score():
    endless = partial(Counting, lambda number, job: [])
    row = learning.train(LearnedTask("cartpole-dqn", 100), "fake", endless, 0, silent)
    assert row.status == "failed"
    assert "no episode ended" in row.reason


def scored(*values):
    return [
        learning.train(
            LearnedTask("cartpole-dqn", 100),
            "fake",
            partial(Counting, lambda number, job, value=value: [value]),
            0,
            silent,
        )
        for value in values
    ]


def test_a_summary_is_over_seeds():
    rows = scored(1, 2, 3, 4, 50)
    failed = learning.train(LearnedTask("cartpole-dqn", 100), "fake", fake(""), 0, silent)
    summary = learning.summary("cartpole-dqn", "fake", [*rows, failed])
    assert summary.value == 3
    assert 1 <= summary.low <= 3 <= summary.high <= 50
    assert details_of(summary) == {"seeds": 5, "failed": 1}
    few = learning.summary("cartpole-dqn", "fake", rows[:2])
    assert (few.value, few.low) == (1.5, None)
    assert learning.summary("cartpole-dqn", "fake", [failed]).status == "failed"
    assert learning.table([summary, few]).row_count == 2


def curve(*returns, seed=0, first_step=100):
    """A seed's row: the mean return of every stretch, each of `first_step` environment steps."""
    steps = [first_step * (k + 1) for k in range(len(returns))]
    details = {"seed": seed, "mean_returns": list(returns), "environment_steps": steps}
    return replace(scored(0)[0], value=float(returns[-1] or 0), details=details)


def test_the_best_is_of_the_stretch_in_which_the_seeds_together_were_best():
    # One seed alone is best in the second stretch, all of them in the third.
    rows = [
        curve(0, 90, 50, 10, seed=0),
        *(curve(0, 10, 50, 10, seed=seed, first_step=110) for seed in range(4)),
    ]
    best = learning.best("cartpole-dqn", "fake", rows)
    assert (best.quantity, best.value, best.samples) == ("best_interquartile_mean_return", 50, (50,) * 5)
    assert details_of(best) == {
        "seeds": 5, "failed": 0, "stretch": 3, "stretches": 4, "environment_steps": 330,
    }  # fmt: skip
    assert best.low == best.high == 50
    assert better(best.quantity, best.unit) == better("interquartile_mean_return", "1") is not None
    assert learning.summary("cartpole-dqn", "fake", rows).value == 10


def test_the_best_is_of_a_stretch_that_every_seed_has():
    rows = [curve(None, 90, 20, 10), curve(80, None, 20, 10)]
    assert learning.best("cartpole-dqn", "fake", rows).value == 20
    none = learning.best("cartpole-dqn", "fake", [curve(None, 90), curve(80, None)])
    assert (none.status, none.value) == ("not_run", None)
    assert learning.best("cartpole-dqn", "fake", []).status == "not_run"


def test_the_table_shows_the_best_beside_the_end(capsys):
    rows = [curve(0, 480, 30, seed=seed) for seed in range(5)]
    made = [f("cartpole-dqn", "fake", rows) for f in (learning.summary, learning.best)]
    lost = learning.summary("pendulum-sac", "fake", [])
    Console(width=200).print(learning.table([made[0], lost], made[1:]))
    printed = [[c.strip() for c in line.split("│")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    assert ["cartpole-dqn", "fake", "30 [30, 30]", "480 [480, 480]", "200", "5", "measured"] in printed
    assert ["pendulum-sac", "fake", "every seed failed", "", "", "0", "measured"] in printed


@pytest.mark.parametrize("tier", learning.TASKS)
def test_a_plan_trains_five_seeds_of_each_system_and_then_sums_up(tier):
    cells = learning.plan(tier, ["placerl", "sb3"], MAPPING)
    # Five seeds and a summary of each system; of this project's own settings too, where there is a replay.
    sides = [2 if task.workload.endswith("ppo") else 3 for task in learning.TASKS[tier]]
    assert len(cells) == len({cell.key for cell in cells}) == 6 * sum(sides)
    first = [cell.key.removeprefix("learn/cartpole-dqn/") for cell in cells[:18]]
    systems = ["placerl", "sb3", "placerl, own settings"]
    assert first[:3] == [f"{system}/seed0" for system in systems]
    assert first[15:] == [f"{system}/summary" for system in systems]
    assert not any(cell.key.startswith("learn/cartpole-ppo/placerl, own") for cell in cells)
    assert not any("own settings" in cell.key for cell in learning.plan(tier, ["sb3"], MAPPING))


def test_no_row_of_one_mapping_stands_for_another(tmp_path, monkeypatch):
    other = Mapping.parse("native[dynamic]-native-cpu")
    plans = [learning.plan("quick", ["placerl", "sb3"], mapping) for mapping in (MAPPING, other)]
    ours, theirs = ({cell.key for cell in plan} for plan in plans)
    assert {key.split("/")[2] for key in ours & theirs} == {"sb3"}
    assert "learn/cartpole-dqn/placerl (native[dynamic]-native-cpu)/seed0" in theirs
    own = "placerl, own settings (native[dynamic]-native-cpu)"
    assert learning.trained_workload("cartpole-dqn", own) == workloads.load("cartpole-dqn")
    asked = []
    monkeypatch.setattr(learning.registry, "own_worker", lambda mapping: asked.append(mapping) or Counting())
    monkeypatch.setattr(learning.registry, "baseline_worker", lambda name: Counting())
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "revision", {"fingerprint": "here"})
        for cells in plans:
            execution.execute(run, cells[:18], silent)
        assert asked == [str(MAPPING)] * 10 + [str(other)] * 10
        systems = ["placerl", "sb3", "placerl, own settings", "placerl (native[dynamic]-native-cpu)", own]
        assert [row.who for row in learning.summaries(run)] == systems


def test_the_own_worker_trains_ppo_too():
    """Two stretches of a tiny run through the real worker."""
    start = partial(registry.own_worker, str(MAPPING))
    row = learning.train(LearnedTask("cartpole-ppo", 20), "placerl", start, 0, silent)
    assert row.status == "ok"
    assert np.isfinite(row.value)


def test_a_run_is_stored_seed_by_seed_and_summed_up(tmp_path, monkeypatch):
    monkeypatch.setattr(learning.registry, "own_worker", lambda mapping: Counting())
    monkeypatch.setattr(learning.registry, "baseline_worker", lambda name: Counting(lambda number, job: [0]))
    cells = learning.plan("quick", ["placerl", "other"], MAPPING)[:18]
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "revision", {"fingerprint": "here"})
        execution.execute(run, cells, silent)
        rows = run.measurements(suite="learn")
        assert not [row.reason for row in rows if row.status == "failed"]
        assert len(rows) == 21  # five seeds of each, its end and its best
        assert [row.value for row in learning.bests(run)] == [9, 0, 9]
        ours, other, own = learning.summaries(run)
        assert (own.who, own.value) == ("placerl, own settings", ours.value)
        assert ours.who == "placerl"
        assert details_of(ours)["seeds"] == 5
        assert ours.value > other.value == 0


def test_rows_name_the_device_of_our_networks(tmp_path, monkeypatch):
    """The libraries train on the CPU, whatever this project's mapping."""
    mapping = Mapping.parse("torch:cuda-native-cpu")
    for name in ("own_worker", "baseline_worker"):
        monkeypatch.setattr(learning.registry, name, lambda of: Counting())
    cells = learning.plan("quick", ["placerl", "sb3"], mapping)[:18]
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "revision", {"fingerprint": "here"})
        execution.execute(run, cells, silent)
        found = {(row.who, row.quantity, row.where) for row in run.measurements(suite="learn")}
    systems = {"sb3": "cpu"} | dict.fromkeys(
        (learning.under(side, mapping) for side in (learning.OURS, learning.OWN_SETTINGS)), "cuda"
    )
    quantities = ("final_return", learning.END, learning.BEST)
    assert found == {(name, of, device) for name, device in systems.items() for of in quantities}


def test_a_summary_is_made_anew_once_a_seed_that_failed_has_been_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(learning.registry, "own_worker", lambda mapping: fake("")())
    cells = [
        cell for cell in learning.plan("quick", ["placerl"], MAPPING) if "cartpole-dqn/placerl/" in cell.key
    ]
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "revision", {"fingerprint": "here"})
        execution.execute(run, cells, silent)
        (before,) = learning.summaries(run)
        assert (before.status, details_of(before)) == ("failed", {"seeds": 0, "failed": 5})
        monkeypatch.setattr(learning.registry, "own_worker", lambda mapping: Counting())
        execution.execute(run, cells, silent)
        (after,) = learning.summaries(run)
        assert (after.status, details_of(after)) == ("ok", {"seeds": 5, "failed": 0})
        held = len(run.measurements(suite="learn"))
        execution.execute(run, cells, silent)  # nothing is due
        assert len(run.measurements(suite="learn")) == held
