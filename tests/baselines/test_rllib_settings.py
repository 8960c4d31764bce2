"""What the RLlib worker sets of RLlib, with an imitation of its modules: it needs nothing that RLlib installs."""

import sys
from unittest.mock import MagicMock

import pytest

from placerl.harness import workloads
from placerl.harness.compare import registry

MODULES = ("algorithm", "dqn", "ppo", "sac")


@pytest.fixture
def worker(monkeypatch):
    names = ("ray", "ray.rllib", "ray.rllib.algorithms", "ray.tune", "ray.tune.registry")
    for name in (*names, *(f"ray.rllib.algorithms.{module}" for module in MODULES)):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    for folder in (registry.ENVIRONMENTS, registry.BASELINES):
        monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "set by the worker, for its own process")
    import job_loop

    return job_loop.load(registry.BASELINES / "rllib" / "worker.py")


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("interval", [1, 4])
def test_the_target_network_is_updated_after_the_workload_s_gradient_steps(worker, interval, alone):
    """RLlib counts environment steps; learner and replay alone take none, so that nothing updates it."""
    tables = workloads.load("cartpole-dqn").tables()
    tables["training"]["update_interval"], tables["algorithm"]["target_interval"] = interval, 50
    made = worker.Training.__new__(worker.Training)
    made.notes, made.alone = {}, alone
    made._dqn(tables)
    given = worker.DQNConfig.return_value.training.call_args.kwargs
    assert given["target_network_update_freq"] == 50 * interval
    assert ("target" in made.notes) == alone


def test_what_starts_ray_keeps_it_on_loopback_before_it_imports_it():
    """Ray reads the setting when it is imported. Whoever reaches its ports runs code here."""
    setting = 'os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"'
    texts = {path: path.read_text() for path in registry.BASELINES.glob("*/*.py")}
    starting = {path: text for path, text in texts.items() if "ray.init(" in text}
    assert len(starting) >= 3
    for path, text in starting.items():
        assert -1 < text.find(setting) < text.find("\nimport ray\n"), path
