"""Trains in TorchRL with its own prioritised sampler, or with one that uses this project's sum tree."""

from importlib.metadata import version

import gymnasium
import numpy as np
import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, PrioritizedSampler, TensorDictReplayBuffer
from torchrl.modules import MLP, QValueActor
from torchrl.objectives import DQNLoss, HardUpdate
from transitions import misfits

from placerl.primitives.replay.adapters.torchrl_adapter import SumTreeSampler

VERSION = f"torchrl {version('torchrl')}"
NOTE = ""
ALGORITHMS = ("dqn",)
LEARNING_STARTS = 500
ALPHA, BETA = 0.6, 0.4


class Training:
    """Trains double DQN on CartPole-v1, with one gradient step per environment step.

    Args:
        algorithm: "dqn", the only one.
        ours: whether the sampler uses this project's sum tree; otherwise it is TorchRL's own.
    """

    def __init__(self, algorithm: str, ours: bool, capacity: int) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(3)
        np.random.seed(3)  # noqa: NPY002 (what TorchRL draws from)
        self.rng = np.random.default_rng(3)
        self.environment = gymnasium.make("CartPole-v1")
        self.network = MLP(in_features=4, out_features=2, num_cells=[64, 64])
        actor = QValueActor(self.network, in_keys=["observation"], action_space="categorical")
        self.loss = DQNLoss(
            actor, loss_function="l2", delay_value=True, double_dqn=True, action_space="categorical"
        )
        self.loss.make_value_estimator(gamma=0.99)
        self.optimizer = torch.optim.Adam(self.loss.parameters(), lr=1e-3)
        self.targets = HardUpdate(self.loss, value_network_update_interval=250)
        kind = SumTreeSampler if ours else PrioritizedSampler
        self.sampler = kind(capacity, ALPHA, BETA)
        self.replay = TensorDictReplayBuffer(
            storage=LazyTensorStorage(capacity), sampler=self.sampler, batch_size=64
        )
        self.observation, _ = self.environment.reset(seed=3)
        self.environment_steps = self.gradient_steps = 0

    def act(self) -> int:
        if self.environment_steps < LEARNING_STARTS or self.rng.random() < 0.1:
            return int(self.rng.integers(2))
        with torch.no_grad():
            return int(self.network(torch.from_numpy(self.observation)).argmax())

    def advance(self, steps: int) -> int:
        before = self.gradient_steps
        for _ in range(steps):
            self.step()
            if self.environment_steps > LEARNING_STARTS:
                self.learn()
        return self.gradient_steps - before

    def step(self) -> None:
        action = self.act()
        following, reward, terminated, truncated, _ = self.environment.step(action)
        ended = terminated or truncated
        outcome = {"reward": [float(reward)], "terminated": [terminated], "done": [ended]}
        after = {"observation": torch.from_numpy(following)}
        after |= {name: torch.tensor(value) for name, value in outcome.items()}
        now = {"observation": torch.from_numpy(self.observation), "action": torch.tensor(action)}
        self.replay.add(TensorDict({**now, "next": TensorDict(after)}))
        self.observation = self.environment.reset()[0] if ended else following
        self.environment_steps += 1

    def learn(self) -> None:
        batch = self.replay.sample()
        self.optimizer.zero_grad()
        self.loss(batch)["loss"].backward()
        self.optimizer.step()
        self.targets.step()
        self.replay.update_tensordict_priority(batch)
        self.gradient_steps += 1

    def facts(self) -> dict[str, float]:
        batch = self.replay.sample(256)
        tree = self.sampler._sum_tree
        every = tree[torch.arange(len(self.replay))].numpy()
        priorities, weights = tree[batch["index"]].numpy(), batch["priority_weight"].numpy()
        np.testing.assert_allclose(weights, (priorities / every.min()) ** -BETA, rtol=1e-5)
        following = batch["next"]
        columns = (following["reward"][:, 0], following["observation"], following["terminated"][:, 0])
        return {
            "items": len(self.replay),
            "distinct_priorities": len(np.unique(every)),
            "least_weight": float(weights.min()),
            # TorchRL's largest weight is that of the smallest priority in the buffer, not in the batch.
            "largest_weight": round(float(weights.max() * (priorities.min() / every.min()) ** BETA), 5),
            "misfits": misfits(
                "CartPole-v1",
                *(column.numpy() for column in (batch["observation"], batch["action"], *columns)),
            ),
        }


create = Training
