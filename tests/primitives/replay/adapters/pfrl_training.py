"""Trains PFRL with this project's sum tree; --rounds N times it against PFRL's own prioritised replay."""

from collections.abc import Callable

import gymnasium
import numpy as np
import pfrl
import torch
from interleaved import interleaved, options, report
from pfrl import agents, explorers, q_functions, replay_buffers

from primitives.replay.adapters.pfrl_adapter import PrioritizedReplayBuffer

CAPACITY = 50_000
LEARNING_STARTS = 500


class Training:
    """Double DQN on CartPole-v1, advanced by environment steps, one gradient step for each."""

    def __init__(self, replay: replay_buffers.PrioritizedReplayBuffer) -> None:
        pfrl.utils.set_random_seed(3)
        self.environment = gymnasium.make("CartPole-v1")
        self.environment.action_space.seed(3)
        q_function = q_functions.FCStateQFunctionWithDiscreteAction(
            4, 2, n_hidden_layers=2, n_hidden_channels=64
        )
        self.agent = agents.DoubleDQN(
            q_function,
            torch.optim.Adam(q_function.parameters(), lr=1e-3),
            replay,
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


def advancing(training: Training) -> Callable[[], int]:
    return lambda: training.advance(400)


def main() -> None:
    arguments = options(__doc__, ("dqn",))
    torch.set_num_threads(1)
    settings = {"alpha": 0.6, "beta0": 0.4, "betasteps": 50_000, "num_steps": 1}
    replay = PrioritizedReplayBuffer(CAPACITY, **settings)
    training = Training(replay)
    before = training.evaluate()
    training.advance(arguments.steps)
    after = training.evaluate()
    beta = replay.beta
    sampled = replay.sample(256)
    weights = np.array([steps[0]["weight"] for steps in sampled])
    priorities = replay.memory.tree.get(replay.memory._sampled)
    np.testing.assert_allclose(weights, (priorities / priorities.min()) ** -beta, rtol=1e-5)
    result = {
        "algorithm": "pfrl dqn",
        "gradient_steps": training.agent.optim_t,
        "return_before": before,
        "return_after": after,
        "items": len(replay),
        "distinct_priorities": len(np.unique(replay.memory.tree.get(np.arange(len(replay))))),
        "least_weight": weights.min(),
        "largest_weight": weights.max(),
    }
    rates = {}
    if arguments.rounds:
        own = Training(replay_buffers.PrioritizedReplayBuffer(CAPACITY, **settings))
        own.advance(arguments.steps)
        rates = interleaved({"own": advancing(own), "ours": advancing(training)}, arguments.rounds)
    report(result, rates)


if __name__ == "__main__":
    main()
