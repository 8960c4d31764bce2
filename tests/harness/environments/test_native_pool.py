"""Native environments as a pool of an actor, beside the environments that the actor would step one by one."""

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.environments import Seeded, native_pool
from placerl.harness.environments.native_pool import NativePool
from placerl.harness.environments.schema import Environment
from placerl.primitives import environments


def of(name: str) -> Environment:
    return workloads.load(name).environment


@pytest.mark.parametrize(
    "name", ["cartpole-dqn", "cartpole-ddpg", "pendulum-sac", "lunarlander-dqn", "hopper-ddpg"]
)
def test_its_trajectories_are_those_of_the_environments_one_by_one(name: str) -> None:
    environment = of(name)
    if reason := environments.unavailable_reason(environment.id):
        pytest.skip(reason)
    makers = [Seeded(environment, 5), Seeded(environment, 9)]
    pool, alone = NativePool.of(makers), [maker() for maker in makers]
    assert pool.action_space == alone[0].action_space
    np.testing.assert_array_equal(pool.reset(), [env.reset()[0] for env in alone], strict=True)
    pool.action_space.seed(3)
    for _ in range(300):
        actions = np.stack([pool.action_space.sample() for _ in alone])
        found = pool.step(actions)
        expected = [env.step(action)[:4] for env, action in zip(alone, actions, strict=True)]
        for mine, theirs in zip(found, zip(*expected, strict=True), strict=True):
            np.testing.assert_array_equal(mine, np.array(theirs))
        over = np.flatnonzero(found[2] | found[3])
        if over.size:
            np.testing.assert_array_equal(pool.reset(over), [alone[i].reset()[0] for i in over])
    pool.close()


def test_what_is_not_native_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"environment\.id: found 'AtariFrames-v0' \(.* is not native"):
        native_pool.check(of("pong-dqn"), "w")
    with pytest.raises(
        UserError,
        match=r"environment\.kwargs: found \{'g': 9.0\} \(.*\); allowed: without native environments",
    ):
        native_pool.check(of("pendulum-sac").model_copy(update={"kwargs": {"g": 9.0}}), "w")


def test_an_action_that_is_not_allowed_is_refused() -> None:
    pool = NativePool(of("cartpole-dqn"), [0])
    pool.reset()
    with pytest.raises(ValueError, match="actions: found 2; allowed: Discrete"):
        pool.step(np.array([2]))
