"""Checks of the replay buffer in Stable-Baselines3's environment: what SB3's own buffers do, ours does too."""

import copy
import inspect
import io
import pickle
import subprocess
import sys
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import torch
from gymnasium import Env, spaces
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from primitives.replay import LinearSchedule
from primitives.replay.adapters.sb3_adapter import PrioritizedReplayBuffer

BOX = spaces.Box(-9, 9, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (2, 4, 4), np.uint8)
OBSERVATIONS = {
    "box": BOX,
    "float64": spaces.Box(-9, 9, (2, 2), np.float64),
    "image": IMAGE,
    "discrete": spaces.Discrete(7),
    "multi_discrete": spaces.MultiDiscrete([3, 4]),
    "multi_binary": spaces.MultiBinary(3),
    "dict": spaces.Dict({"box": BOX, "image": IMAGE}),
    "mixed": spaces.Dict({"box": BOX, "number": spaces.Discrete(5)}),
}
NORMALIZED = ("box", "float64", "image", "dict")
ACTIONS = {
    "discrete": spaces.Discrete(4),
    "box": spaces.Box(-1, 1, (2,), np.float32),
    "float64": spaces.Box(-1, 1, (2,), np.float64),
    "matrix": spaces.Box(-1, 1, (2, 3), np.float32),
}
COLUMNS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
DRAWS = 256


class Still(Env):
    """An environment that nothing steps: VecNormalize wants one for its spaces."""

    def __init__(self, observation, action):
        self.observation_space, self.action_space = observation, action


@contextmanager
def raises(kind, *texts):
    """Fail unless the block raises an error of a kind whose message has all the texts."""
    message = None
    try:
        yield
    except kind as error:
        message = str(error)
    assert message is not None, f"{kind.__name__} was not raised"
    assert all(text in message for text in texts), message


def parts(value):
    """Return a dict's items, or one array or tensor under the name ""."""
    return dict(value) if isinstance(value, dict) else {"": value}


def assert_same(own, ours, what):
    """Compare arrays or tensors, or dicts of them, bit for bit, with their dtypes and shapes."""
    assert (own is None) == (ours is None), what
    if own is None:
        return
    assert parts(own).keys() == parts(ours).keys(), what
    for key, mine in parts(own).items():
        theirs = parts(ours)[key]
        assert type(mine) is type(theirs), (what, key, type(theirs))
        assert mine.dtype == theirs.dtype, (what, key, theirs.dtype)
        assert mine.shape == theirs.shape, (what, key, mine.shape, theirs.shape)
        same = torch.equal(mine, theirs) if isinstance(mine, torch.Tensor) else np.array_equal(mine, theirs)
        assert same, (what, key, mine, theirs)


class Pair:
    """SB3's own buffer and ours, in which the same is done."""

    def __init__(
        self, observation, action, buffer_size, n_envs, *, n_steps=1, timeouts=True, normalized=False
    ):
        self.space, self.action = OBSERVATIONS[observation], ACTIONS[action]
        self.space.seed(0)
        self.action.seed(0)
        self.rng, self.n_envs, self.steps = np.random.default_rng(0), n_envs, 0
        kind = DictReplayBuffer if isinstance(self.space, spaces.Dict) else ReplayBuffer
        shared = {"device": "cpu", "n_envs": n_envs, "handle_timeout_termination": timeouts}
        options = {}
        if n_steps > 1:
            kind, options = NStepReplayBuffer, {"n_steps": n_steps, "gamma": 0.9}
        self.own = kind(buffer_size, self.space, self.action, **shared, **options)
        self.ours = PrioritizedReplayBuffer(buffer_size, self.space, self.action, **shared, **options)
        self.env = self._normalizing() if normalized else None

    def _normalizing(self):
        space = copy.deepcopy(self.space)  # VecNormalize changes it
        env = VecNormalize(DummyVecEnv([lambda: Still(space, self.action)] * self.n_envs))
        statistics = env.obs_rms if isinstance(env.obs_rms, dict) else {None: env.obs_rms}
        for rms in statistics.values():
            rms.update(self.rng.normal(3, 2, (5, *rms.mean.shape)))
        env.ret_rms.update(self.rng.normal(1, 4, 5))
        return env

    def _observation(self):
        observations = [self.space.sample() for _ in range(self.n_envs)]
        if isinstance(self.space, spaces.Dict):
            return {key: np.stack([one[key] for one in observations]) for key in self.space.spaces}
        return np.stack(observations)

    def add(self, ends):
        """Add a step; `ends` says of each environment: 0 goes on, 1 terminated, 2 cut by a time limit."""
        ends = np.resize(ends, self.n_envs)
        step = (
            self._observation(),
            self._observation(),
            np.array([self.action.sample() for _ in range(self.n_envs)]),
            self.rng.normal(size=self.n_envs),
            ends > 0,
            [{"TimeLimit.truncated": bool(end == 2)} for end in ends],
        )
        for buffer in (self.own, self.ours):
            buffer.add(*copy.deepcopy(step))
        self.steps += 1

    def reset(self):
        self.own.reset()
        self.ours.reset()
        self.steps = 0

    def save(self):
        self.own, self.ours = (pickle.loads(pickle.dumps(buffer)) for buffer in (self.own, self.ours))

    def copy(self):
        kept = self.ours
        self.own, self.ours = copy.deepcopy(self.own), copy.deepcopy(self.ours)
        kept.reset()  # the copy must not notice

    def compare(self):
        """Compare sizes and contents."""
        for name in ("buffer_size", "n_envs", "pos", "full", "obs_shape", "action_dim", "device"):
            assert getattr(self.own, name) == getattr(self.ours, name), name
        assert self.own.size() == self.ours.size()
        assert len(self.ours.replay) == self.ours.size() * self.n_envs
        for name in COLUMNS:
            own, ours = (
                {key: array[: self.own.size()] for key, array in parts(getattr(buffer, name)).items()}
                for buffer in (self.own, self.ours)
            )
            assert_same(own, ours, name)

    def sample(self):
        """Draw from ours, give SB3's own buffer the same draws, and compare; everything that is there is drawn."""
        if not self.steps:
            with raises(ValueError, "sample"):
                self.ours.sample(1)
            return
        ours = self.ours.sample(DRAWS, self.env)
        rows = self.ours._sampled
        assert set(rows) == set(range(self.ours.size() * self.n_envs))
        assert torch.equal(self.ours.weights, torch.ones(DRAWS, 1))
        with mock.patch("numpy.random.randint", return_value=rows % self.n_envs):
            own = self.own._get_samples(rows // self.n_envs, self.env)
        assert type(own) is type(ours)
        for name in own._fields:
            assert_same(getattr(own, name), getattr(ours, name), name)


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
    with mock.patch("numpy.random.randint", return_value=whole._sampled % 2):
        own = alone._get_samples(whole._sampled // 2)
    for name in ("observations", "next_observations"):
        assert_same(getattr(own, name), getattr(ours, name)["box"], name)
    for name in ("actions", "rewards", "dones", "discounts"):
        assert_same(getattr(own, name), getattr(ours, name), name)


def prioritized(**options):
    """Return a buffer of 50 items with priorities of their own."""
    torch.manual_seed(0)
    buffer = PrioritizedReplayBuffer(50, BOX, ACTIONS["box"], "cpu", **options)
    for number in range(50):
        buffer.add(np.full((1, 3), number), np.full((1, 3), number), np.zeros((1, 2)), [0], [0], [{}])
    for _ in range(20):
        buffer.sample(16)
        buffer.update_priorities(torch.rand(16, 1) * 9)
    return buffer


def check_reset_forgets_priorities_and_keeps_the_schedule():
    buffer = prioritized(beta=LinearSchedule(0.0, 1.0, 40))
    assert buffer.replay.max_priority > 1
    buffer.reset()
    assert (buffer.replay.max_priority, buffer.replay.beta) == (1, 0.5)
    with raises(RuntimeError, "sample"):
        buffer.update_priorities(torch.ones(16))


def check_a_copy_has_the_same_priorities_and_draws():
    original = prioritized(seed=1)
    stream = io.BytesIO()
    pickle.dump(original, stream)
    stream.seek(0)
    for buffer in (pickle.load(stream), copy.deepcopy(original)):
        rows = np.arange(50)
        assert np.array_equal(buffer.replay.priorities(rows), original.replay.priorities(rows))
        generator, expected = copy.deepcopy(buffer), copy.deepcopy(original)
        for _ in range(3):
            assert_same(expected.sample(8).observations, generator.sample(8).observations, "draws")
            assert torch.equal(expected.weights, generator.weights)
            assert expected.weights.min() < 0.999


def check_a_copy_without_a_seed_draws_from_numpys_global_generator():
    original = prioritized()
    again = pickle.loads(pickle.dumps(original))
    draws = []
    for buffer in (original, again, again):
        np.random.seed(5)  # noqa: NPY002 (what SB3 seeds)
        draws.append(buffer.sample(16).observations)
    assert torch.equal(draws[0], draws[1])
    assert torch.equal(draws[1], draws[2])
    assert not torch.equal(draws[2], again.sample(16).observations)


LOAD = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    buffer = pickle.load(file)
buffer.sample(4)
print(buffer.size(), buffer.observations[:, 0, 0].sum(), buffer.replay.priorities(range(50)).sum())
"""


def check_a_pickle_is_read_in_another_process():
    buffer = prioritized()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "buffer.pkl"
        path.write_bytes(pickle.dumps(buffer))
        done = subprocess.run(
            [sys.executable, "-P", "-c", LOAD, str(path)], capture_output=True, text=True, check=True
        )
    size, observations, priorities = map(float, done.stdout.split())
    assert (size, observations) == (50, sum(range(50)))
    assert priorities == buffer.replay.priorities(range(50)).sum()


def check_priorities_and_weights_are_those_of_the_paper():
    buffer = PrioritizedReplayBuffer(8, BOX, ACTIONS["box"], "cpu", alpha=0.5, beta=0.25, seed=0)
    for number in range(4):
        buffer.add(np.full((1, 3), number), np.zeros((1, 3)), np.zeros((1, 2)), [0], [0], [{}])
    while len(set(buffer._sampled if buffer._sampled is not None else ())) < 4:
        buffer.sample(16)
    rows = buffer._sampled
    buffer.update_priorities(torch.tensor([1.0, 4.0, 9.0, 16.0])[rows])
    assert np.allclose(buffer.replay.priorities(range(4)), [1, 2, 3, 4], rtol=1e-5)
    drawn = buffer.sample(20_000).observations[:, 0].numpy().astype(int)
    assert np.allclose(np.bincount(drawn) / 20_000, np.array([1, 2, 3, 4]) / 10, atol=0.02)
    expected = ((drawn + 1.0) / 1) ** -0.25
    assert np.allclose(buffer.weights[:, 0].numpy(), expected, rtol=1e-4)


def check_an_array_of_td_errors_sets_the_priorities_that_a_tensor_sets():
    buffer = prioritized()
    buffer.sample(4)
    expected = None
    for td_errors in (torch.arange(4.0), torch.arange(4.0)[:, None], np.arange(4.0), np.arange(4.0)[:, None]):
        buffer.update_priorities(td_errors)
        priorities = buffer.replay.priorities(buffer._sampled)
        assert expected is None or (priorities == expected).all()
        expected = priorities


def check_td_errors_of_another_shape_and_nan_are_refused():
    buffer = prioritized()
    buffer.sample(4)
    nan = torch.tensor([1.0, 2.0, 3.0, float("nan")])
    for td_errors in (torch.ones(3), torch.ones(4, 2), torch.ones(2, 2), torch.ones(1, 4), nan):
        with raises(ValueError, "td_errors"):
            buffer.update_priorities(td_errors)


def check_too_little_memory_is_said():
    little = SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available=100))
    ours = "primitives.replay.adapters.sb3_adapter.buffer.psutil"
    with mock.patch("stable_baselines3.common.buffers.psutil", little), mock.patch(ours, little):
        for kind in (ReplayBuffer, PrioritizedReplayBuffer):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                kind(10_000, BOX, ACTIONS["box"], "cpu")
            assert ["enough memory" in str(warning.message) for warning in caught] == [True]
