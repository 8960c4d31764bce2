"""Learners in processes take the step of one learner, and are named when they fail."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import psutil
import pytest
import torch

from placerl.harness import workloads
from placerl.harness.loop.schedule import Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.learners import processes as learner_processes
from placerl.harness.runtime.learners.processes import AggregatedUpdates, LearnerProcesses, parts_of
from placerl.harness.runtime.units.shared_arrays import SharedArrays
from placerl.harness.runtime.units.unit import Unit, UnitError
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives.learner.torch.torch_backend import TorchLearner
from tests.harness.runtime.trainings import replay_training
from tests.limits import LIMIT_S

TORCH = Mapping.parse("torch-native-cpu")
BATCH_SIZE = 25


def batch_of(algorithm, rng):
    batch = {}
    for name, (shape, dtype) in algorithm.columns(BATCH_SIZE).items():
        whole = not dtype.is_floating_point
        batch[name] = (
            rng.integers(0, algorithm.action_size, shape) if whole else rng.random(shape, np.float32)
        )
    return batch, batch.pop("weight")


def test_parts_are_the_batch():
    parts = parts_of(10, 3)
    assert [(part.first, part.end) for part in parts] == [(0, 3), (3, 7), (7, 10)]
    assert [part.rank for part in parts] == [0, 1, 2]


@pytest.mark.parametrize("name", ["hopper-ddpg", pytest.param("pendulum-sac", marks=pytest.mark.slow)])
def test_they_take_the_steps_of_one_learner_up_to_rounding(name):
    algorithm, rng = algorithm_of(workloads.load(name)), np.random.default_rng(0)
    whole = TorchLearner(algorithm, batch_size=BATCH_SIZE, seed=1)
    parallel = LearnerProcesses(algorithm, processes=2, batch_size=BATCH_SIZE, seed=2)
    parallel.load_state_dict(whole.state_dict())
    try:
        for _ in range(4):
            batch, weights = batch_of(algorithm, rng)
            found, expected = parallel.step(batch, weights), whole.step(batch, weights)
            np.testing.assert_allclose(found.td_errors, expected.td_errors, rtol=1e-3, atol=1e-4)
            for loss, value in expected.losses.items():
                assert found.losses[loss] == pytest.approx(value, rel=1e-3, abs=1e-4)
        for key, value in whole.parameters().items():
            np.testing.assert_allclose(parallel.parameters()[key], value, rtol=1e-2, atol=2e-3)
        with pytest.raises(ValueError, match="reward: found NaN"):
            parallel.step(batch | {"reward": np.full_like(batch["reward"], np.nan)}, weights)
        parallel.step(batch, weights)  # all still agree on which step is next
    finally:
        parallel.close()
    parallel.close()
    assert not any(psutil.pid_exists(pid) for pid in parallel.pids)


def test_a_learner_that_is_killed_is_named_and_the_others_end(short):
    training = replay_training(short("cartpole-dqn"), TORCH, schedule=Schedule(learners=2))
    training.warm_up()
    (pid,) = training.learner.pids
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(UnitError, match="learner 1: its process was ended by SIGKILL"):
        training.advance(10**9)
    training.close()
    assert not psutil.pid_exists(pid)


class Store:
    """`torch.distributed.TCPStore` among threads."""

    of_port: ClassVar[dict] = {}

    def __init__(self, host, port, *, is_master, wait_for_workers=True):
        assert not (is_master and wait_for_workers), "the workers are made after it"
        if is_master:
            assert port == 0, "one that is free"
            port = 1000 + len(self.of_port)
            self.of_port[port] = {"lock": threading.Lock(), "tensors": {}}
        self.port, self.shared = port, self.of_port[port]


class Group:
    """`ProcessGroupGloo` among threads."""

    _Options = SimpleNamespace

    @staticmethod
    def create_device(hostname):
        return hostname

    def __init__(self, store, rank, processes, options):
        self.rank, self.processes, self.shared = rank, processes, store.shared
        with self.shared["lock"]:
            self.shared.setdefault("barrier", threading.Barrier(processes, timeout=LIMIT_S))

    def allreduce(self, tensors):
        (tensor,) = tensors
        self.shared["tensors"][self.rank] = tensor.clone()
        self.shared["barrier"].wait()
        tensor.copy_(sum(self.shared["tensors"][rank] for rank in range(self.processes)))
        self.shared["barrier"].wait()
        return SimpleNamespace(wait=lambda: None)


class InThread(Unit):
    """A unit in a thread of this process, which counts the answers that nobody has taken."""

    made: ClassVar[list] = []

    def __init__(self, name, build, shared):
        super().__init__(name, build(shared), depth=4)
        self.pid, self.ready, self.untaken, self.limits_s = len(self.made), False, 0, []
        self.made.append(self)

    def wait_until_ready(self):
        self.ready = True

    def submit(self, request):
        super().submit(request)
        self.untaken += 1

    def result(self, limit_s=LIMIT_S):
        self.limits_s.append(limit_s)
        self.untaken -= 1
        return super().result(limit_s)


@pytest.fixture
def threads(monkeypatch):
    """Processes are threads, so that nothing has to start; the arrays that they share, and the units."""
    monkeypatch.setattr(Store, "of_port", {})
    monkeypatch.setattr(InThread, "made", [])
    monkeypatch.setattr(
        learner_processes, "distributed", SimpleNamespace(TCPStore=Store, ProcessGroupGloo=Group)
    )
    monkeypatch.setattr(learner_processes, "ProcessUnit", InThread)
    monkeypatch.setattr(learner_processes, "close_all", lambda units: [unit.close() for unit in units])
    return InThread.made


def error_and_mean(parameters, batch):
    error = parameters["slope"] * batch["x"] - batch["y"]
    return (error * error).mean(), (error, error.mean(), batch["x"].mean())


def test_aggregated_gradients_and_means_are_the_whole_batchs_and_samples_the_parts_own():
    batch = {"x": torch.arange(1.0, 8.0), "y": torch.arange(7.0) ** 2}
    parameters = {"slope": torch.tensor(3.0)}
    store = Store("here", 0, is_master=True, wait_for_workers=False)

    def part_of(part):
        group = Group(store, part.rank, part.processes, None)
        updates = AggregatedUpdates(group, (part.end - part.first) / 7)
        rows = slice(part.first, part.end)
        return updates.gradients(error_and_mean, parameters, {name: c[rows] for name, c in batch.items()})

    parts = parts_of(7, 3)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(part_of, parts))
    value, (error, *means) = error_and_mean(parameters, batch)
    for part, (gradients, loss, (own, *together)) in zip(parts, found, strict=True):
        torch.testing.assert_close(gradients, {"slope": (2 * error * batch["x"]).mean()})
        torch.testing.assert_close(loss, value)
        torch.testing.assert_close(own, error[part.first : part.end])
        torch.testing.assert_close(together, means)


@pytest.mark.parametrize(("name", "processes"), [("pendulum-sac", 2), ("cartpole-dqn", 3)])
def test_any_number_takes_the_steps_of_one_learner(threads, name, processes):
    algorithm, rng = algorithm_of(workloads.load(name)), np.random.default_rng(0)
    whole = TorchLearner(algorithm, batch_size=BATCH_SIZE, seed=1)
    parallel = LearnerProcesses(algorithm, processes=processes, batch_size=BATCH_SIZE, seed=1)
    assert parallel.pids == list(range(processes - 1))
    assert [unit.name for unit in threads] == [f"learner {rank}" for rank in range(1, processes)]
    assert all(unit.ready for unit in threads)
    for _ in range(3):
        batch, weights = batch_of(algorithm, rng)
        found, expected = parallel.step(batch, weights), whole.step(batch, weights)
        np.testing.assert_allclose(found.td_errors, expected.td_errors, rtol=1e-3, atol=1e-4)
        for loss, value in expected.losses.items():
            assert found.losses[loss] == pytest.approx(value, rel=1e-3, abs=1e-4)
    parallel.load_state_dict(whole.state_dict())
    batch, weights = batch_of(algorithm, rng)
    np.testing.assert_allclose(
        parallel.step(batch, weights).td_errors, whole.step(batch, weights).td_errors, rtol=1e-3, atol=1e-4
    )
    assert not any(unit.untaken for unit in threads), "every answer was waited for"
    parallel.close()
    assert parallel._shared.descriptor == -1, "its memory is given back"


def test_the_seed_is_0_unless_it_is_given(threads):
    algorithm = algorithm_of(workloads.load("cartpole-dqn"))
    parallel = LearnerProcesses(algorithm, processes=2, batch_size=4)
    alone = TorchLearner(algorithm, batch_size=4, seed=0)
    for name, value in alone.parameters().items():
        np.testing.assert_array_equal(parallel.parameters()[name], value)
    parallel.close()


@pytest.mark.parametrize("processes", [0, 1, 5])
def test_there_are_two_processes_at_least_and_one_a_sample_at_most(threads, processes):
    algorithm = algorithm_of(workloads.load("cartpole-dqn"))
    words = f"^processes: found {processes}; allowed: 2 to the batch size, 4$"
    with pytest.raises(ValueError, match=words):
        LearnerProcesses(algorithm, processes=processes, batch_size=4)
    for fine in (2, 4):
        LearnerProcesses(algorithm, processes=fine, batch_size=4).close()


def test_when_a_learner_cannot_be_made_nothing_is_left_of_the_others(threads, monkeypatch):
    arrays = []
    made = SharedArrays.__init__
    monkeypatch.setattr(
        SharedArrays, "__init__", lambda self, *rest: (made(self, *rest), arrays.append(self))[0]
    )

    def fail(unit):
        if unit.name == "learner 2":
            raise UnitError("learner 2: MemoryError")

    monkeypatch.setattr(InThread, "wait_until_ready", fail)
    with pytest.raises(UnitError, match="learner 2: MemoryError"):
        LearnerProcesses(algorithm_of(workloads.load("cartpole-dqn")), processes=3, batch_size=4)
    assert len(threads) == 2
    assert all(unit._closing.is_set() for unit in threads)
    assert [one.descriptor for one in arrays] == [-1]


@pytest.mark.parametrize(
    ("own", "others", "told"),
    [
        (
            None,
            ("BrokenGroupError: closed by peer", "its process was ended by SIGKILL"),
            "learner 2: its process",
        ),
        (
            None,
            ("BrokenGroupError: closed by peer", "stalled: no answer for 1 s"),
            "learner 1: BrokenGroupError",
        ),
        ("found another shape", ("stalled: no answer for 1 s",) * 2, "learner 0: found another shape"),
    ],
)
def test_of_several_learners_the_one_that_ended_is_told(threads, monkeypatch, own, others, told):
    algorithm, rng = algorithm_of(workloads.load("cartpole-dqn")), np.random.default_rng(0)
    parallel = LearnerProcesses(algorithm, processes=3, batch_size=BATCH_SIZE)

    def broken(_):
        raise RuntimeError("Connection closed by peer")

    def wrong(*_):
        raise RuntimeError(own)

    monkeypatch.setattr(parallel._updates._group, "allreduce", broken)
    if own:
        monkeypatch.setattr(parallel, "part_step", wrong)
    for unit, how in zip(threads, others, strict=True):

        def gone(limit_s, unit=unit, how=how):
            raise UnitError(f"{unit.name}: {how}")

        monkeypatch.setattr(unit, "submit", lambda request: None)
        monkeypatch.setattr(unit, "result", gone)
    with pytest.raises(UnitError, match=told):
        parallel.step(*batch_of(algorithm, rng))
    parallel.close()


@pytest.mark.parametrize("other_failed", [False, True])
def test_a_group_that_breaks_is_told_by_who_broke_it(threads, monkeypatch, other_failed):
    algorithm, rng = algorithm_of(workloads.load("cartpole-dqn")), np.random.default_rng(0)
    parallel = LearnerProcesses(algorithm, processes=2, batch_size=BATCH_SIZE)

    def broken(tensors):
        raise RuntimeError("Connection closed by peer")

    def gone(limit_s):
        threads[0].limits_s.append(limit_s)
        if other_failed:
            raise UnitError("learner 1: its process was ended by SIGKILL")

    monkeypatch.setattr(parallel._updates._group, "allreduce", broken)
    monkeypatch.setattr(threads[0], "submit", lambda request: None)
    monkeypatch.setattr(threads[0], "result", gone)
    told = "learner 1: its process was ended by SIGKILL" if other_failed else "learner 0: Connection closed"
    with pytest.raises(UnitError, match=told):
        parallel.step(*batch_of(algorithm, rng))
    assert min(threads[0].limits_s) > 0, "it has time to end"
    parallel.close()
