"""The PPO2-style file's gradient steps are those of PPO with shared layers."""

import importlib
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType

import pytest
import torch

from placerl.harness import workloads
from placerl.harness.compare import registry
from placerl.harness.papers.ppo.shared_trunk import algorithm
from placerl.primitives.algorithms import Algorithm

STEPS, BATCH_SIZE = 4, 16


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The worker's module, whose networks are created in float64, with the references' Adam."""
    for folder in (registry.BASELINES, registry.ENVIRONMENTS):
        monkeypatch.syspath_prepend(str(folder))
    kind = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    module = importlib.import_module("ppo2_style.worker")
    monkeypatch.setattr(module, "ADAM_EPSILON", 1e-8)
    yield module
    torch.set_default_dtype(kind)


def reference(name: str) -> Algorithm:
    """PPO with the workload's settings, and layers that policy and value share."""
    item = workloads.load(name)
    return replace(algorithm(item, shared=item.network.kind == "mlp"), dtype=torch.float64)


@pytest.mark.parametrize("name", ["cartpole-ppo", "hopper-ppo", "pong-ppo"])
def test_its_gradient_steps_are_the_references(worker: ModuleType, name: str) -> None:
    shared, generator = reference(name), torch.Generator().manual_seed(0)
    state = shared.initialise(generator)
    learner = worker.SharedPPO(workloads.load(name).tables())
    own = [*learner.trunk.parameters(), *learner.policy.parameters()]
    own += [learner.log_std] if learner.continuous else []
    own += [*learner.value.parameters()]
    assert [p.shape for p in own] == [value.shape for value in state.network.values()]
    for parameter, value in zip(own, state.network.values(), strict=True):
        parameter.data.copy_(value)
    first = [value.clone() for value in state.network.values()]
    for _ in range(STEPS):
        batch = {}
        for field, (shape, kind) in shared.columns(BATCH_SIZE).items():
            if kind is torch.int64:
                batch[field] = torch.randint(0, shared.action_size, shape, generator=generator)
            elif kind is torch.uint8:
                batch[field] = torch.randint(0, 256, shape, generator=generator, dtype=kind)
            else:
                batch[field] = torch.randn(shape, generator=generator, dtype=kind)
        state = shared.gradient_step(state, batch).state
        learner.update(batch)
        for parameter, value in zip(own, state.network.values(), strict=True):
            torch.testing.assert_close(parameter.data, value, rtol=1e-7, atol=1e-9)
    assert not any(map(torch.equal, state.network.values(), first))
