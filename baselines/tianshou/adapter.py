"""Trains in tianshou with its own prioritised replay, or with one that uses this project's sum tree."""

from importlib.metadata import version

import gymnasium
import numpy as np
import torch
from tianshou import data
from tianshou.algorithm import DDPG, DQN
from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector
from tianshou.env import DummyVectorEnv
from tianshou.exploration import GaussianNoise
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorDeterministic, ContinuousCritic
from tianshou.utils.torch_utils import policy_within_training_step
from transitions import misfits

from placerl.primitives.replay.adapters.tianshou_adapter import PrioritizedVectorReplayBuffer

VERSION = f"tianshou {version('tianshou')}"
NOTE = ""
BATCH_SIZE = 64
ENVIRONMENTS = 4
SETTINGS = {"buffer_num": ENVIRONMENTS, "alpha": 0.6, "beta": 0.4}


def dqn(environment: gymnasium.Env) -> DQN:
    space = environment.observation_space.shape
    net = Net(state_shape=space, action_shape=environment.action_space.n, hidden_sizes=[64, 64])
    policy = DiscreteQLearningPolicy(
        model=net, action_space=environment.action_space, eps_training=0.1, eps_inference=0.0
    )
    return DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-3), target_update_freq=250)


def ddpg(environment: gymnasium.Env) -> DDPG:
    space, actions = environment.observation_space.shape, environment.action_space
    limit = float(actions.high[0])
    actor = ContinuousActorDeterministic(
        preprocess_net=Net(state_shape=space, hidden_sizes=[64, 64]),
        action_shape=actions.shape,
        max_action=limit,
    )
    critic_net = Net(state_shape=space, action_shape=actions.shape, hidden_sizes=[64, 64], concat=True)
    policy = ContinuousDeterministicPolicy(
        actor=actor, exploration_noise=GaussianNoise(sigma=0.1 * limit), action_space=actions
    )
    rate = AdamOptimizerFactory(lr=1e-3)
    critic = ContinuousCritic(preprocess_net=critic_net)
    return DDPG(policy=policy, policy_optim=rate, critic=critic, critic_optim=rate)


ALGORITHMS = {"dqn": (dqn, "CartPole-v1"), "ddpg": (ddpg, "Pendulum-v1")}


class Training:
    """Trains an algorithm of tianshou, with its environments and its buffer; for `baselines/adapter_worker.py`.

    Args:
        algorithm: the algorithm's name, "dqn" or "ddpg".
        ours: whether the replay uses this project's sum tree; otherwise it is tianshou's own.
    """

    def __init__(self, algorithm: str, ours: bool, capacity: int) -> None:
        torch.set_num_threads(1)
        build, name = ALGORITHMS[algorithm]
        self.environment = name
        torch.manual_seed(3)
        np.random.seed(3)  # noqa: NPY002 (the only source that tianshou knows)
        self.algorithm = build(gymnasium.make(name))
        kind = PrioritizedVectorReplayBuffer if ours else data.PrioritizedVectorReplayBuffer
        self.buffer = kind(capacity, **SETTINGS)
        environments = DummyVectorEnv([lambda: gymnasium.make(name) for _ in range(ENVIRONMENTS)])
        environments.seed(3)
        self.collector = Collector(self.algorithm, environments, self.buffer, exploration_noise=True)
        self.collector.reset()
        self.collector.collect(n_step=500 * ENVIRONMENTS, random=True)
        self.gradient_steps = 0

    def advance(self, environment_steps: int) -> int:
        """Take `environment_steps` environment steps, with a gradient step for each; returns the gradient steps."""
        before = self.gradient_steps
        for _ in range(environment_steps // ENVIRONMENTS):
            with policy_within_training_step(self.algorithm.policy):
                self.collector.collect(n_step=ENVIRONMENTS)
                for _ in range(ENVIRONMENTS):
                    self.algorithm.update(self.buffer, BATCH_SIZE)
            self.gradient_steps += ENVIRONMENTS
        return self.gradient_steps - before

    def facts(self) -> dict[str, float]:
        weight = self.buffer.weight
        batch, indices = self.buffer.sample(256)
        priorities = weight[indices]
        np.testing.assert_allclose(batch.weight, (priorities / priorities.min()) ** -0.4, rtol=1e-6)
        return {
            "items": len(self.buffer),
            "distinct_priorities": len(np.unique(weight[self.buffer.sample_indices(0)])),
            "least_weight": float(batch.weight.min()),
            "largest_weight": float(batch.weight.max()),
            "misfits": misfits(
                self.environment,
                batch.obs,
                self.algorithm.policy.map_action(batch.act),
                batch.rew,
                batch.obs_next,
                batch.terminated,
            ),
        }


create = Training
