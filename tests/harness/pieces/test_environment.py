"""An environment's step is timed as training takes it: with the checks of what it returns."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from placerl.harness import environments, workloads
from placerl.harness.core.errors import UserError
from placerl.harness.environments.contract import Contract
from placerl.harness.environments.native_pool import NativePool
from placerl.harness.pieces.environment import environment_case

TABLE = workloads.load("cartpole-dqn").environment
GYMNASIUMS = workloads.load("cartpole-dqn").model_copy(
    update={"environment": TABLE.model_copy(update={"kwargs": {"sutton_barto_reward": False}})}
)
"""With an argument that native environments do not take."""


class Reporting(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Returns the reward as text from the step numbered `wrong` on."""

    def __init__(self, environment: gymnasium.Env[Any, Any], wrong: int) -> None:
        super().__init__(environment)
        self._left = wrong

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, *rest = self.env.step(action)
        self._left -= 1
        return observation, reward if self._left >= 0 else "1", *rest  # type: ignore[return-value]


def test_a_timed_step_is_checked_as_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    make = environments.make
    monkeypatch.setattr(environments, "make", lambda *given: Reporting(make(*given), 3))
    case = environment_case(GYMNASIUMS).case
    made = case.setup()
    for _ in range(3):
        case.call(made, case.inputs(made, np.random.default_rng(0)))
    with pytest.raises(UserError, match=r"reward: found '1'; allowed: a number"):
        case.call(made, 0)


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (workloads.load("cartpole-dqn"), NativePool),
        (workloads.load("pendulum-ddpg"), NativePool),
        (GYMNASIUMS, Contract),
    ],
)
def test_a_timed_step_is_that_of_the_environment_and_resets_it(
    item: workloads.Workload, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = environment_case(item).case
    made = case.setup()
    case.check(made)
    resets: list[None] = []
    reset = kind.reset
    monkeypatch.setattr(kind, "reset", lambda self, *which: resets.append(None) or reset(self, *which))
    for _ in range(250):  # longer than a random episode of CartPole, and than one of Pendulum
        case.call(made, case.inputs(made, np.random.default_rng(0)))
    assert resets
