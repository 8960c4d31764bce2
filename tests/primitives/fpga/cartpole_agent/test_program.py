"""The programs of the scalar unit, run by the golden model: CartPole in fixed point next to Gymnasium's."""

import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from numpy.typing import NDArray

pytest.importorskip("amaranth", reason="needs the extra fpga")  # of the random numbers

from placerl.primitives.fpga.cartpole_agent import golden, program
from placerl.primitives.fpga.cartpole_agent.settings import ANGLE_LIMIT, POSITION_LIMIT, STATE_FRACTION

SCALE = 1 << STATE_FRACTION
BOUND = 1e-7  # of a component of the state after a step; 9e-8 was the largest deviation in a million steps


def states(count: int) -> NDArray[np.int64]:
    """Draw states (count, 4) from which an episode can go on, up to velocities of 3.5 and 4 per second."""
    limits = [POSITION_LIMIT, 3.5, ANGLE_LIMIT, 4.0]
    return np.rint(np.random.default_rng(0).uniform(-1, 1, (count, 4)) * limits * SCALE).astype(np.int64)


def test_a_step_is_gymnasiums() -> None:
    before = states(2000)
    action = np.random.default_rng(1).integers(0, 2, len(before))
    found = golden.environment_step(before, action)
    environment = CartPoleEnv()
    environment.reset(seed=0)
    for place in range(len(before)):
        environment.state = before[place] / SCALE
        environment.steps_beyond_terminated = None
        _, _, fell, _, _ = environment.step(int(action[place]))
        np.testing.assert_allclose(found[place] / SCALE, environment.state, rtol=0, atol=BOUND)
        assert golden.terminated(found[place : place + 1])[0] == fell


def test_a_million_steps_deviate_by_less_than_the_bound() -> None:
    """The dynamics are Gymnasium's equations, written for many states; the test above holds the steps to its code."""
    before = states(1_000_000)
    action = np.random.default_rng(1).integers(0, 2, len(before))
    x, x_dot, theta, theta_dot = before.T / SCALE
    sin, cos = np.sin(theta), np.cos(theta)
    force = (np.where(action == 1, 10.0, -10.0) + 0.05 * theta_dot**2 * sin) / 1.1
    angular = (9.8 * sin - cos * force) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    linear = force - 0.05 * angular * cos / 1.1
    rates = (x_dot, linear, theta_dot, angular)
    wanted = np.stack(
        [value + 0.02 * rate for value, rate in zip((x, x_dot, theta, theta_dot), rates, strict=True)]
    )
    deviation = np.abs(golden.environment_step(before, action).T / SCALE - wanted).max()
    assert 1e-9 < deviation < BOUND


@pytest.mark.parametrize("component", [0, 2])
def test_an_episode_ends_just_beyond_the_limits(component: int) -> None:
    limit = program.fixed((POSITION_LIMIT, 0, ANGLE_LIMIT)[component])
    state = np.zeros((4, 4), np.int64)
    state[:, component] = [limit, limit + 1, -limit, -limit - 1]
    assert golden.terminated(state).tolist() == [False, True, False, True]


def test_initial_states_and_prefix_sums_cover_their_range() -> None:
    random = np.array([0, SCALE - 1])
    drawn = golden.execute(program.RESET, {"random": random})
    for name in program.STATE:
        np.testing.assert_allclose(drawn[name] / SCALE, [-0.05, 0.05], atol=2 / SCALE)
    total = np.array([1000, 1000])
    assert golden.execute(program.SAMPLE, {"random": random, "total": total})["t"].tolist() == [0, 1000]


def test_products_are_rounded_and_sums_wrap() -> None:
    one = program.ScalarInstruction("t", "s", "x", "half")
    values = {"x": np.array([1, -1, 3]), "s": np.array([0, 0, (1 << 31) - 1])}
    assert golden.execute([one], values)["t"].tolist() == [1, 0, -(1 << 31) + 1]
    assert golden.execute([one._replace(negative=True)], values)["t"].tolist() == [-1, 0, (1 << 31) - 3]
