"""What the RLlib worker sets of RLlib, with an imitation of its modules: it needs nothing that RLlib installs."""

import sys
from unittest.mock import MagicMock

import pytest

from harness import workloads
from harness.compare import registry

MODULES = ("algorithm", "dqn", "ppo", "sac")


@pytest.fixture
def worker(monkeypatch):
    names = ("ray", "ray.rllib", "ray.rllib.algorithms", "ray.tune", "ray.tune.registry")
    for name in (*names, *(f"ray.rllib.algorithms.{module}" for module in MODULES)):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    for folder in (registry.ENVIRONMENTS, registry.BASELINES):
        monkeypatch.syspath_prepend(str(folder))
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
