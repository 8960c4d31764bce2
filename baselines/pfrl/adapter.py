"""Trains in PFRL with its own prioritised replay, or with one that uses this project's sum tree."""

from importlib.metadata import version

import gymnasium
import numpy as np
import pfrl
import torch
from pfrl import agents, explorers, q_functions, replay_buffers
from transitions import misfits

from placerl.primitives.replay.adapters.pfrl_adapter import PrioritizedReplayBuffer

VERSION = f"pfrl {version('pfrl')}"
NOTE = "of its agents only DQN and its descendants take a prioritised replay: none for continuous actions"
ALGORITHMS = ("dqn",)
LEARNING_STARTS = 500
SETTINGS = {"alpha": 0.6, "beta0": 0.4, "betasteps": 50_000, "num_steps": 1}


class Training:
    """Trains double DQN on CartPole-v1, with one gradient step per environment step.

    Args:
        algorithm: "dqn", the only one.
        ours: whether the replay uses this project's sum tree; otherwise it is PFRL's own.
    """

    def __init__(self, algorithm: str, ours: bool, capacity: int) -> None:
        torch.set_num_threads(1)
        kind = PrioritizedReplayBuffer if ours else replay_buffers.PrioritizedReplayBuffer
        self.replay = kind(capacity, **SETTINGS)
        pfrl.utils.set_random_seed(3)
        self.environment = gymnasium.make("CartPole-v1")
        self.environment.action_space.seed(3)
        q_function = q_functions.FCStateQFunctionWithDiscreteAction(
            4, 2, n_hidden_layers=2, n_hidden_channels=64
        )
        self.agent = agents.DoubleDQN(
            q_function,
            torch.optim.Adam(q_function.parameters(), lr=1e-3),
            self.replay,
            gamma=0.99,
            explorer=explorers.ConstantEpsilonGreedy(0.1, self.environment.action_space.sample),
            replay_start_size=LEARNING_STARTS,
            minibatch_size=64,
            target_update_interval=250,
        )
        self.observation, _ = self.environment.reset(seed=3)

    def advance(self, steps: int) -> int:
        before = self.agent.optim_t
        for _ in range(steps):
            action = self.agent.act(self.observation)
            self.observation, reward, terminated, truncated, _ = self.environment.step(action)
            self.agent.observe(self.observation, reward, terminated, terminated or truncated)
            if terminated or truncated:
                self.observation, _ = self.environment.reset()
        return self.agent.optim_t - before

    def facts(self) -> dict[str, float]:
        beta = self.replay.beta
        sampled = [steps[0] for steps in self.replay.sample(256)]
        weights = np.array([step["weight"] for step in sampled])
        names = ("state", "action", "reward", "next_state", "is_state_terminal")
        tree = self.replay.memory.tree
        priorities = tree.get(self.replay.memory._sampled)
        np.testing.assert_allclose(weights, (priorities / priorities.min()) ** -beta, rtol=1e-5)
        return {
            "items": len(self.replay),
            "distinct_priorities": len(np.unique(tree.get(np.arange(len(self.replay))))),
            "least_weight": float(weights.min()),
            "largest_weight": float(weights.max()),
            "misfits": misfits("CartPole-v1", *([step[name] for step in sampled] for name in names)),
        }


create = Training
