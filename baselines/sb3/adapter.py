"""Stable-Baselines3 with its own (uniform) replay and with this project's prioritised one."""

from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import DDPG, DQN
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import Logger

from primitives.replay.adapters.sb3_adapter import PrioritizedDDPG, PrioritizedDQN

VERSION = f"stable-baselines3 {stable_baselines3.__version__}"
NOTE = "its own replay is uniform, as it has no prioritised one: this project's does more"
ALGORITHMS = {"dqn": (DQN, PrioritizedDQN, "CartPole-v1"), "ddpg": (DDPG, PrioritizedDDPG, "Pendulum-v1")}


class Training:
    """A model, advanced by environment steps, one gradient step for each."""

    def __init__(self, algorithm: str, ours: bool, capacity: int) -> None:
        torch.set_num_threads(1)
        own_kind, ours_kind, self.environment = ALGORITHMS[algorithm]
        settings: dict[str, Any] = {
            "learning_starts": 500,
            "batch_size": 64,
            "seed": 3,
            "train_freq": 1,
            "gradient_steps": 1,
            "device": "cpu",
            "buffer_size": capacity,
            "policy_kwargs": {"net_arch": [64, 64]},
        }
        if algorithm == "dqn":
            settings |= {"target_update_interval": 250, "learning_rate": 1e-3, "exploration_fraction": 0.3}
        self.model = (ours_kind if ours else own_kind)("MlpPolicy", self.environment, **settings)
        self.model.set_logger(Logger(folder=None, output_formats=[]))  # its own leaves a temporary folder

    def advance(self, environment_steps: int) -> int:
        before = self.model._n_updates
        self.model.learn(environment_steps, reset_num_timesteps=False, log_interval=None)
        return self.model._n_updates - before

    def evaluate(self) -> float:
        mean, _ = evaluate_policy(self.model, gymnasium.make(self.environment), 5, warn=False)
        return float(mean)

    def facts(self) -> dict[str, float]:
        replay = self.model.replay_buffer.replay
        weights = replay.sample(256, np.random.default_rng(0)).weights
        return {
            "items": len(replay),
            "distinct_priorities": len(np.unique(replay.priorities(np.arange(len(replay))))),
            "least_weight": float(weights.min()),
            "largest_weight": float(weights.max()),
        }


create = Training
