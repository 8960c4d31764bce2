"""Replays alone: this project's own here, the others in their own environments where those are built."""

import sys

import pytest

from harness import workloads
from harness.compare import registry
from harness.compare.protocol import FailureKind, Worker, WorkerFailure, WorkerJob

LIMIT_S = 300.0

BROKEN = """
import numpy as np
PACKAGES, NOTE, STALE_BATCHES = (), "", 0
class Buffer:
    def __init__(self, workload, batch_size, seed):
        self.rng, self.columns, self.number = np.random.default_rng(seed), None, 0
    def insert(self, columns):
        self.columns, self.number = columns, self.number + len(columns["reward"])
    def sample(self, batch_size):
        columns = {name: np.repeat(column[:1], batch_size, 0) for name, column in self.columns.items()}
        return self.rng.integers(self.number, size=batch_size), np.ones(batch_size), columns
    def update(self, keys, td_errors):
        pass
create = Buffer
"""


def job(name="cartpole-dqn", gradient_steps=50, **training):
    tables = workloads.load(name).tables()
    tables["training"] |= {"learning_starts": 1000} | training
    return WorkerJob(workload=tables, batch_size=32, seed=0, gradient_steps=gradient_steps)


def cycles(worker, asked):
    with worker:
        result = worker.ask(asked, LIMIT_S)
    assert result.gradient_steps == asked.gradient_steps
    assert set(result.terms_s) == {"insert", "sample", "update"}
    assert 0 < sum(result.terms_s.values()) <= result.wall_s
    return result


@pytest.mark.parametrize("name", ["cartpole-dqn", "hopper-ddpg"])
def test_our_replay_goes_through_its_cycles(name):
    assert cycles(registry.own_replay_worker(), job(name)).environment_steps == 50


@pytest.mark.parametrize(("actors", "interval"), [(1, 4), (3, 2), (4, 1)])
def test_insertions_keep_the_update_interval(actors, interval):
    result = cycles(registry.own_replay_worker(), job(actors=actors, update_interval=interval))
    assert abs(result.environment_steps - 50 * interval) < actors


def test_one_that_ignores_priorities_is_not_timed(tmp_path):
    (tmp_path / "replay.py").write_text(BROKEN)
    command = [sys.executable, "-P", str(registry.REPLAY_WORKER), str(tmp_path / "replay.py")]
    environment = {"PYTHONPATH": str(registry.BASELINES)}
    with (
        Worker(command, environment_variables=environment) as worker,
        pytest.raises(WorkerFailure) as failure,
    ):
        worker.ask(job(), LIMIT_S)
    assert failure.value.kind is FailureKind.CRASH
    assert "drawn too seldom" in failure.value.last_lines[-1]


def test_a_workload_without_a_replay_is_refused():
    with registry.own_replay_worker() as worker, pytest.raises(WorkerFailure, match="no prioritised replay"):
        worker.ask(
            WorkerJob(
                workload=workloads.load("cartpole-ppo").tables(), batch_size=32, seed=0, gradient_steps=1
            ),
            60,
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cpprb", "reverb"])
def test_another_replay_in_its_own_environment(name):
    assert registry.replay_alone(name)
    if not registry.baseline_python(name).exists():
        pytest.skip(f"baselines/{name}/.venv is not built: `placerl baselines {name}`")
    cycles(registry.baseline_worker(name), job())
