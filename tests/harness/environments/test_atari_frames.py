"""AtariFrames-v0: shapes, rewards, seeds and Gymnasium's own checks."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from placerl.harness.environments import atari_frames

pytest.importorskip("ale_py")


@pytest.fixture
def pong():
    environment = gymnasium.make(atari_frames.ID, game="pong")
    yield environment
    environment.close()


def play(environment, steps, seed):
    rng, frames, rewards = np.random.default_rng(seed), [environment.reset(seed=seed)[0]], []
    for _ in range(steps):
        observation, reward, *_ = environment.step(rng.integers(6))
        frames.append(observation)
        rewards.append(reward)
    return np.stack(frames), rewards


def test_gymnasium_accepts_it(pong):
    check_env(pong.unwrapped, skip_render_check=True)


def test_observations_are_stacks_of_the_last_four_frames(pong):
    frames, _ = play(pong, 20, seed=0)
    assert frames.shape == (21, 4, 84, 84)
    assert frames.dtype == np.uint8
    np.testing.assert_array_equal(frames[1:, :3], frames[:-1, 1:])


def test_a_seed_decides_the_game(pong):
    first, second, other = (play(pong, 30, seed)[0] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_seeds_may_be_large(pong):
    large = 2**32 - 1
    np.testing.assert_array_equal(pong.reset(seed=large)[0], pong.reset(seed=large)[0])


def test_a_game_of_an_idle_player_is_lost_by_21_points(pong):
    pong.reset(seed=0)
    rewards, over = [], False
    while not over:
        _, reward, terminated, truncated, _ = pong.step(0)
        rewards.append(reward)
        over = terminated or truncated
    assert terminated
    assert sum(rewards) == -21
    assert set(rewards) == {-1.0, 0.0}


def test_another_game_has_other_actions():
    environment = gymnasium.make(atari_frames.ID, game="breakout")
    assert environment.action_space.n == 4
    environment.close()
