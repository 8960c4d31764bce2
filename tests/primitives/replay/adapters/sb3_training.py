"""Trains Stable-Baselines3 with this project's replay; --rounds N times it against SB3's own (uniform) replay."""

from collections.abc import Callable

import gymnasium
import numpy as np
import torch
from interleaved import interleaved, options, report
from stable_baselines3 import DDPG, DQN
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from primitives.replay.adapters.sb3_adapter import PrioritizedDDPG, PrioritizedDQN

CLASSES = {"dqn": (DQN, PrioritizedDQN, "CartPole-v1"), "ddpg": (DDPG, PrioritizedDDPG, "Pendulum-v1")}


def made(kind: type[OffPolicyAlgorithm], environment: str) -> OffPolicyAlgorithm:
    common = {
        "learning_starts": 500,
        "batch_size": 64,
        "seed": 3,
        "train_freq": 1,
        "gradient_steps": 1,
        "device": "cpu",
        "buffer_size": 50_000,
        "policy_kwargs": {"net_arch": [64, 64]},
    }
    if issubclass(kind, DQN):
        common |= {"target_update_interval": 250, "learning_rate": 1e-3, "exploration_fraction": 0.3}
    return kind("MlpPolicy", environment, **common)


def advancing(model: OffPolicyAlgorithm, steps: int) -> Callable[[], int]:
    def advance() -> int:
        before = model._n_updates
        model.learn(steps, reset_num_timesteps=False, log_interval=None)
        return model._n_updates - before

    return advance


def main() -> None:
    arguments = options(__doc__, tuple(CLASSES))
    torch.set_num_threads(1)
    own_kind, ours_kind, environment = CLASSES[arguments.algorithm]
    model = made(ours_kind, environment)
    test_environment = gymnasium.make(environment)
    before, _ = evaluate_policy(model, test_environment, 5, warn=False)
    model.learn(arguments.steps, log_interval=None)
    after, _ = evaluate_policy(model, test_environment, 5, warn=False)
    replay = model.replay_buffer.replay
    weights = replay.sample(256, np.random.default_rng(0)).weights
    result = {
        "algorithm": f"sb3 {arguments.algorithm}",
        "gradient_steps": model._n_updates,
        "return_before": float(before),
        "return_after": float(after),
        "items": len(replay),
        "distinct_priorities": len(np.unique(replay.priorities(np.arange(len(replay))))),
        "least_weight": float(weights.min()),
        "largest_weight": float(weights.max()),
    }
    rates = {}
    if arguments.rounds:
        own = made(own_kind, environment)
        own.learn(arguments.steps, log_interval=None)
        sides = {"own": advancing(own, 400), "ours": advancing(model, 400)}
        rates = interleaved(sides, arguments.rounds)
    report(result, rates)


if __name__ == "__main__":
    main()
