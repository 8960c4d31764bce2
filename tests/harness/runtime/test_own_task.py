"""What the runtime reads from a user's own environment and algorithm."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

from harness.errors import UserError
from harness.runtime.own_task import OwnTask, seeded, spaces
from primitives.replay import FieldSpec


def environment(action_space, observation_shape=(3,)):
    """Makes an environment that notes its seed and whether it is open."""

    def make():
        made = SimpleNamespace(
            observation_space=gymnasium.spaces.Box(-1, 1, observation_shape),
            action_space=action_space,
            open=True,
        )
        made.close = lambda: setattr(made, "open", False)
        made.reset = lambda seed: setattr(made, "seed", seed)
        made_all.append(made)
        return made

    made_all = make.made = []
    return make


@pytest.mark.parametrize(
    ("action_space", "kind", "size"),
    [
        (gymnasium.spaces.Discrete(4), "discrete", 4),
        (gymnasium.spaces.Box(-1, 1, (6,)), "continuous", 6),
        (gymnasium.spaces.Box(-1, 1, (1,)), "continuous", 1),
    ],
)
def test_shapes_and_actions_are_those_of_an_environment_that_is_closed_again(action_space, kind, size):
    make = environment(action_space, (2, 5))
    assert spaces(make) == {"observation_shape": (2, 5), "action_kind": kind, "action_size": size}
    assert [made.open for made in make.made] == [False]


@pytest.mark.parametrize(
    "action_space",
    [gymnasium.spaces.Box(-1, 1, (2, 3)), gymnasium.spaces.Box(-1, 1, ()), gymnasium.spaces.MultiBinary(3)],
)
def test_actions_of_other_kinds_are_refused(action_space):
    with pytest.raises(
        UserError, match=r"action_space: found .*; allowed: Discrete, or a Box of one dimension"
    ):
        spaces(environment(action_space))


@pytest.mark.parametrize(
    ("shape", "discrete", "observation", "action"),
    [
        ((3,), True, FieldSpec((3,), np.float32), FieldSpec((), np.int64)),
        ((3,), False, FieldSpec((3,), np.float32), FieldSpec((2,), np.float32)),
        ((4, 84, 84), True, FieldSpec((4, 84, 84), np.uint8), FieldSpec((), np.int64)),
        ((8, 8), True, FieldSpec((8, 8), np.uint8), FieldSpec((), np.int64)),
    ],
)
def test_columns_follow_the_algorithm_s_shapes_and_pixels_stay_bytes(shape, discrete, observation, action):
    algorithm = SimpleNamespace(observation_shape=shape, discrete=discrete, action_size=2)
    columns = OwnTask("mine", None, algorithm, None, None).columns()
    assert (columns["observation"], columns["next_observation"]) == (observation, observation)
    assert columns["action"] == action


def test_a_seeded_environment_has_been_reset_with_its_seed():
    make = environment(gymnasium.spaces.Discrete(2))
    assert seeded(make, 5).seed == 5
