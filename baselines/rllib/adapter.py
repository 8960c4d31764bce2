"""Trains in RLlib with its own prioritised replay, or with one that uses this project's sum tree."""

import logging
import os
from importlib.metadata import version
from typing import Any

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # so that Ray listens on the loopback interface alone

import numpy as np
import ray
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig
from transitions import misfits

from placerl.primitives.replay.adapters.rllib_adapter import PrioritizedEpisodeReplayBuffer

ALGORITHMS = {"dqn": (DQNConfig, "CartPole-v1"), "sac": (SACConfig, "Pendulum-v1")}
VERSION = f"ray {version('ray')}"
NOTE = ""
BATCH_SIZE = 64
ITERATION_STEPS = 100


def algorithm_of(algorithm: str, capacity: int) -> Algorithm:
    kind, environment = ALGORITHMS[algorithm]
    settings: dict[str, Any] = {
        "train_batch_size_per_learner": BATCH_SIZE,
        "num_steps_sampled_before_learning_starts": 500,
        "replay_buffer_config": {
            "type": "PrioritizedEpisodeReplayBuffer",
            "capacity": capacity,
            "alpha": 0.6,
            "beta": 0.4,
        },
        # the number of trained transitions that makes one gradient step per environment step
        "training_intensity": BATCH_SIZE,
    }
    if kind is DQNConfig:
        settings |= {"lr": 1e-3, "target_network_update_freq": 250, "epsilon": [(0, 1.0), (2000, 0.05)]}
    config = (
        kind()
        .environment(environment)
        .env_runners(num_env_runners=0)
        .learners(num_learners=0)
        .rl_module(model_config={"fcnet_hiddens": [64, 64], "fcnet_activation": "relu"})
        .training(**settings)
        .debugging(seed=3, log_level="ERROR")
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=ITERATION_STEPS)
    )
    return config.build_algo()


def gradient_steps(result: dict[str, Any]) -> int:
    return int(result["learners"]["__all_modules__"]["num_module_steps_trained_lifetime"] // BATCH_SIZE)


class Training:
    """Trains an algorithm of RLlib, with one gradient step per environment step; for `baselines/adapter_worker.py`.

    Args:
        algorithm: the algorithm's name, "dqn" or "sac".
        ours: whether the replay uses this project's sum tree; otherwise it is RLlib's own.
    """

    def __init__(self, algorithm: str, ours: bool, capacity: int) -> None:
        torch.set_num_threads(1)
        ray.init(
            address="local",
            num_cpus=1,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        self.environment = ALGORITHMS[algorithm][1]
        self.algorithm = algorithm_of(algorithm, capacity)
        if ours:
            self.algorithm.local_replay_buffer = PrioritizedEpisodeReplayBuffer(capacity, alpha=0.6)
        self.buffer = self.algorithm.local_replay_buffer
        self.gradient_steps = 0

    def advance(self, environment_steps: int) -> int:
        before = self.gradient_steps
        for _ in range(-(-environment_steps // ITERATION_STEPS)):
            result = self.algorithm.train()
            if result.get("learners"):
                self.gradient_steps = gradient_steps(result)
        return self.gradient_steps - before

    def facts(self) -> dict[str, float]:
        assert isinstance(self.buffer, PrioritizedEpisodeReplayBuffer)
        episodes = self.buffer.sample(num_items=256, n_step=1, beta=0.4)
        weights = np.array([episode.get_extra_model_outputs("weights")[0] for episode in episodes])
        priorities = self.buffer._sum_segment[np.array(self.buffer._last_sampled_indices)]
        np.testing.assert_allclose(weights, (priorities / priorities.min()) ** -0.4, rtol=1e-5)
        observation, following = ([episode.get_observations(when) for episode in episodes] for when in (0, 1))
        action = np.array([episode.get_actions(0) for episode in episodes])
        if self.environment == "Pendulum-v1":
            action = 2 * np.clip(action, -1, 1)  # as RLlib's connector scales it
        reward = [episode.get_rewards(0) for episode in episodes]
        terminated = [episode.is_terminated for episode in episodes]
        held = self.buffer._sum_segment[np.arange(self.buffer._sum_segment.capacity)]
        return {
            "items": self.buffer.get_num_timesteps(),
            "distinct_priorities": len(np.unique(held[held > 0])),
            "least_weight": float(weights.min()),
            "largest_weight": float(weights.max()),
            "misfits": misfits(self.environment, observation, action, reward, following, terminated),
        }


create = Training
