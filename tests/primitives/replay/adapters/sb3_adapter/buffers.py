"""SB3's own buffer and ours for the checks, in which the same is done."""

import copy
import pickle
from unittest import mock

import numpy as np
import torch
from gymnasium import Env, spaces
from refusals import raises
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from placerl.primitives.replay.adapters.sb3_adapter import PrioritizedReplayBuffer

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
        rows = np.asarray(self.ours._sampled)
        assert set(rows) == set(range(self.ours.size() * self.n_envs))
        assert torch.equal(self.ours.weights, torch.ones(DRAWS, 1))
        with mock.patch("numpy.random.randint", return_value=rows % self.n_envs):
            own = self.own._get_samples(rows // self.n_envs, self.env)
        assert type(own) is type(ours)
        for name in own._fields:
            assert_same(getattr(own, name), getattr(ours, name), name)
