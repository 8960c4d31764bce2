"""Small models of SB3's own algorithms and ours for the checks, in an environment of noise."""

import copy

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import DDPG, DQN, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecNormalize

from placerl.primitives.replay.adapters.sb3_adapter import (
    PrioritizedDDPG,
    PrioritizedDQN,
    PrioritizedSAC,
    PrioritizedTD3,
)

torch.set_num_threads(1)
ALGORITHMS = {
    "dqn": (DQN, PrioritizedDQN),
    "ddpg": (DDPG, PrioritizedDDPG),
    "td3": (TD3, PrioritizedTD3),
    "sac": (SAC, PrioritizedSAC),
}
IMAGE = spaces.Box(0, 255, (36, 36, 1), np.uint8)
VECTOR = spaces.Box(-1, 1, (3,), np.float32)
OBSERVATIONS = {
    "MlpPolicy": VECTOR,
    "CnnPolicy": IMAGE,
    "MultiInputPolicy": spaces.Dict({"vector": VECTOR, "number": spaces.Discrete(4), "image": IMAGE}),
}


class Noise(gymnasium.Env):
    """An environment of random observations and rewards, whose episodes end and are cut now and then."""

    def __init__(self, policy="MlpPolicy", discrete=False):
        self.observation_space = copy.deepcopy(OBSERVATIONS[policy])
        self.action_space = spaces.Discrete(3) if discrete else spaces.Box(-2, 2, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        ends = self.np_random.random(2) < 0.1
        return (
            self.observation_space.sample(),
            float(self.np_random.normal()),
            bool(ends[0]),
            bool(ends[1]),
            {},
        )


def environment(algorithm, policy="MlpPolicy", n_envs=1, normalized=False):
    env = make_vec_env(lambda: Noise(policy, algorithm == "dqn"), n_envs=n_envs, seed=1)
    return VecNormalize(env) if normalized else env


def model(kind, algorithm, policy="MlpPolicy", n_envs=1, normalized=False, **settings):
    """Return a small model that begins to learn after 20 steps."""
    common = {"learning_starts": 20, "batch_size": 16, "buffer_size": 200, "seed": 3, "device": "cpu"}
    if algorithm == "dqn":
        common |= {"train_freq": 1, "target_update_interval": 10}
    common["policy_kwargs"] = {"net_arch": [16]} | settings.pop("policy_kwargs", {})
    created = kind(policy, environment(algorithm, policy, n_envs, normalized), **common | settings)
    created.set_logger(Logger(folder=None, output_formats=[]))  # SB3's own leaves a temporary folder
    return created


def tensors(trained):
    """Return everything that training changes, by name."""
    found = dict(trained.policy.state_dict())
    optimizers = [
        trained.policy.optimizer if isinstance(trained, DQN) else trained.actor.optimizer,
        None if isinstance(trained, DQN) else trained.critic.optimizer,
        getattr(trained, "ent_coef_optimizer", None),
    ]
    for number, optimizer in enumerate(optimizers):
        for key, state in (optimizer.state_dict()["state"] if optimizer else {}).items():
            found |= {f"optimizer {number} {key} {name}": value for name, value in state.items()}
    if getattr(trained, "log_ent_coef", None) is not None:
        found["log_ent_coef"] = trained.log_ent_coef.detach()
    return {name: value.clone() for name, value in found.items()}


def assert_equal(own, ours):
    own, ours = tensors(own), tensors(ours)
    assert own.keys() == ours.keys()
    different = [name for name, value in own.items() if not torch.equal(value, ours[name])]
    assert not different, different


def own_class(kind):
    """Return SB3's own algorithm, allowed to sample from our buffer, whose weights it ignores."""
    return type(kind.__name__, (kind,), {"applies_weights": True})
