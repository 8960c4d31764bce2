"""Defines how the step of an environment is timed."""

from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np

from placerl.harness import environments
from placerl.harness.environments.contract import Contract
from placerl.harness.environments.env_pool import Stepped
from placerl.harness.environments.native_pool import NativePool
from placerl.harness.loop.schedule import STRICT, Environments
from placerl.harness.mapping.target import CPU
from placerl.harness.measure.protocol import Case
from placerl.harness.pieces.base import PrimitiveCase, expect_equal
from placerl.harness.workloads import Workload

_FIRST = np.zeros(1, np.int64)


class _One(Protocol):
    """One environment, as an actor steps it."""

    @property
    def action_space(self) -> gymnasium.Space[Any]: ...

    def reset(self) -> Any: ...

    def step(self, action: Any) -> tuple[Any, Any, Any, Any]: ...


class _Checked(NamedTuple):
    """One of Gymnasium's, whose answers are checked (`Contract`)."""

    action_space: gymnasium.Space[Any]
    contract: Contract

    def reset(self) -> Any:
        return self.contract.reset()

    def step(self, action: Any) -> tuple[Any, Any, Any, Any]:
        return self.contract.step(action)


class _Native(NamedTuple):
    """One in C++; it returns arrays of one element."""

    action_space: gymnasium.Space[Any]
    pool: NativePool

    def reset(self) -> Any:
        return self.pool.reset(_FIRST)[0]

    def step(self, action: Any) -> Stepped:
        return self.pool.step(np.asarray(action)[None])


def environment_case(workload: Workload) -> PrimitiveCase:
    """Return the benchmark case of an environment's step with random actions, as an actor takes it.

    The step is that of C++ where it has the environment. What another one returns is checked (`Contract`), as in
    training. A reset follows the end of an episode.
    """

    def setup() -> _One:
        if STRICT.stepping(workload) is Environments.NATIVE:
            pool = NativePool(workload.environment, [0])
            pool.reset()
            pool.action_space.seed(0)
            return _Native(pool.action_space, pool)
        environment = environments.make(workload.environment, 0)
        assert environment.observation_space.shape is not None
        contract = Contract(environment, environment.observation_space.shape)
        contract.reset()
        environment.action_space.seed(0)
        return _Checked(environment.action_space, contract)

    def check(stepped: _One) -> None:
        twin = environments.make(workload.environment, 0)
        twin.reset()
        for _ in range(10):
            action = stepped.action_space.sample()
            actual, expected = stepped.step(action), twin.step(action)
            expect_equal(np.ravel(actual[0]), np.ravel(expected[0]), "observation")
            if actual[1:] != expected[1:4]:
                raise AssertionError(f"step: found {actual[1:]}; expected {expected[1:4]}")
            if actual[2] or actual[3]:
                break
        twin.close()
        stepped.reset()

    def call(stepped: _One, action: Any) -> None:
        _, _, terminated, truncated = stepped.step(action)
        if terminated or truncated:
            stepped.reset()

    return PrimitiveCase(
        "environment.step",
        CPU,
        1,
        Case(
            name="environment.step",
            setup=setup,
            check=check,
            inputs=lambda stepped, rng: stepped.action_space.sample(),
            call=call,
        ),
    )
