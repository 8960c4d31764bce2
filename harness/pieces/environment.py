"""Defines how the step of an environment is timed."""

from typing import Any, NamedTuple

import gymnasium

from placerl.harness import environments
from placerl.harness.environments.contract import Contract
from placerl.harness.mapping.target import CPU
from placerl.harness.measure.protocol import Case
from placerl.harness.pieces.base import PrimitiveCase, expect_equal
from placerl.harness.workloads import Workload


class _Stepped(NamedTuple):
    environment: gymnasium.Env[Any, Any]
    contract: Contract


def environment_case(workload: Workload) -> PrimitiveCase:
    """Return the benchmark case of an environment's step with random actions, as an actor takes it.

    What the environment returns is checked (`Contract`), as in training. A reset follows the end of an episode.
    """

    def setup() -> _Stepped:
        environment = environments.make(workload.environment, 0)
        assert environment.observation_space.shape is not None
        contract = Contract(environment, environment.observation_space.shape)
        environment.reset(seed=0)
        environment.action_space.seed(0)
        return _Stepped(environment, contract)

    def check(stepped: _Stepped) -> None:
        twin = environments.make(workload.environment, 0)
        twin.reset(seed=0)
        for _ in range(10):
            action = stepped.environment.action_space.sample()
            actual, expected = stepped.contract.step(action), twin.step(action)
            expect_equal(actual[0], expected[0], "observation")
            if actual[1:] != expected[1:4]:
                raise AssertionError(f"step: found {actual[1:]}; expected {expected[1:4]}")
            if actual[2] or actual[3]:
                break
        twin.close()
        stepped.environment.reset(seed=0)

    def call(stepped: _Stepped, action: Any) -> None:
        _, _, terminated, truncated = stepped.contract.step(action)
        if terminated or truncated:
            stepped.contract.reset()

    return PrimitiveCase(
        "environment.step",
        CPU,
        1,
        Case(
            name="environment.step",
            setup=setup,
            check=check,
            inputs=lambda stepped, rng: stepped.environment.action_space.sample(),
            call=call,
        ),
    )
