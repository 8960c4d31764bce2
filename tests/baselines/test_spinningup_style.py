"""The Spinning-Up-style file's processes together take the step of one that has all samples; here they are threads."""

import importlib
import multiprocessing
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from placerl.harness import workloads
from placerl.harness.compare import registry
from placerl.primitives.algorithms import ppo

PROCESSES, SHARE, NORM = 3, 8, 0.05


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The worker's module; PyTorch's threads and random numbers are as before afterwards."""
    for folder in (registry.BASELINES, registry.ENVIRONMENTS):
        monkeypatch.syspath_prepend(str(folder))
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    yield importlib.import_module("spinningup_style.worker")
    torch.set_num_threads(threads)
    torch.set_rng_state(state)


def processes_of(worker: ModuleType, name: str, **algorithm: Any) -> Sequence[Any]:
    """The processes of a workload, with the averages of threads."""
    tables = workloads.load(name).tables()
    tables["training"]["actors"] = PROCESSES
    tables["algorithm"] |= algorithm
    average = worker.Average(multiprocessing.get_context("fork"), PROCESSES, 1 << 14)
    asked = {"workload": tables, "batch_size": PROCESSES * SHARE, "seed": 3, "threads": 1}
    return [worker.Process(asked, rank, average) for rank in range(PROCESSES)]


def at_once(call: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
    """The results of calls that wait for each other."""
    with ThreadPoolExecutor(len(arguments[0])) as threads:
        return list(threads.map(call, *arguments))


def test_an_average_is_over_all_processes(worker: ModuleType) -> None:
    average = worker.Average(multiprocessing.get_context("fork"), PROCESSES, 7)
    vectors = np.random.default_rng(0).standard_normal((PROCESSES, 5)).astype(np.float32)
    averaged = vectors.copy()
    at_once(average, range(PROCESSES), averaged)
    np.testing.assert_allclose(averaged, np.tile(vectors.mean(0), (PROCESSES, 1)), rtol=1e-5, atol=1e-7)
    average.abort()
    with pytest.raises(threading.BrokenBarrierError):
        average(0, averaged[0])


def losses(learner: Any, batch: dict[str, torch.Tensor]) -> list[tuple[Any, tuple[torch.Tensor, ...]]]:
    """Each optimiser, with the loss of its network and, for the policy, the KL divergence."""
    value = learner.value(batch["observation"]).squeeze(1)
    return [
        (learner.policy_optimizer, learner.policy_loss(learner.policy(batch["observation"]), batch)),
        (learner.value_optimizer, (nn.functional.mse_loss(value, batch["value_target"]),)),
    ]


@pytest.mark.parametrize("name", ["cartpole-ppo", "hopper-ppo"])
def test_their_steps_are_those_of_the_whole_mini_batch(worker: ModuleType, name: str) -> None:
    settings = {"maximum_gradient_norm": NORM, "entropy_coefficient": 0.1, "trajectory_length": SHARE}
    processes = processes_of(worker, name, **settings)
    batches = at_once(worker.Process.normalized, processes, [one.collect()[0] for one in processes])
    together = {key: torch.cat([batch[key] for batch in batches]) for key in batches[0]}
    assert together["advantage"].mean() == pytest.approx(0, abs=1e-5)
    assert together["advantage"].std(correction=0) == pytest.approx(1, rel=1e-4)
    whole = processes_of(worker, name, **settings)[0].learner  # the same networks, of the same seed
    for number, (optimizer, (loss, *_)) in enumerate(losses(whole, together)):
        loss.backward()
        parameters = optimizer.param_groups[0]["params"]
        assert nn.utils.clip_grad_norm_(parameters, NORM) > NORM

        def step(process: Any, batch: dict[str, torch.Tensor], number: int = number) -> bool:
            own, of = losses(process.learner, batch)[number]
            return process.step(own, *of)

        assert all(at_once(step, processes, batches))
        for process in processes:
            taken = losses(process.learner, batches[0])[number][0].param_groups[0]["params"]
            for own, wanted in zip(taken, parameters, strict=True):
                torch.testing.assert_close(own.grad, wanted.grad, rtol=1e-3, atol=1e-6)


def test_all_stop_where_the_average_divergence_is_too_large(worker: ModuleType) -> None:
    processes = processes_of(worker, "cartpole-ppo", target_kl=0.1)
    before = [[p.clone() for p in process.learner.policy.parameters()] for process in processes]

    def step(process: Any, divergence: float) -> bool:
        loss = process.learner.policy(torch.ones(2, 4)).square().mean()
        return process.step(process.learner.policy_optimizer, loss, torch.tensor(divergence))

    assert at_once(step, processes, [0.0, 0.3, 0.2]) == [False] * PROCESSES
    for process, first in zip(processes, before, strict=True):
        assert all(map(torch.equal, process.learner.policy.parameters(), first))
    assert at_once(step, processes, [0.0, 0.3, 0.1]) == [True] * PROCESSES
    for process, first in zip(processes, before, strict=True):
        assert not torch.equal(next(process.learner.policy.parameters()), first[0])


def test_advantages_are_the_references(worker: ModuleType) -> None:
    rng = np.random.default_rng(0)
    reward, value, following = rng.standard_normal((3, 40, 2))
    terminated, truncated = rng.random((2, 40, 2)) < 0.1
    wanted = ppo.advantages(reward, value, following, terminated, truncated, gamma=0.9, gae_lambda=0.8)
    over = terminated | truncated
    np.testing.assert_allclose(
        worker.advantages(reward, value, following, terminated, over, 0.9, 0.8), wanted, rtol=1e-12
    )
