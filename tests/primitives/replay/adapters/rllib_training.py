"""Trains RLlib with this project's sum tree; --rounds N times it against RLlib's own prioritised replay."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import ray
import torch
from interleaved import interleaved, options, report
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig

from primitives.replay.adapters.rllib_adapter import PrioritizedEpisodeReplayBuffer

ALGORITHMS = {"dqn": (DQNConfig, "CartPole-v1"), "sac": (SACConfig, "Pendulum-v1")}
BATCH_SIZE = 64
CAPACITY = 50_000


def made(algorithm: str) -> Algorithm:
    kind, environment = ALGORITHMS[algorithm]
    settings: dict[str, Any] = {
        "train_batch_size_per_learner": BATCH_SIZE,
        "num_steps_sampled_before_learning_starts": 500,
        "replay_buffer_config": {
            "type": "PrioritizedEpisodeReplayBuffer",
            "capacity": CAPACITY,
            "alpha": 0.6,
            "beta": 0.4,
        },
        # as many transitions trained on as one gradient step for each environment step needs
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
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=200)
    )
    return config.build_algo()


def gradient_steps(result: dict[str, Any]) -> int:
    return int(result["learners"]["__all_modules__"]["num_module_steps_trained_lifetime"] // BATCH_SIZE)


class Training:
    def __init__(self, algorithm: str, ours: bool) -> None:
        self.algorithm = made(algorithm)
        if ours:
            self.algorithm.local_replay_buffer = PrioritizedEpisodeReplayBuffer(CAPACITY, alpha=0.6)
        self.buffer = self.algorithm.local_replay_buffer
        self.gradient_steps = 0
        self.returns: list[float] = []

    def advance(self, environment_steps: int) -> int:
        before = self.gradient_steps
        done = 0
        while done < environment_steps:
            result = self.algorithm.train()
            done += 200
            if result.get("learners"):
                self.gradient_steps = gradient_steps(result)
            self.returns.append(result["env_runners"].get("episode_return_mean", np.nan))
        return self.gradient_steps - before


def advancing(training: Training) -> Callable[[], int]:
    return lambda: training.advance(200)


def main() -> None:
    arguments = options(__doc__, tuple(ALGORITHMS))
    torch.set_num_threads(1)
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    training = Training(arguments.algorithm, ours=True)
    training.advance(arguments.steps)
    returns = [value for value in training.returns if np.isfinite(value)]
    buffer = training.buffer
    assert isinstance(buffer, PrioritizedEpisodeReplayBuffer)
    episodes = buffer.sample(num_items=256, n_step=1, beta=0.4)
    weights = np.array([episode.get_extra_model_outputs("weights")[0] for episode in episodes])
    priorities = buffer._sum_segment[np.array(buffer._last_sampled_indices)]
    np.testing.assert_allclose(weights, (priorities / priorities.min()) ** -0.4, rtol=1e-5)
    held = buffer._sum_segment[np.arange(buffer._sum_segment.capacity)]
    result = {
        "algorithm": f"rllib {arguments.algorithm}",
        "gradient_steps": training.gradient_steps,
        "return_before": returns[0],
        "return_after": returns[-1],
        "items": buffer.get_num_timesteps(),
        "distinct_priorities": len(np.unique(held[held > 0])),
        "least_weight": float(weights.min()),
        "largest_weight": float(weights.max()),
    }
    rates = {}
    if arguments.rounds:
        own = Training(arguments.algorithm, ours=False)
        own.advance(arguments.steps)
        rates = interleaved({"own": advancing(own), "ours": advancing(training)}, arguments.rounds)
    report(result, rates)
    ray.shutdown()


if __name__ == "__main__":
    main()
