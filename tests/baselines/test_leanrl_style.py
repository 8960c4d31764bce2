"""The LeanRL-style file's Adam, which its compiled steps contain, takes PyTorch's steps; here it is not compiled."""

import copy
import importlib
import sys
from types import ModuleType

import pytest
import torch
import torch._dynamo.config
from torch import nn

from placerl.harness.compare import registry

NORM, EPSILON, RATES = 0.1, 1e-5, (1e-2, 1e-3)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The worker's module; what it replaces when it is imported is as before afterwards."""
    for folder in (registry.BASELINES, registry.ENVIRONMENTS):
        monkeypatch.syspath_prepend(str(folder))
    plain = importlib.import_module("cleanrl_style.worker")
    for name in ("adam", "take_step"):
        monkeypatch.setattr(plain, name, getattr(plain, name))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "unused")
    monkeypatch.setattr(torch._dynamo.config, "trace_autograd_ops", True)
    monkeypatch.delitem(sys.modules, "leanrl_style.worker", raising=False)
    return importlib.import_module("leanrl_style.worker")


def test_its_adam_takes_the_steps_of_pytorch_s(worker: ModuleType) -> None:
    """Of two networks with a step size each, whose gradients have a joint norm."""
    generator = torch.Generator().manual_seed(0)
    own = nn.Linear(3, 4), nn.Linear(3, 1)
    theirs = copy.deepcopy(own)
    adam = worker.Adam(*zip(RATES, own, strict=True), epsilon=EPSILON)
    groups = [{"params": [*one.parameters()], "lr": rate} for rate, one in zip(RATES, theirs, strict=True)]
    optimizer = torch.optim.Adam(groups, eps=EPSILON)

    def loss(networks: tuple[nn.Module, ...], x: torch.Tensor) -> torch.Tensor:
        return sum((one(x).square().mean() for one in networks), torch.zeros(()))

    for _ in range(5):
        x = torch.randn(8, 3, generator=generator)
        worker.take_step(adam, loss(own, x), NORM)
        optimizer.zero_grad()
        loss(theirs, x).backward()
        nn.utils.clip_grad_norm_([p for one in theirs for p in one.parameters()], NORM)
        optimizer.step()
    for mine, wanted in zip(own, theirs, strict=True):
        for parameter, value in zip(mine.parameters(), wanted.parameters(), strict=True):
            torch.testing.assert_close(parameter, value, rtol=1e-4, atol=1e-6)
