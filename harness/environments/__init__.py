"""Environments: Gymnasium's, and those that this project adds to them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium

from harness.core import simulator_warnings
from harness.environments import atari_frames, continuous_cartpole

if TYPE_CHECKING:
    from harness.workloads import Environment

__all__ = ["Seeded", "atari_frames", "continuous_cartpole", "make"]


def make(environment: "Environment", seed: int) -> gymnasium.Env[Any, Any]:
    """An environment that a workload describes (`harness.workloads.schema.check_environment` says whether it exists).

    Args:
        environment: the workload's `[environment]` table.
        seed: of the environment, which has been reset with it: the caller's resets need none.
    """
    simulator_warnings.route(environment.id)
    made: gymnasium.Env[Any, Any] = gymnasium.make(
        environment.id, disable_env_checker=True, **environment.kwargs
    )
    made.reset(seed=seed)
    return made


@dataclass(frozen=True)
class Seeded:
    """Makes one environment that has been reset with its seed.

    Attributes:
        environment: the workload's `[environment]` table.
        seed: of the environment.
    """

    environment: "Environment"
    seed: int

    def __call__(self) -> gymnasium.Env[Any, Any]:
        return make(self.environment, self.seed)
