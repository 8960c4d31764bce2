"""PFRL with its own prioritised replay and with this project's sum tree in it."""

from importlib.metadata import version

import gymnasium
import numpy as np
import pfrl
import torch
from pfrl import agents, explorers, q_functions, replay_buffers

from primitives.replay.adapters.pfrl_adapter import PrioritizedReplayBuffer

VERSION = f"pfrl {version('pfrl')}"
NOTE = "of its agents only DQN and its descendants take a prioritised replay: none for continuous actions"
ALGORITHMS = ("dqn",)
LEARNING_STARTS = 500
SETTINGS = {"alpha": 0.6, "beta0": 0.4, "betasteps": 50_000, "num_steps": 1}


class Training:
    """Double DQN on CartPole-v1, advanced by environment steps, one gradient step for each."""

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

    def evaluate(self) -> float:
        environment, total = gymnasium.make("CartPole-v1"), 0.0
        with self.agent.eval_mode():
            for seed in range(5):
                observation, _ = environment.reset(seed=seed)
                ended = False
                while not ended:
                    observation, reward, terminated, truncated, _ = environment.step(
                        self.agent.act(observation)
                    )
                    ended = terminated or truncated
                    self.agent.observe(observation, reward, terminated, ended)
                    total += reward
        return total / 5

    def facts(self) -> dict[str, float]:
        beta = self.replay.beta
        weights = np.array([steps[0]["weight"] for steps in self.replay.sample(256)])
        tree = self.replay.memory.tree
        priorities = tree.get(self.replay.memory._sampled)
        np.testing.assert_allclose(weights, (priorities / priorities.min()) ** -beta, rtol=1e-5)
        return {
            "items": len(self.replay),
            "distinct_priorities": len(np.unique(tree.get(np.arange(len(self.replay))))),
            "least_weight": float(weights.min()),
            "largest_weight": float(weights.max()),
        }


create = Training
