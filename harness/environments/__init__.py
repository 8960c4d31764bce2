"""Creates the environments of workloads: Gymnasium's, and those that this project adds.

Gymnasium is imported when an environment is created or checked: reading a workload needs its table alone.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from placerl.harness.core import simulator_warnings
from placerl.harness.environments.schema import Environment, check_environment, register

if TYPE_CHECKING:
    import gymnasium

__all__ = ["Environment", "Seeded", "check_environment", "make", "register"]


def make(environment: Environment, seed: int) -> "gymnasium.Env[Any, Any]":
    """Create the environment that a workload describes, and reset it once with a seed.

    Use `check_environment` first to report an environment that does not exist.

    Args:
        seed: seed of that reset; further resets need no seed.
    """
    import gymnasium

    from placerl.harness.environments import contract

    register()
    simulator_warnings.route(environment.id)
    env: gymnasium.Env[Any, Any] = gymnasium.make(
        environment.id, disable_env_checker=True, **environment.kwargs
    )
    contract.reset(env, seed)
    return env


@dataclass(frozen=True)
class Seeded:
    """Creates, when called, one environment that has been reset with its seed (`make`).

    Attributes:
        environment: the workload's `[environment]` table.
        seed: seed of the environment.
    """

    environment: Environment
    seed: int

    def __call__(self) -> "gymnasium.Env[Any, Any]":
        return make(self.environment, self.seed)
