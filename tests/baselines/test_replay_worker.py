"""Replays alone: this project's own here, the others in their own environments where those are built."""

import sys

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.compare import registry
from placerl.harness.compare.protocol import FailureKind, Worker, WorkerFailure, WorkerJob
from tests.limits import LIMIT_S

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
            LIMIT_S,
        )


LARGEST_FIRST = """
import numpy as np
PACKAGES, NOTE, STALE_BATCHES = (), "", 0
class Buffer:
    # Stores what is new with the largest priority so far, as cpprb and Reverb do; counts the buffers in use.
    open = most_open = 0
    def __init__(self, workload, batch_size, seed):
        self.rng, self.columns, self.largest = np.random.default_rng(seed), None, 1.0
        self.priorities = np.zeros(0)
        Buffer.open += 1
        Buffer.most_open = max(Buffer.open, Buffer.most_open)
    def insert(self, columns):
        self.columns = columns
        self.priorities = np.append(self.priorities, np.full(len(columns["reward"]), self.largest))
    def sample(self, batch_size):
        columns = {name: np.repeat(column[:1], batch_size, 0) for name, column in self.columns.items()}
        share = self.priorities ** 0.6
        keys = self.rng.choice(len(share), batch_size, p=share / share.sum())
        return keys, np.ones(batch_size), columns
    def update(self, keys, td_errors):
        self.priorities[keys] = td_errors
        self.largest = max(self.largest, float(td_errors.max()))
    def close(self):
        Buffer.open -= 1
create = Buffer
"""


@pytest.fixture
def replay_worker(monkeypatch):
    monkeypatch.syspath_prepend(str(registry.BASELINES))
    import replay_worker

    return replay_worker


def share_of_the_newest_row(cycles):
    """The share of a thousand batches, as those are drawn in a cycle: right after an insertion."""
    cycles._insert()
    keys = np.concatenate([np.array(cycles.buffer.sample(32)[0]) for _ in range(1000)])
    return float((keys == cycles.inserted - 1).mean())


def test_the_check_leaves_no_trace_in_what_is_timed(replay_worker, tmp_path):
    """It sets a priority of 1e9; a later insertion with the largest so far would be nearly all of each batch."""
    (tmp_path / "replay.py").write_text(LARGEST_FIRST)
    for path in (registry.OWN_REPLAY, tmp_path / "replay.py"):
        module = replay_worker.load(path)
        cycles = replay_worker.Cycles(job().model_dump(), module)
        assert cycles.inserted == 1000 + replay_worker.WARM_UP_CYCLES
        assert share_of_the_newest_row(cycles) < 0.05
    assert (module.Buffer.open, module.Buffer.most_open) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cpprb", "reverb"])
def test_another_replay_in_its_own_environment(name):
    assert registry.replay_alone(name)
    if not registry.is_built(name):
        pytest.skip(f"baselines/{name}/.venv is not built: `placerl baselines {name}`")
    cycles(registry.baseline_worker(name), job())
