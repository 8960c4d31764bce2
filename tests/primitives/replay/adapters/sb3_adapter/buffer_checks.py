"""Checks of the replay buffer in Stable-Baselines3's environment: what SB3's own buffers do, ours does too."""

import inspect
import warnings
from types import SimpleNamespace
from unittest import mock

import numpy as np
import torch
from buffers import ACTIONS, BOX, DRAWS, NORMALIZED, OBSERVATIONS, Pair, assert_same
from refusals import raises
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer

from placerl.primitives.replay.adapters.sb3_adapter import PrioritizedReplayBuffer


def check_a_sequence(operations, **settings):
    """The same operations on both buffers have the same results."""
    pair = Pair(**settings)
    for name, *arguments in operations:
        getattr(pair, name)(*arguments)
        pair.compare()
    pair.sample()


def check_every_public_name_of_sb3s_buffers_is_there():
    settings = {"buffer_size": 4, "action": "box", "n_envs": 1}
    kinds = (("box", 1), ("dict", 1), ("box", 3))
    for observation, n_steps in kinds:
        pair = Pair(observation, n_steps=n_steps, **settings)
        public = {name for name in dir(pair.own) if not name.startswith("_")}
        assert len(public) > 20
        assert public <= set(dir(pair.ours)), public - set(dir(pair.ours))
        for name in public:
            own, ours = getattr(pair.own, name), getattr(pair.ours, name)
            assert callable(own) == callable(ours), name
            if callable(own):
                assert [*inspect.signature(own).parameters] == [*inspect.signature(ours).parameters], name


def check_spaces_of_every_kind_hold_what_sb3s_buffers_hold():
    for observation in OBSERVATIONS:
        for action in ACTIONS:
            for normalized in {False, observation in NORMALIZED}:
                pair = Pair(observation, action, 5, 2, normalized=normalized)
                for end in (0, 2, 0, 1, 0, 0, 2):
                    pair.add([end, 0])
                    pair.compare()
                pair.sample()


def check_a_step_of_one_environment_may_lack_the_axis_of_environments():
    pair = Pair("box", "box", 4, 1)
    for buffer in (pair.own, pair.ours):
        buffer.add(np.ones(3), np.ones(3), np.zeros(2), 1.0, False, [{}])
    pair.steps = 1
    pair.compare()
    pair.sample()


def check_extend_adds_step_by_step():
    pair = Pair("box", "box", 6, 2)
    rng = np.random.default_rng(0)
    steps = (
        rng.normal(size=(4, 2, 3)).astype(np.float32),
        rng.normal(size=(4, 2, 3)).astype(np.float32),
        rng.normal(size=(4, 2, 2)).astype(np.float32),
        rng.normal(size=(4, 2)),
        rng.random((4, 2)) < 0.5,
        [[{"TimeLimit.truncated": True}, {}]] * 4,
    )
    pair.own.extend(*steps)
    pair.ours.extend(*steps)
    pair.steps = 4
    pair.compare()
    pair.sample()


def check_the_views_are_what_is_sampled():
    pair = Pair("dict", "box", 4, 1)
    pair.add([1])
    pair.ours.rewards[0] = 5
    pair.ours.observations["box"][0] = 7
    batch = pair.ours.sample(8)
    assert (batch.rewards == 5).all()
    assert (batch.observations["box"] == 7).all()
    with raises(AttributeError):
        pair.ours.rewards = np.zeros((4, 1))  # would leave the replay as it was


def check_images_stay_bytes():
    pair = Pair("image", "discrete", 8, 2)
    for _ in range(3):
        pair.add([0])
    assert pair.ours.replay.storage.columns["observation"].dtype == np.uint8
    item_bytes = 2 * 2 * 4 * 4 + 8 + 3 * 4
    assert pair.ours.replay.storage.nbytes == 8 * item_bytes
    assert pair.ours.sample(4).observations.dtype == torch.uint8


def check_images_with_the_channels_last_are_refused_with_the_way_out():
    for space, image in (("image", lambda a: a), ("dict", lambda a: {"box": np.zeros((2, 3)), "image": a})):
        buffer = Pair(space, "box", 4, 2).ours
        shape = (2, *buffer.observation_space["image"].shape) if space == "dict" else (2, *buffer.obs_shape)
        wrong = image(np.zeros((shape[0], *shape[2:], shape[1]), np.uint8))
        with raises(ValueError, "obs", "VecTransposeImage"):
            buffer.add(wrong, wrong, np.zeros((2, 2)), np.zeros(2), np.zeros(2), [{}, {}])


def check_steps_that_do_not_fit_are_refused_and_change_nothing():
    good = {
        "obs": np.zeros((2, 3)),
        "next_obs": np.zeros((2, 3)),
        "action": np.zeros((2, 2)),
        "reward": np.zeros(2),
        "done": np.zeros(2),
        "infos": [{}, {}],
    }
    bad = [
        ("obs", np.zeros(3), ValueError),
        ("obs", np.zeros((3, 2)), ValueError),
        ("obs", np.zeros((1, 3)), ValueError),
        ("obs", {"box": np.zeros((2, 3))}, ValueError),
        ("next_obs", np.zeros((2, 4)), ValueError),
        ("obs", np.full((2, 3), "1"), TypeError),
        ("action", np.zeros((2, 3)), ValueError),
        ("action", np.zeros(2), ValueError),
        ("reward", 1.0, ValueError),
        ("reward", np.zeros(3), ValueError),
        ("reward", ["1", "2"], TypeError),
        ("done", [None, None], TypeError),
        ("done", np.zeros(1), ValueError),
        ("done", [0.5, 1], ValueError),
        ("done", [np.nan, 0], ValueError),
        ("infos", [{}], ValueError),
    ]
    pair = Pair("box", "box", 4, 2)
    pair.add([0])
    for name, value, kind in bad:
        with raises(kind, name if kind is ValueError else ""):
            pair.ours.add(**good | {name: value})
        pair.compare()
    pair = Pair("dict", "box", 4, 2)
    step = good | {
        key: {"box": np.zeros((2, 3)), "image": np.zeros((2, 2, 4, 4), np.uint8)}
        for key in ("obs", "next_obs")
    }
    pair.ours.add(**step)
    for value in (np.zeros((2, 3)), {"box": np.zeros((2, 3))}, step["obs"] | {"box": np.zeros((2, 4))}):
        with raises(ValueError, "obs"):
            pair.ours.add(**step | {"obs": value})
    assert pair.ours.size() == 1


def check_arguments_out_of_range_are_refused_by_name():
    created = {"buffer_size": 4, "observation_space": BOX, "action_space": ACTIONS["box"]}
    for name, value in (
        ("buffer_size", 0),
        ("n_envs", 0),
        ("n_steps", 0),
        ("alpha", -1),
        ("beta", -1),
        ("fanout", 1),
        ("optimize_memory_usage", True),
    ):
        with raises(ValueError, f"{name}: found"):
            PrioritizedReplayBuffer(**created | {name: value})
    for name in ("buffer_size", "n_envs", "n_steps", "gamma", "alpha", "beta", "fanout"):
        for value in ("3", None) if name in ("gamma", "alpha", "beta") else (2.0, 2.5, "3", None):
            with raises(TypeError, f"{name}: found"):
                PrioritizedReplayBuffer(**created | {name: value})


def check_n_step_returns_of_a_dictionary_are_those_of_its_parts():
    rng = np.random.default_rng(0)
    options = {"device": "cpu", "n_envs": 2, "n_steps": 3, "gamma": 0.9}
    whole = PrioritizedReplayBuffer(12, OBSERVATIONS["dict"], ACTIONS["box"], **options)
    alone = NStepReplayBuffer(12, BOX, ACTIONS["box"], **options)
    for end in (0, 0, 2, 0, 0, 1, 0, 0, 0, 0):
        obs, next_obs = rng.normal(size=(2, 2, 3)).astype(np.float32)
        image = np.zeros((2, 2, 4, 4), np.uint8)
        rest = (
            rng.normal(size=(2, 2)).astype(np.float32),
            rng.normal(size=2),
            np.array([end > 0, False]),
            [{"TimeLimit.truncated": end == 2}, {}],
        )
        whole.add({"box": obs, "image": image}, {"box": next_obs, "image": image}, *rest)
        alone.add(obs, next_obs, *rest)
    ours = whole.sample(DRAWS)
    rows = np.asarray(whole._sampled)
    with mock.patch("numpy.random.randint", return_value=rows % 2):
        own = alone._get_samples(rows // 2)
    for name in ("observations", "next_observations"):
        assert_same(getattr(own, name), getattr(ours, name)["box"], name)
    for name in ("actions", "rewards", "dones", "discounts"):
        assert_same(getattr(own, name), getattr(ours, name), name)


def check_too_little_memory_is_said():
    little = SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available=100))
    ours = "placerl.primitives.replay.adapters.sb3_adapter.buffer.psutil"
    with mock.patch("stable_baselines3.common.buffers.psutil", little), mock.patch(ours, little):
        for kind in (ReplayBuffer, PrioritizedReplayBuffer):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                kind(10_000, BOX, ACTIONS["box"], "cpu")
            assert ["enough memory" in str(warning.message) for warning in caught] == [True]
