"""What an environment may return: everything is read as what it is, or refused by the environment's name and field."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from gymnasium.wrappers import FlattenObservation, TimeLimit
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from placerl.harness.core.errors import UserError
from placerl.harness.environments import contract, make
from placerl.harness.environments.contract import CheckedParts, Contract, check_pool
from placerl.harness.environments.schema import Environment

GOOD = np.full(3, 0.5, np.float32)
FLOATS, PIXELS = Box(-1, 1, (3,), np.float32), Box(0, 255, (3,), np.uint8)
LARGEST = float(np.finfo(np.float32).max)


class Mine(gymnasium.Env):
    """Returns the given values."""

    action_space = Discrete(2)

    def __init__(self, *stepped, begun=(GOOD, {}), space=FLOATS):
        self.observation_space, self.stepped, self.begun = space, stepped, begun

    def reset(self, *, seed=None, options=None):
        return self.begun

    def step(self, action):
        return self.stepped[0] if len(self.stepped) == 1 else self.stepped


def stepped(observation=GOOD, reward=1.0, terminated=False, truncated=False, info=None, space=FLOATS):
    returned = observation, reward, terminated, truncated, {} if info is None else info
    return Contract(Mine(*returned, space=space), (3,)).step(0)


SCALARS = [np.float32, np.float64, np.int64, np.uint8]


@given(
    arrays.arrays(
        st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8, np.bool_]), (3,)
    )
)
def test_numbers_of_any_type_are_the_same_numbers_in_float32_or_refused(value):
    fits = bool(np.all(np.abs(value.astype(np.float64)) <= LARGEST))
    if fits:
        np.testing.assert_array_equal(stepped(value)[0], value)
        np.testing.assert_array_equal(stepped(value.tolist())[0], value)
    else:
        with pytest.raises(
            UserError, match=r"^environment Mine: observation: found \S+; allowed: float32 of"
        ):
            stepped(value)


@given(arrays.arrays(st.sampled_from([np.int8, np.uint8, np.int64, np.float32, np.float64, np.bool_]), (3,)))
def test_pixels_are_integers_in_their_range_or_refused(value):
    if value.dtype.kind in "biu" and np.all((value >= 0) & (value <= 255)):
        np.testing.assert_array_equal(stepped(value, space=PIXELS)[0], value)
    else:
        with pytest.raises(
            UserError, match=r"^environment Mine: observation: found .*; allowed: uint8 of shape"
        ):
            stepped(value, space=PIXELS)


@given(arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
def test_an_observation_of_another_shape_is_not_repeated_or_cut(shape):
    if shape == (3,):
        return
    with pytest.raises(UserError) as refused:
        stepped(np.zeros(shape, np.float32))
    assert str(refused.value).endswith("; allowed: float32 of shape (3,)")


@pytest.mark.parametrize(
    "value",
    [
        None,
        1.0,
        np.float32(1),
        "123",
        ["1", "2", "3"],
        [None] * 3,
        [[1], [2, 3]],
        {"a": GOOD},
        GOOD.astype(object),
        GOOD.astype(complex),
        [np.nan, 0, 0],
        [0, -np.inf, 0],
        np.array([0, 0, 1e300]),
        np.array([0, 0, 1e39]),
    ],
)  # fmt: skip
def test_what_is_no_observation_is_refused_at_reset_and_step(value):
    for call in (lambda: stepped(value), lambda: Contract(Mine(begun=(value, {})), (3,)).reset()):
        with pytest.raises(
            UserError, match=r"^environment Mine: observation: found .*; allowed: float32 of shape"
        ):
            call()


@given(st.floats() | st.integers() | st.booleans(), st.sampled_from([None, *SCALARS, np.array, torch.tensor]))
def test_a_reward_is_its_own_number_or_refused(number, kind):
    try:
        with np.errstate(all="ignore"):
            reward = number if kind is None else kind(number)
    except (OverflowError, ValueError, RuntimeError, TypeError):
        return
    if isinstance(reward, np.ndarray) and reward.dtype == object:
        return
    if -LARGEST <= reward <= LARGEST:
        found = stepped(reward=reward)[1]
        assert type(found) is float
        assert found == float(reward)  # a float has 53 bits
    else:
        with pytest.raises(
            UserError, match=r"^environment Mine: reward: found .*; allowed: a number that is fin"
        ):
            stepped(reward=reward)


@pytest.mark.parametrize(
    "reward", [None, "1", b"1", [1.0], np.array([1.0]), (1,), 1j, {}, np.str_("1"), np.array("1"), object()]
)
def test_what_is_no_number_is_no_reward(reward):
    with pytest.raises(UserError, match=r"^environment Mine: reward: found .*; allowed: a number$"):
        stepped(reward=reward)


@pytest.mark.parametrize("field", ["terminated", "truncated"])
def test_only_truth_values_end_an_episode(field):
    place = {"terminated": 2, "truncated": 3}[field]
    for value in (True, np.True_, np.array(True), torch.tensor(True)):
        assert stepped(**{field: value})[place]
        assert not stepped(**{field: value ^ True})[place]
    for value in (None, 1, 0, 1.0, "False", "", [], [True], np.array([True]), np.int64(1)):
        with pytest.raises(
            UserError, match=rf"^environment Mine: {field}: found .*; allowed: True or False$"
        ):
            stepped(**{field: value})


@pytest.mark.parametrize("info", [(), "", 0, [("a", 1)]])
def test_info_is_a_dict(info):
    for call in (lambda: stepped(info=info), lambda: Contract(Mine(begun=(GOOD, info)), (3,)).reset()):
        with pytest.raises(UserError, match=r"^environment Mine: info: found .*; allowed: a dict$"):
            call()


@given(st.integers(0, 8).filter(lambda number: number != 5))
def test_another_number_of_values_is_refused_also_below_a_wrapper(number):
    returned = (GOOD, 1.0, False, {}, {}, {}, {}, {})[:number]
    for wrapped in (Mine(returned), TimeLimit(Mine(returned), 10)):
        env = Contract(wrapped, (3,))
        wrapped.reset()
        with pytest.raises(
            UserError, match=r"^environment Mine: step: found .*; allowed: 5 values: observation,"
        ):
            env.step(0)


@pytest.mark.parametrize("begun", [GOOD, GOOD[:2], (GOOD,), (GOOD, {}, {}), None, "ab", {}])
def test_a_reset_without_info_is_refused(begun):
    with pytest.raises(
        UserError, match=r"^environment Mine: reset: found .*; allowed: 2 values: observation, info"
    ):
        contract.reset(Mine(begun=begun), seed=1)


def test_a_reset_that_takes_no_seed_is_refused_also_below_a_wrapper():
    class Old(Mine):
        def reset(self):
            return GOOD, {}

    for env in (Old(), TimeLimit(Old(), 10)):
        with pytest.raises(
            UserError, match=r"^environment Old: reset: found TypeError: .*; allowed: reset\(seed"
        ):
            contract.reset(env, seed=1)


def test_an_error_of_the_environments_own_code_comes_as_it_is():
    class Broken(Mine):
        def reset(self, *, seed=None, options=None):
            raise TypeError("no board")

        def step(self, action):
            (board,) = ()
            return board

    for env in (Broken(), TimeLimit(Broken(), 10)):
        with pytest.raises(TypeError, match=r"^no board$"):
            contract.reset(env, seed=1)
    with pytest.raises(ValueError, match=r"^not enough values"):
        Contract(Broken(), (3,)).step(0)


def test_an_environment_of_another_shape_than_the_first_is_refused():
    with pytest.raises(
        UserError, match=r"^environment Mine: observation_space: found Box\(.*allowed: a Box of sha"
    ):
        Contract(Mine(), (4,))


def test_a_registered_environment_is_named_by_its_id():
    assert contract.source(gymnasium.make("CartPole-v1")) == "environment CartPole-v1"


def test_an_environment_of_a_workload_is_refused_in_the_same_words(monkeypatch):
    environment = Environment(id="CartPole-v1", observation_shape=(4,), action_kind="discrete", action_size=2)
    from gymnasium.envs.classic_control.cartpole import CartPoleEnv

    monkeypatch.setattr(
        CartPoleEnv, "reset", lambda self, *, seed=None, options=None: np.zeros(4, np.float32)
    )
    with pytest.raises(UserError, match=r"^environment CartPole-v1: reset: found .*; allowed: .*info"):
        make(environment, 1)


PARTS = Dict({"a": FLOATS, "b": Tuple((Box(0, 1, (2, 2)), PIXELS))})
PART = {"a": GOOD, "b": (np.zeros((2, 2)), np.zeros(3, np.uint8))}


def test_parts_of_an_observation_are_flattened_as_they_are():
    env = FlattenObservation(CheckedParts(Mine(begun=(PART, {}), space=PARTS)))
    np.testing.assert_array_equal(env.reset()[0], [0.5] * 3 + [0] * 7)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (GOOD, r"observation: found float32 of shape \(3,\); allowed: a dict of 'a', 'b'"),
        ({"a": GOOD}, "observation: found a dict of 'a'; allowed: a dict of 'a', 'b'"),
        (PART | {"c": GOOD}, "observation: found a dict of 'a', 'b', 'c'; allowed"),
        (PART | {"a": GOOD[None]}, r"observation\['a'\]: found float32 of shape \(1, 3\); allowed: float32 of shape"),
        (PART | {"b": ()}, r"observation\['b'\]: found tuple of 0; allowed: a tuple of 2"),
        (PART | {"b": None}, r"observation\['b'\]: found None"),
        (PART | {"b": (GOOD, GOOD)}, r"observation\['b'\]\[0\]: found float32 of shape \(3,\); allowed"),
        (PART | {"b": (np.full((2, 2), np.nan), GOOD)}, r"observation\['b'\]\[0\]: found nan; allowed"),
        (PART | {"b": (np.zeros((2, 2)), GOOD)}, r"observation\['b'\]\[1\]: found float32 of .*; allowed: uint8"),
    ],
)  # fmt: skip
def test_a_wrong_part_is_refused_where_it_is(wrong, message):
    with pytest.raises(UserError, match=f"^environment Mine: {message}"):
        CheckedParts(Mine(begun=(wrong, {}), space=PARTS)).reset()


def test_a_pool_that_steps_together_is_checked_too():
    good = np.zeros((2, 3), np.float32), np.zeros(2), np.zeros(2, bool), np.zeros(2, bool)
    check_pool("environment Pong", FLOATS, 2, good)
    check_pool("environment Pong", FLOATS, 2, good[:1])
    for place, field, wrong in (
        (0, "observation", np.zeros(3, np.float32)),
        (0, "observation", np.full((2, 3), np.nan)),
        (1, "reward", np.zeros((2, 1))),
        (1, "reward", np.array([0, np.inf])),
        (2, "terminated", np.zeros(2)),
        (3, "truncated", np.zeros(1, bool)),
    ):
        with pytest.raises(UserError, match=f"^environment Pong: {field}: found .*; allowed: .* of shape"):
            check_pool("environment Pong", FLOATS, 2, (*good[:place], wrong, *good[place + 1 :]))
