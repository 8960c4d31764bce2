"""Native vectors of environments beside Gymnasium's SyncVectorEnv: spaces, trajectories, infos, hostile values."""

import os
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from hypothesis import given, settings
from hypothesis import strategies as st
from placerl.primitives._native import environments as native

from placerl.harness.environments import continuous_cartpole
from placerl.primitives import environments
from placerl.primitives.environments import lunar_lander, make_vec

CLASSIC = native.classic_ids()
LUNAR = list(lunar_lander.IDS)
MUJOCO = list(native.mujoco_files())
COUNT = 4


def available(id: str) -> None:
    if reason := environments.unavailable_reason(id):
        pytest.skip(reason)
    # Registers ContinuousCartPole-v0.
    assert continuous_cartpole.ID in CLASSIC


def gymnasiums(id: str, mode: AutoresetMode, count: int = COUNT, steps: int | None = None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gymnasium.make_vec(
            id,
            count,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": mode},
            max_episode_steps=steps,
            disable_env_checker=True,
        )


def draw(rng: np.random.Generator, space: Any, count: int = COUNT) -> np.ndarray:
    """Actions of all environments: half of the continuous ones are out of bounds."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return rng.integers(0, space.n, count)
    scale = rng.choice([1.0, 2.0], (count, 1))
    return (rng.uniform(space.low, space.high, (count, *space.shape)) * scale).astype(np.float32)


def check_infos(found: dict[str, Any], expected: dict[str, Any], where: object) -> None:
    assert set(found) == set(expected), where
    for key, value in expected.items():
        if isinstance(value, dict):
            check_infos(found[key], value, (where, key))
        elif value.dtype == object:
            for mine, theirs in zip(found[key], value, strict=True):
                np.testing.assert_array_equal(mine, theirs, strict=theirs is not None)
        elif key == "distance_from_origin":
            # Gymnasium's is a BLAS product, rounded as the machine's kernel does.
            np.testing.assert_allclose(found[key], value, rtol=1e-15)
        else:
            np.testing.assert_array_equal(found[key], value, strict=True, err_msg=f"{where} {key}")


def check_equal(id: str, mode: AutoresetMode, steps: int, limit: int | None = None, seed: int = 3) -> None:
    """`steps` steps of all environments together, from the same seeds and actions, bit for bit."""
    available(id)
    mine = make_vec(id, COUNT, autoreset_mode=mode, max_episode_steps=limit)
    theirs = gymnasiums(id, mode, steps=limit)
    rng = np.random.default_rng(seed)
    found, expected = mine.reset(seed=seed), theirs.reset(seed=seed)
    np.testing.assert_array_equal(found[0], expected[0], strict=True)
    check_infos(found[1], expected[1], "reset")
    for t in range(steps // COUNT):
        actions = draw(rng, mine.single_action_space)
        found, expected = mine.step(actions), theirs.step(actions)
        for mine_array, theirs_array in zip(found[:4], expected[:4], strict=True):
            np.testing.assert_array_equal(mine_array, theirs_array, strict=True, err_msg=f"{id}, step {t}")
        check_infos(found[4], expected[4], t)
        over = found[2] | found[3]
        if mode is AutoresetMode.DISABLED and over.any():
            found = mine.reset(options={"reset_mask": over})
            expected = theirs.reset(options={"reset_mask": over})
            np.testing.assert_array_equal(found[0], expected[0], strict=True)
            check_infos(found[1], expected[1], t)
    theirs.close()


@pytest.mark.parametrize("id", CLASSIC)
def test_classic_control_is_gymnasiums_bit_for_bit(id: str) -> None:
    check_equal(id, AutoresetMode.SAME_STEP, 4000)


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("id", [*CLASSIC, *LUNAR, *MUJOCO])
def test_every_mode_with_short_episodes(id: str, mode: AutoresetMode) -> None:
    """Each environment has four episodes or more."""
    check_equal(id, mode, 250 * COUNT if id in CLASSIC else 100 * COUNT, limit=23)


@pytest.mark.parametrize("id", MUJOCO)
def test_mujoco_is_gymnasiums_bit_for_bit(id: str) -> None:
    check_equal(id, AutoresetMode.NEXT_STEP, 1200)


SAME_STEP, NEXT_STEP = AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("id", "mode"),
    [*((id, SAME_STEP) for id in [*CLASSIC, *LUNAR, *MUJOCO]), *((id, NEXT_STEP) for id in MUJOCO)],
)
def test_many_steps_are_gymnasiums(id: str, mode: AutoresetMode) -> None:
    """A million steps take Gymnasium minutes in each MuJoCo task: those are run with EQUALITY_STEPS=1000000."""
    steps = int(os.environ.get("EQUALITY_STEPS", 50_000 if id in CLASSIC else 10_000))
    check_equal(id, mode, steps, seed=4)


@pytest.mark.parametrize("id", [*CLASSIC, *LUNAR, *MUJOCO])
def test_spaces_are_gymnasiums(id: str) -> None:
    available(id)
    mine, theirs = make_vec(id, 2), gymnasiums(id, AutoresetMode.NEXT_STEP, 2)
    assert mine.single_observation_space == theirs.single_observation_space
    assert mine.single_action_space == theirs.single_action_space
    assert mine.observation_space == theirs.observation_space
    assert mine.action_space == theirs.action_space
    assert mine.native.episode_steps == gymnasium.spec(id).max_episode_steps
    theirs.close()


def test_gymnasiums_episode_statistics_are_the_native_ones() -> None:
    mine = RecordEpisodeStatistics(make_vec("CartPole-v1", 8, autoreset_mode="SameStep"))
    inner = mine.env
    mine.reset(seed=0)
    rng = np.random.default_rng(0)
    episodes = 0
    for _ in range(200):
        *_, info = mine.step(draw(rng, inner.single_action_space, 8))
        if "episode" in info:
            done = info["_episode"]
            episodes += int(done.sum())
            np.testing.assert_array_equal(info["episode"]["r"][done], inner.episode_returns[done])
            np.testing.assert_array_equal(info["episode"]["l"][done], inner.episode_lengths[done])
    assert episodes == mine.episode_count > 20


def test_without_a_copy_the_observations_are_one_array() -> None:
    env = make_vec("CartPole-v1", 3, copy=False)
    first, _ = env.reset(seed=0)
    second = env.step(np.zeros(3, np.int64))[0]
    assert first is second
    copied = make_vec("CartPole-v1", 3)
    assert copied.reset(seed=0)[0] is not copied.step(np.zeros(3, np.int64))[0]


def test_seeds_of_each_environment_and_random_ones() -> None:
    env = make_vec("CartPole-v1", 3)
    together, _ = env.reset(seed=11)
    apart, _ = env.reset(seed=[13, 12, 11])
    np.testing.assert_array_equal(together[::-1], apart)
    largest, _ = env.reset(seed=[2**64 - 1, None, 0])
    alone, _ = gymnasium.make("CartPole-v1").reset(seed=2**64 - 1)
    np.testing.assert_array_equal(largest[0], alone)
    assert not np.array_equal(make_vec("CartPole-v1", 3).reset()[0], make_vec("CartPole-v1", 3).reset()[0])


@settings(max_examples=60, deadline=None)
@given(
    id=st.sampled_from(CLASSIC),
    count=st.integers(1, 7),
    mode=st.sampled_from(list(AutoresetMode)),
    limit=st.integers(1, 9),
    seed=st.integers(0, 2**64 - 8),
    steps=st.integers(1, 30),
)
def test_truncations_come_when_the_limit_says(
    id: str, count: int, mode: AutoresetMode, limit: int, seed: int, steps: int
) -> None:
    env = make_vec(id, count, autoreset_mode=mode, max_episode_steps=limit)
    env.reset(seed=seed)
    rng = np.random.default_rng(0)
    lengths = np.zeros(count, np.int64)
    waits = np.zeros(count, np.bool_)
    for _ in range(steps):
        observations, rewards, terminated, truncated, _ = env.step(draw(rng, env.single_action_space, count))
        lengths = np.where(waits, 0, lengths + 1)
        np.testing.assert_array_equal(truncated, lengths == limit)
        assert not (rewards[waits]).any()
        np.testing.assert_array_equal(env.episode_lengths, lengths)
        over = terminated | truncated
        assert env.observation_space.contains(observations)
        waits = over & (mode is AutoresetMode.NEXT_STEP)
        if mode is AutoresetMode.SAME_STEP:
            lengths[over] = 0
        if mode is AutoresetMode.DISABLED and over.any():
            before = observations.copy()
            after, _ = env.reset(options={"reset_mask": over})
            np.testing.assert_array_equal(after[~over], before[~over])
            lengths[over] = 0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_envs": 0}, ValueError, "num_envs: found 0; allowed: an integer of at least 1"),
        ({"num_envs": 2.0}, ValueError, "num_envs: found 2.0"),
        ({"num_envs": True}, ValueError, "num_envs: found True; allowed: an integer"),
        ({"max_episode_steps": -1}, ValueError, "max_episode_steps: found -1; allowed"),
        ({"autoreset_mode": "Never"}, ValueError, "autoreset_mode: found 'Never'; allowed: NextStep"),
        ({"g": 9.0}, ValueError, "arguments of CartPole-v1: found g; allowed: none"),
        ({"id": "Pong-v5"}, ValueError, "id: found 'Pong-v5'; Pong-v5 is not native; native are Acrobot-v1"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        make_vec(**{"id": "CartPole-v1", **arguments})
    assert str(caught.value).startswith(message)


def test_numbers_may_be_numpy_s() -> None:
    numbers: dict[str, Any] = {"num_envs": np.int64(2), "max_episode_steps": np.int32(1)}
    env = make_vec("CartPole-v1", **numbers)
    env.reset(seed=0)
    assert env.step(np.zeros(2, np.int64))[3].tolist() == [True, True]


@pytest.mark.parametrize(
    ("id", "actions", "error", "message"),
    [
        ("CartPole-v1", np.zeros(3, np.int64), ValueError, r"actions: found shape \(3,\); allowed: \(2,\)"),
        ("CartPole-v1", np.zeros(2), TypeError, "actions: found float64; allowed: integers"),
        ("CartPole-v1", np.array([0, 2]), ValueError, r"actions\[1\]: found 2; allowed: .*\[0, 2\)"),
        ("CartPole-v1", np.array([-1, 0]), ValueError, r"actions\[0\]: found -1"),
        ("CartPole-v1", np.array([0, 2**63], np.uint64), ValueError, rf"actions\[1\]: found {2**63}"),
        ("Pendulum-v1", np.zeros(2), ValueError, r"actions: found shape \(2,\); allowed: \(2, 1\)"),
        ("Pendulum-v1", np.array([["a"], ["b"]]), TypeError, "actions: found <U1; allowed: numbers"),
        ("Pendulum-v1", np.array([[0], [np.nan]]), ValueError, r"actions\[1\]: found nan; allowed: a number"),
    ],
)
def test_wrong_actions_are_named(id: str, actions: np.ndarray, error: type[Exception], message: str) -> None:
    env = make_vec(id, 2)
    env.reset(seed=0)
    with pytest.raises(error, match=message):
        env.step(actions)
    np.testing.assert_array_equal(env.episode_lengths, 0)


@pytest.mark.parametrize(
    ("seed", "options", "error", "message"),
    [
        (-1, None, ValueError, "seed: found -1; allowed"),
        (2**64 - 1, None, ValueError, f"seed: found {2**64}; allowed"),
        ([1], None, ValueError, "seed: found 1 seeds; allowed: 2"),
        ("ab", None, TypeError, "seed: found 'ab'; allowed"),
        (0, {"low": 1}, ValueError, r"options: found \['low'\]; allowed: reset_mask"),
        (0, {"reset_mask": [True, True]}, TypeError, "found list; allowed: a NumPy array of bool"),
        (0, {"reset_mask": np.zeros(2)}, TypeError, "found float64; allowed: a NumPy array of bool"),
        (0, {"reset_mask": np.ones(3, bool)}, ValueError, r"found shape \(3,\); allowed: \(2,\)"),
        (0, {"reset_mask": np.zeros(2, bool)}, ValueError, "found none that is set"),
    ],
)
def test_wrong_resets_are_named(seed: Any, options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make_vec("CartPole-v1", 2).reset(seed=seed, options=options)


@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1"])
def test_actions_may_be_read_only(id: str) -> None:
    """As arrays of JAX and of `np.frombuffer` are."""
    one, other = make_vec(id, 2), make_vec(id, 2)
    actions = draw(np.random.default_rng(0), one.single_action_space, 2)
    one.reset(seed=0)
    other.reset(seed=0)
    expected = one.step(actions)[0]
    actions.flags.writeable = False
    np.testing.assert_array_equal(other.step(actions)[0], expected)


def test_an_info_stays_as_it_was_returned() -> None:
    env = make_vec("CartPole-v1", 2, autoreset_mode="SameStep", max_episode_steps=1)
    env.reset(seed=0)
    *_, info = env.step(np.zeros(2, np.int64))
    env.reset(seed=1)
    assert info["_final_obs"].tolist() == [True, True]


def test_a_step_needs_a_reset() -> None:
    env = make_vec("CartPole-v1", 2, autoreset_mode="Disabled", max_episode_steps=1)
    with pytest.raises(RuntimeError, match="call reset first"):
        env.step(np.zeros(2, np.int64))
    env.reset(seed=0)
    env.step(np.zeros(2, np.int64))
    with pytest.raises(RuntimeError, match=r"environments \[0, 1\] are over"):
        env.step(np.zeros(2, np.int64))
