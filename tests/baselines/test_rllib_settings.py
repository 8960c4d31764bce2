"""What the programs for RLlib set of it, with an imitation of its modules: they need nothing that RLlib installs."""

import os
import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from unittest.mock import MagicMock

import pytest
import torch

from placerl.harness import workloads
from placerl.harness.compare import registry

SETTING = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


class Imitation(MetaPathFinder, Loader):
    """Imports modules of Ray that do nothing, and notes the setting that Ray reads when it is imported."""

    def __init__(self):
        self.settings = []

    def find_spec(self, name, path, target=None):
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == "ray" else None

    def create_module(self, spec):
        return MagicMock()

    def exec_module(self, module):
        self.settings.append(os.environ[SETTING])


@pytest.fixture
def ray(monkeypatch):
    """The imitation, with what else the programs import."""
    imitation = Imitation()
    for name in [name for name in sys.modules if name.partition(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "placerl.primitives.replay.adapters.rllib_adapter", MagicMock())
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"some {name}")
    monkeypatch.setattr(sys, "meta_path", [imitation, *sys.meta_path])
    for folder in (registry.ENVIRONMENTS, registry.BASELINES):
        monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # a worker sets both for its own process
    monkeypatch.setenv(SETTING, "not set")
    yield imitation
    for name in [name for name in sys.modules if name.partition(".")[0] == "ray"]:
        del sys.modules[name]


def load(name):
    return import_module("job_loop").load(registry.BASELINES / name)


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("interval", [1, 4])
def test_the_target_network_is_updated_after_the_workload_s_gradient_steps(ray, interval, alone):
    """RLlib counts environment steps; learner and replay alone take none, so that nothing updates it."""
    worker = load("rllib/worker.py")
    tables = workloads.load("cartpole-dqn").tables()
    tables["training"]["update_interval"], tables["algorithm"]["target_interval"] = interval, 50
    made = worker.Training.__new__(worker.Training)
    made.notes, made.alone = {}, alone
    made._dqn(tables)
    given = worker.DQNConfig.return_value.training.call_args.kwargs
    assert given["target_network_update_freq"] == 50 * interval
    assert ("target" in made.notes) == alone


@pytest.mark.parametrize("name", ["rllib/worker.py", "rllib/adapter.py", "rllib_2_6_3/worker.py"])
def test_ray_is_kept_on_loopback_before_it_is_imported(ray, name):
    """Whoever reaches its ports runs code here."""
    load(name)
    assert set(ray.settings) == {"0"}


@pytest.mark.parametrize(
    ("device", "seen", "settings"),
    [
        ("cpu", 0, {"num_learners": 0}),
        ("cuda", 1, {"num_learners": 0, "num_gpus_per_learner": 1, "local_gpu_idx": 0}),
        ("cuda:1", 2, {"num_learners": 0, "num_gpus_per_learner": 1, "local_gpu_idx": 1}),
        ("cuda:1", 1, None),
        ("cuda", 0, None),
    ],
)
def test_the_learner_is_on_the_job_s_device_or_refused(ray, monkeypatch, device, seen, settings):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: seen)
    worker = load("rllib/worker.py")
    made = worker.Training.__new__(worker.Training)
    made.notes, made.alone = {}, False
    job = {"workload": workloads.load("cartpole-dqn").tables(), "batch_size": 32, "seed": 0, "device": device}
    if settings is None:
        with pytest.raises(worker.UnsupportedError, match=f"found {device}; PyTorch sees cpu"):
            made._config(job)
        return
    made._config(job)
    configured = worker.DQNConfig.return_value.training.return_value.training.return_value
    placed = configured.environment.return_value.env_runners.return_value.learners
    assert placed.call_args.kwargs == settings


@pytest.mark.parametrize(("device", "gpus"), [("cpu", 0), ("cuda", 1), ("cuda:0", 1), ("cuda:1", None)])
def test_the_older_line_takes_the_first_device_alone(ray, monkeypatch, device, gpus):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    worker = load("rllib_2_6_3/worker.py")
    made = worker.Training.__new__(worker.Training)
    made.notes = {}
    job = {
        "workload": workloads.load("cartpole-ddpg").tables(),
        "batch_size": 32,
        "seed": 0,
        "device": device,
    }
    if gpus is None:
        with pytest.raises(worker.UnsupportedError, match="found cuda:1; allowed: cpu, cuda, cuda:0"):
            made._config(job)
        return
    made._config(job)
    placed = worker.DDPGConfig.return_value.environment.return_value.framework.return_value.resources
    assert placed.call_args.kwargs == {"num_gpus": gpus}


@pytest.mark.parametrize("line", registry.RLLIB)
@pytest.mark.parametrize(
    "name", ["cartpole-dqn", "cartpole-ddpg", "pendulum-td3", "pendulum-sac", "cartpole-ppo"]
)
def test_the_plan_knows_what_a_line_s_worker_trains(ray, line, name):
    worker, item = load(f"{line}/worker.py"), workloads.load(name)
    made = worker.Training.__new__(worker.Training)
    made.notes, made.alone = {}, False
    job = {"workload": item.tables(), "batch_size": 32, "seed": 0}
    if registry.trains(line, item.algorithm.name):
        made._config(job)
    else:
        with pytest.raises(worker.UnsupportedError, match=f"algorithm {item.algorithm.name} is not mapped"):
            made._config(job)
