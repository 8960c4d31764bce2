"""The task of `tests.primitives.algorithms.trainings` as a workload of the runtime."""

import gymnasium

from placerl.harness import workloads
from placerl.harness.workloads import Workload
from tests.primitives.algorithms.rail import RailEnvironment


def dqn_on_a_rail() -> Workload:
    """Return DQN with prioritised replay and a single rail."""
    if "Rail-v0" not in gymnasium.registry:
        gymnasium.register("Rail-v0", RailEnvironment)
    tables = workloads.load("cartpole-dqn").tables()
    tables["environment"] |= {"id": "Rail-v0", "observation_shape": (2,), "action_size": 2}
    tables["algorithm"] |= {
        "gamma": 0.9, "learning_rate": 2e-3, "target_interval": 20, "exploration_steps": 2_000,
    }  # fmt: skip
    tables["network"]["hidden"] = [32, 32]
    tables["replay"]["capacity"] = 10_000
    tables["training"] |= {
        "batch_size": 64, "batch_sizes": [64], "learning_starts": 800, "update_interval": 8,
    }  # fmt: skip
    return workloads.from_tables(tables, "test")
