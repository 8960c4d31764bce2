"""What the runtime reads from a user's own environment and algorithm."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from placerl.harness.core.errors import UserError
from placerl.harness.workloads.custom_task import OBSERVATIONS, CustomTask, prepared, seeded
from placerl.primitives.replay import FieldSpec

DISCRETE, BOX = Discrete(4), Box(-1, 1, (3,))
NESTED = gymnasium.spaces.Dict({"a": Box(-1, 1, (2, 2)), "b": gymnasium.spaces.Tuple((BOX, Box(0, 1, ())))})


class Environment(gymnasium.Env):
    """Notes its seed and whether it is open."""

    def __init__(self, action_space, observation_space):
        self.action_space, self.observation_space = action_space, observation_space
        self.open, self.seed = True, None

    def reset(self, *, seed=None, options=None):
        self.seed = seed
        return self.observation_space.sample(), {}

    def close(self):
        self.open = False


def maker(action_space=DISCRETE, observation_space=BOX):
    """Makes environments, and remembers them."""

    def make():
        made.append(Environment(action_space, observation_space))
        return made[-1]

    made = make.made = []
    return make


@pytest.mark.parametrize(
    ("action_space", "kind", "size"),
    [(DISCRETE, "discrete", 4), (Box(-1, 1, (6,)), "continuous", 6), (Box(-1, 1, (1,)), "continuous", 1)],
)
def test_shapes_and_actions_are_those_of_an_environment_that_is_closed_again(action_space, kind, size):
    make = maker(action_space, Box(-1, 1, (2, 5)))
    stepped, found = prepared(make, "mine")
    assert found == {"observation_shape": (2, 5), "action_kind": kind, "action_size": size}
    assert stepped is make
    assert [made.open for made in make.made] == [False]


@pytest.mark.parametrize(
    "action_space",
    [
        Box(-1, 1, (2, 3)),
        Box(-1, 1, ()),
        Box(0, np.inf, (2,)),
        Box(-np.inf, 1, (2,)),
        Box(-3e38, 3e38, (2,)),
        Box(0, 5, (2,), np.int64),
        Box(0, 255, (2,), np.uint8),
        Box(-1, 1, (0,)),
        Discrete(3, start=1),
        gymnasium.spaces.MultiDiscrete([2, 3]),
        gymnasium.spaces.Tuple((DISCRETE, BOX)),
        gymnasium.spaces.Dict({"a": DISCRETE}),
        None,
        gymnasium.spaces.MultiBinary(3),
    ],
)
def test_actions_of_other_kinds_are_refused_and_the_environment_is_closed(action_space):
    make = maker(action_space)
    with pytest.raises(
        UserError,
        match=r"^environment Environment: action_space: found .*; allowed: a Discrete that begins at 0",
    ):
        prepared(make, "mine")
    assert [made.open for made in make.made] == [False]


def test_observations_of_several_arrays_are_flattened_in_the_order_of_the_space(capsys):
    make = maker(observation_space=gymnasium.spaces.Dict({"x": BOX, "y": NESTED}))
    stepped, found = prepared(make, "mine")
    assert found["observation_shape"] == (3 + 4 + 3 + 1,)
    assert capsys.readouterr().err == (
        "mine: observation_space: Dict of ['x'] (3,), ['y']['a'] (2, 2), ['y']['b'][0] (3,), ['y']['b'][1] ();"
        " flattened to 11 numbers\n"
    )
    assert [made.open for made in make.made] == [False]
    environment = stepped()
    observation, _ = environment.reset(seed=1)
    assert observation.shape == environment.observation_space.shape == (11,)


def test_an_observation_of_one_array_needs_no_line(capsys):
    prepared(maker(), "mine")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("observation_space", "place"),
    [
        (DISCRETE, "observation_space"),
        (gymnasium.spaces.Dict({"x": BOX, "n": DISCRETE}), "observation_space['n']"),
        (gymnasium.spaces.Tuple((BOX, gymnasium.spaces.Tuple((BOX, DISCRETE)))), "observation_space[1][1]"),
    ],
)
def test_observations_of_other_kinds_are_refused_where_they_are(observation_space, place):
    make = maker(observation_space=observation_space)
    with pytest.raises(UserError) as refused:
        prepared(make, "mine")
    assert (
        str(refused.value) == f"environment Environment: {place}: found {DISCRETE}; allowed: {OBSERVATIONS}"
    )
    assert [made.open for made in make.made] == [False]


def test_what_is_no_environment_is_refused():
    with pytest.raises(UserError, match=r"^mine: environment: found 3; allowed: a gymnasium.Env, a function"):
        prepared(lambda: 3, "mine")


@pytest.mark.parametrize(
    ("shape", "discrete", "observation", "action"),
    [
        ((3,), True, FieldSpec((3,), np.float32), FieldSpec((), np.int64)),
        ((3,), False, FieldSpec((3,), np.float32), FieldSpec((2,), np.float32)),
        ((4, 84, 84), True, FieldSpec((4, 84, 84), np.float32), FieldSpec((), np.int64)),
        ((8, 8), False, FieldSpec((8, 8), np.float32), FieldSpec((2,), np.float32)),
    ],
)
def test_columns_follow_the_algorithm_s_shapes(shape, discrete, observation, action):
    algorithm = SimpleNamespace(observation_shape=shape, discrete=discrete, action_size=2)
    columns = CustomTask("mine", None, algorithm, None, None).columns()
    assert (columns["observation"], columns["next_observation"]) == (observation, observation)
    assert columns["action"] == action


def test_a_seeded_environment_has_been_reset_with_its_seed():
    assert seeded(maker(), 5).seed == 5
