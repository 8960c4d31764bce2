"""Trains PPO in the style of Baselines' PPO2, as a worker that answers jobs in JSON (`harness/compare/protocol.py`).

    echo '{"workload": {...}, "batch_size": 128, "seed": 0, "threads": 1, "gradient_steps": 200}' \\
        | PYTHONPATH=harness/environments:baselines baselines/ppo2_style/.venv/bin/python -P \\
        baselines/ppo2_style/worker.py

OpenAI Baselines can no longer be installed; this file was written for this project after the structure of its PPO2,
which PPO (5.1) compares with. Policy and value are two heads on shared hidden layers, trained by one Adam on one loss.
N environments, each in a process of its own, take every step together, and one call of the network serves them all.
The samples stay in host memory; each of K epochs shuffles them, and copies one mini-batch of M after the other to the
job's device. A truncated episode counts as terminated, and no KL divergence ends an epoch early. As the workload's,
the value's loss is not clipped. Environments are Gymnasium's `AsyncVectorEnv` without shared memory, which is built as
Baselines' `SubprocVecEnv`. There is no logging, and Adam is fused.
"""

from functools import partial
from time import perf_counter
from typing import Any

import gymnasium
import numpy as np
import torch
from advantages import advantages
from agent import Agent, anneal, hidden_layers, make_environment
from cleanrl_style.worker import ACTIVATIONS, PPO
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from job_loop import UnsupportedError, serve
from torch import Tensor, nn
from torch_device import device_of

SYSTEM = "the PPO2-style file"
ADAM_EPSILON = 1e-5
PIXELS = 255.0


def _linear(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Linear:
    """Return a layer with orthogonal weights and biases of 0, as PPO2 starts."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def _trunk(workload: dict[str, Any]) -> tuple[nn.Sequential, int]:
    """Return the layers that policy and value share, and the number of their outputs."""
    shape = workload["environment"]["observation_shape"]
    if workload["network"]["kind"] == "nature_cnn":
        layers: list[nn.Module] = []
        channels = shape[0]
        for outputs, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            layers += [nn.Conv2d(channels, outputs, size, stride), nn.ReLU()]
            channels = outputs
        return nn.Sequential(*layers, nn.Flatten(), _linear(64 * 7 * 7, 512), nn.ReLU()), 512
    hidden, activation = hidden_layers(workload, ACTIVATIONS, SYSTEM)
    layers, (width,) = [], shape
    for outputs in hidden:
        layers += [_linear(width, outputs), activation()]
        width = outputs
    return nn.Sequential(*layers), width


class SharedPPO(PPO):
    """PPO whose policy and value are heads on the same layers."""

    def __init__(self, workload: dict[str, Any]) -> None:
        self.settings, environment = workload["algorithm"], workload["environment"]
        self.continuous = environment["action_kind"] == "continuous"
        self.scale = PIXELS if workload["network"]["kind"] == "nature_cnn" else 1.0
        self.trunk, width = _trunk(workload)
        self.policy = _linear(width, environment["action_size"], 0.01)
        self.value = _linear(width, 1, 1.0)
        self.log_std = nn.Parameter(
            torch.full((environment["action_size"],), self.settings["initial_log_std"])
        )
        trained = nn.ModuleList([self.trunk, self.policy, self.value])
        self.optimizer = torch.optim.Adam(
            [*trained.parameters(), *([self.log_std] if self.continuous else [])],
            lr=self.settings["policy_learning_rate"],
            eps=ADAM_EPSILON,
            fused=True,
        )

    def evaluate(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Return the policy head's output and the value of each observation."""
        features = self.trunk(observation / self.scale)
        return self.policy(features), self.value(features).squeeze(1)


class Training(Agent):
    """Trains PPO with N environments in processes of their own.

    Raises:
        UnsupportedError: another algorithm, network or environment, or a device that PyTorch does not see.
    """

    on_policy = True
    devices = ("cpu", "cuda")
    anneals = True

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__()
        self.workload, self.device, self.batch_size = job["workload"], device_of(job), job["batch_size"]
        self.settings, environment = self.workload["algorithm"], self.workload["environment"]
        if self.settings["name"] != "ppo":
            raise UnsupportedError(f"algorithm {self.settings['name']} is not in {SYSTEM}")
        if self.settings["target_kl"] is not None:
            self.notes["early_stop"] = "none: PPO2 has no KL divergence to stop at"
        self.notes["optimizer"] = "one Adam for both heads, with the policy's learning rate"
        self.notes["truncation"] = "counts as termination"
        make_environment(environment).close()  # raises if it does not exist
        torch.set_num_threads(job["threads"])
        torch.manual_seed(job["seed"])
        self.rng = np.random.default_rng(job["seed"])
        self.environments = AsyncVectorEnv(
            [partial(make_environment, environment)] * self.workload["training"]["actors"],
            shared_memory=False,
            autoreset_mode=AutoresetMode.SAME_STEP,
        )
        self.observations, _ = self.environments.reset(seed=job["seed"])
        self._returns = np.zeros(self.environments.num_envs)
        with torch.device(self.device):
            self.learner = SharedPPO(self.workload)
        self.warm_up()

    def _tensor(self, array: np.ndarray) -> Tensor:
        tensor = torch.as_tensor(array, device=self.device)
        return tensor.float() if tensor.is_floating_point() else tensor

    @torch.no_grad()
    def greedy(self, observation: np.ndarray) -> np.ndarray:
        """Return the most likely action for one observation."""
        return self.learner.best(self._tensor(observation[None]))[0].cpu().numpy()

    def _step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Take a step in every environment, and return its rewards and whether episodes ended, each (N,)."""
        if self.learner.continuous:
            space = self.environments.single_action_space
            assert isinstance(space, gymnasium.spaces.Box)
            actions = space.low + (np.clip(actions, -1, 1) + 1) * ((space.high - space.low) / 2)
        self.observations, rewards, terminated, truncated, _ = self.environments.step(actions)
        over = terminated | truncated
        self._returns += rewards
        self.episode_returns += self._returns[over].tolist()
        self._returns[over] = 0.0
        return np.float32(rewards), over

    @torch.no_grad()
    def rollout(self) -> dict[str, np.ndarray]:
        """Collect N T samples, in host memory, and compute their advantages."""
        begin_s, environment_s, steps = perf_counter(), 0.0, []
        for _ in range(self.settings["trajectory_length"]):
            observation = self.observations
            policy, value = self.learner.evaluate(self._tensor(observation))
            action = self.learner.draw(policy)
            log_probability, _ = self.learner.judge(policy, action)
            known = [column.cpu().numpy() for column in (action, log_probability, value)]
            step_s = perf_counter()
            reward, over = self._step(known[0])
            environment_s += perf_counter() - step_s
            steps.append((observation, *known, reward, over))
        _, value = self.learner.evaluate(self._tensor(self.observations))
        last = value.cpu().numpy()
        end_s = perf_counter()
        columns = [np.stack(column) for column in zip(*steps, strict=True)]
        observation, action, log_probability, values, reward, over = columns
        following = np.concatenate([values[1:], last[None]])
        settings = self.settings
        advantage = advantages(
            reward, values, following, over, over, settings["gamma"], settings["gae_lambda"]
        )
        samples = {
            "observation": observation,
            "action": action,
            "log_probability": log_probability,
            "advantage": advantage,
            "value_target": advantage + values,
        }
        samples = {name: column.reshape(-1, *column.shape[2:]) for name, column in samples.items()}
        self.spend(
            environment=environment_s,
            infer=end_s - begin_s - environment_s,
            prepare=perf_counter() - end_s,
        )
        return samples

    def iterate(self) -> None:
        """Train one iteration: N T samples, then K epochs of minibatches of M."""
        samples = self.rollout()
        begin_s, number = perf_counter(), len(samples["advantage"])
        self.environment_steps += number
        for _ in range(self.settings["epochs"]):
            order = self.rng.permutation(number)
            for begin in range(0, number - self.batch_size + 1, self.batch_size):
                places = order[begin : begin + self.batch_size]
                anneal([self.learner.optimizer], self.settings, self.gradient_steps)
                self.learner.update({name: self._tensor(column[places]) for name, column in samples.items()})
                self.gradient_steps += 1
        if self.device != "cpu":
            torch.cuda.synchronize(self.device)
        self.spend(learner=perf_counter() - begin_s)


if __name__ == "__main__":
    serve(Training)
