"""Trains in Stable-Baselines3 with its own (uniform) replay, or with this project's prioritised replay."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import DDPG, DQN
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from transitions import misfits

from placerl.primitives.replay.adapters.sb3_adapter import PrioritizedDDPG, PrioritizedDQN

VERSION = f"stable-baselines3 {stable_baselines3.__version__}"
NOTE = "its own replay is uniform, as it has no prioritised one: this project's does more"
ALGORITHMS = {"dqn": (DQN, PrioritizedDQN, "CartPole-v1"), "ddpg": (DDPG, PrioritizedDDPG, "Pendulum-v1")}


class Training:
    """Trains a model of SB3, with one gradient step per environment step; for `baselines/adapter_worker.py`.

    Args:
        algorithm: the algorithm's name, "dqn" or "ddpg".
        ours: whether the replay is this project's prioritised one; otherwise it is SB3's own, which is uniform.
    """

    def __init__(self, algorithm: str, ours: bool, capacity: int) -> None:
        torch.set_num_threads(1)
        self.own_kind, ours_kind, self.environment = ALGORITHMS[algorithm]
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
        self.settings = settings
        self.model = self.model_of(ours_kind if ours else self.own_kind)

    def model_of(self, kind: type[DQN | DDPG], **changes: Any) -> Any:
        model = kind("MlpPolicy", self.environment, **self.settings | changes)
        model.set_logger(Logger(folder=None, output_formats=[]))  # SB3's own logger leaves a temporary folder
        return model

    def advance(self, environment_steps: int) -> int:
        before = self.model._n_updates
        self.model.learn(environment_steps, reset_num_timesteps=False, log_interval=None)
        return self.model._n_updates - before

    def facts(self) -> dict[str, float]:
        replay = self.model.replay_buffer.replay
        weights = replay.sample(256, np.random.default_rng(0)).weights
        return {
            "items": len(replay),
            "distinct_priorities": len(np.unique(replay.priorities(np.arange(len(replay))))),
            "least_weight": float(weights.min()),
            "largest_weight": float(weights.max()),
            "misfits": self.misfits(),
            "step_difference": self.step_difference(),
        }

    def misfits(self) -> int:
        data = self.model.replay_buffer.sample(256)
        columns = (data.observations, data.actions, data.rewards, data.next_observations, data.dones)
        observation, action, reward, following, terminated = (column.numpy() for column in columns)
        action = (
            action[:, 0] if self.environment == "CartPole-v1" else self.model.policy.unscale_action(action)
        )
        return misfits(self.environment, observation, action, reward[:, 0], following, terminated[:, 0])

    def step_difference(self) -> float:
        """Return how much this project's weighted gradient steps differ from SB3's own when both should be equal.

        SB3's steps use 32 transitions. The weighted steps use 64: the first 32 with weight 2 and the others with
        weight 0, so that losses and gradients are equal. The actor's loss has no weights, so the other
        transitions repeat the first ones' observations. Adam is not used: it would turn a gradient of pure
        rounding errors into a full step.

        Returns:
            The largest difference between the parameters after four steps of each kind, divided by the largest change
            that SB3's steps made.
        """
        plain = {"optimizer_class": torch.optim.SGD, **self.settings["policy_kwargs"]}
        kinds = (self.own_kind, type(self.model))
        own, ours = (self.model_of(kind, learning_rate=1e-2, policy_kwargs=plain) for kind in kinds)
        ours.policy.load_state_dict(own.policy.state_dict())
        first = [parameter.detach().clone() for parameter in own.policy.parameters()]
        weights = torch.tensor([2.0] * 32 + [0.0] * 32).reshape(-1, 1)
        for _ in range(4):
            data = self.model.replay_buffer.sample(64)
            # More ends than episodes have: with few of them the difference would hardly show.
            over = (torch.arange(64) % 4 == 0).float().reshape(-1, 1)
            batch = data._replace(observations=torch.cat([data.observations[:32]] * 2), dones=over)
            half = ReplayBufferSamples(*(column[:32] for column in batch[:5]))
            own.replay_buffer.sample = lambda *_, half=half, **__: half
            ours.replay_buffer.sample = lambda *_, batch=batch, **__: batch
            ours.replay_buffer.weights = weights
            ours.replay_buffer.update_priorities = lambda td_errors: None
            own.train(1)
            ours.train(1)

        def distance(a: Iterable[torch.Tensor], b: Iterable[torch.Tensor]) -> float:
            return max(float((x - y).abs().max()) for x, y in zip(a, b, strict=True))

        return distance(own.policy.parameters(), ours.policy.parameters()) / distance(
            own.policy.parameters(), first
        )


create = Training
