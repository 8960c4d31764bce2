"""The native LunarLander beside Gymnasium's, flown by its pilot and at random, and its arguments."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.box2d.lunar_lander import heuristic

from placerl.primitives import environments
from placerl.primitives.environments import lunar_lander, make_native, make_vec

STEPS = 1000
ROUGH = {"enable_wind": True, "gravity": -3.7, "wind_power": 20.0, "turbulence_power": 2.0}
LANDED, CRASHED, TIME = 100, -100, 0


@pytest.mark.parametrize(
    ("arguments", "ends"),
    [
        ({}, {LANDED, CRASHED}),
        ({"continuous": True}, {LANDED, CRASHED}),
        ({"enable_wind": True}, {LANDED, CRASHED}),
        ({"continuous": True, **ROUGH}, {CRASHED, TIME}),
    ],
)
def test_flights_are_gymnasiums_bit_for_bit(arguments: dict[str, Any], ends: set[int]) -> None:
    """Two landers have Gymnasium's pilot and one random actions, through all ends of an episode."""
    if reason := environments.unavailable_reason("LunarLander-v3"):
        pytest.skip(reason)
    seeds = [0, 1, 2**63 + 5]
    mine = make_vec("LunarLander-v3", 3, autoreset_mode="Disabled", **arguments)
    theirs = [gymnasium.make("LunarLander-v3", disable_env_checker=True, **arguments) for _ in seeds]
    seen = np.stack([env.reset(seed=seed)[0] for env, seed in zip(theirs, seeds, strict=True)])
    np.testing.assert_array_equal(mine.reset(seed=seeds)[0], seen, strict=True)
    mine.action_space.seed(0)
    met = set()
    for t in range(STEPS):
        actions = mine.action_space.sample()
        actions[:2] = [heuristic(env, state) for env, state in zip(theirs[:2], seen[:2], strict=True)]
        found = mine.step(actions)[:4]
        expected = [env.step(action)[:4] for env, action in zip(theirs, actions, strict=True)]
        for mine_each, theirs_each in zip(found, zip(*expected, strict=True), strict=True):
            np.testing.assert_array_equal(mine_each, np.stack(theirs_each), strict=True, err_msg=f"step {t}")
        seen = found[0]
        met |= {int(reward) for reward in found[1][found[2]]} | ({TIME} if found[3].any() else set())
        if (over := found[2] | found[3]).any():
            seen = mine.reset(options={"reset_mask": over})[0]
            for i in np.flatnonzero(over):
                np.testing.assert_array_equal(seen[i], theirs[i].reset()[0])
    assert met == ends


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"wind": 1.0},
            "found wind; allowed: continuous, gravity, enable_wind, wind_power, turbulence_power",
        ),
        ({"enable_wind": 1}, "enable_wind: found 1; allowed: true or false"),
        ({"wind_power": float("inf")}, "wind_power: found inf; allowed: a finite number"),
        ({"turbulence_power": True}, "turbulence_power: found True; allowed: a finite number"),
        ({"gravity": -12.0}, "gravity: found -12.0; allowed: between -12 and 0"),
    ],
)
def test_arguments_that_are_not_allowed_are_named(arguments: dict[str, Any], message: str) -> None:
    assert environments.refused_argument("LunarLander-v3", arguments) == message


def test_a_build_without_box2d_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lunar_lander.native, "has_box2d", lambda: False)
    with pytest.raises(ValueError, match="id: found 'LunarLander-v3'; this build has no Box2D"):
        make_native("LunarLander-v3", 1)
    (box2d,) = (one for one in environments.backends() if one.name == "Box2D")
    assert not box2d.available
    assert "see docs/install.md" in box2d.reason
