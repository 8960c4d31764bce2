"""The continuous cart-pole against Gymnasium's CartPole-v1, and alone in a process."""

import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.harness.environments import continuous_cartpole

LIMIT = continuous_cartpole.MAX_EPISODE_STEPS


def make() -> gymnasium.Env:
    return gymnasium.make(continuous_cartpole.ID)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasium_accepts_it() -> None:
    check_env(make().unwrapped, skip_render_check=True)


@given(seed=st.integers(0, 2**31 - 1), pushes=st.lists(st.booleans(), min_size=1, max_size=120))
@settings(max_examples=60, deadline=None)
def test_full_force_is_cartpole(seed: int, pushes: list[bool]) -> None:
    ours, theirs = make(), gymnasium.make("CartPole-v1")
    np.testing.assert_array_equal(ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0])
    for push in pushes:
        mine = ours.step(np.array([1.0 if push else -1.0], np.float32))
        gymnasiums = theirs.step(int(push))
        np.testing.assert_allclose(mine[0], gymnasiums[0], rtol=1e-6, atol=1e-7)
        assert mine[0].dtype == np.float32
        assert mine[1:4] == gymnasiums[1:4]
        if mine[2]:
            break


def test_force_is_proportional_and_clipped() -> None:
    def speed_after(push: float) -> float:
        environment = make()
        environment.reset(seed=3)
        return float(environment.step(np.array([push], np.float32))[0][1])

    rest = speed_after(0.0)
    assert speed_after(0.5) - rest == pytest.approx(rest - speed_after(-0.5), rel=1e-4)
    assert speed_after(1.0) - rest == pytest.approx(2 * (speed_after(0.5) - rest), rel=1e-4)
    assert speed_after(1.0) == speed_after(7.0)


def test_termination_by_angle_and_by_position() -> None:
    environment = make()
    environment.reset(seed=0)
    steps = 1
    while not environment.step(np.ones(1, np.float32))[2]:
        steps += 1
    assert 5 < steps < 30
    with pytest.raises(RuntimeError, match="reset"):
        environment.step(np.ones(1, np.float32))
    environment.reset()
    environment.unwrapped.state = (2.39, 5.0, 0.0, 0.0)
    assert environment.step(np.zeros(1, np.float32))[2]


def test_time_limit_truncates_and_does_not_terminate() -> None:
    environment = make()
    observation, _ = environment.reset(seed=0)
    for step in range(1, LIMIT + 1):
        push = np.clip([observation @ np.array([0.5, 1.0, 10.0, 2.0], np.float32)], -1, 1)
        observation, reward, terminated, truncated, _ = environment.step(push)
        assert (reward, terminated, truncated) == (1.0, False, step == LIMIT)


def test_bad_use_is_refused() -> None:
    environment = make()
    with pytest.raises(RuntimeError, match="reset"):
        environment.unwrapped.step(np.zeros(1, np.float32))
    environment.reset(seed=0)
    with pytest.raises(ValueError, match="action"):
        environment.unwrapped.step(np.array([np.nan], np.float32))


def test_alone_with_its_folder_on_the_path() -> None:
    script = (
        "import gymnasium, sys; e = gymnasium.make('continuous_cartpole:ContinuousCartPole-v0');"
        "e.reset(seed=0); e.step(e.action_space.sample()); assert 'harness' not in sys.modules;"
        "assert 'pydantic' not in sys.modules and 'torch' not in sys.modules"
    )
    folder = Path(continuous_cartpole.__file__).parent
    subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={"PYTHONPATH": str(folder)},
        check=True,
        timeout=800,
    )
