"""Implements the algorithms in usual PyTorch code (CleanRL's style): modules, `torch.optim.Adam`, `backward`.

Each makes the same update as the algorithm of that name in `primitives.algorithms`, from the same first state and
with the same random draws, so that its TD errors can be checked step by step.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives.algorithms import networks
from placerl.primitives.algorithms.sac import LOG_STD_RANGE

_ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}


class _Pixels(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.float() / 255


def module(network: networks.Network, parameters: networks.Parameters) -> nn.Sequential:
    """Return a network of `primitives` as a PyTorch module, with copies of the given parameters."""
    layers: list[nn.Module] = []
    if isinstance(network, networks.NatureCNN):
        layers.append(_Pixels())
        for index, (channels, kernel, stride) in enumerate(network.convolutions):
            inputs = network.layers[index].weight_shape[1]
            layers += [nn.Conv2d(inputs, channels, kernel, stride), nn.ReLU()]
        layers.append(nn.Flatten())
        for layer in network.layers[len(network.convolutions) :]:
            layers += [nn.Linear(layer.weight_shape[1], layer.weight_shape[0]), nn.ReLU()]
        layers.pop()
    elif isinstance(network, networks.MLP):
        for layer in network.layers:
            linear = nn.Linear(layer.weight_shape[1], layer.weight_shape[0])
            layers += [linear, _ACTIVATIONS[network.activation]()]
        layers.pop()
        if network.output_activation != "none":
            layers.append(_ACTIVATIONS[network.output_activation]())
    trained: list[Any] = [affine for affine in layers if isinstance(affine, nn.Conv2d | nn.Linear)]
    for index, affine in enumerate(trained):
        affine.weight.data.copy_(parameters[f"{index}.weight"])
        affine.bias.data.copy_(parameters[f"{index}.bias"])
    return nn.Sequential(*layers)


def _follow(targets: nn.Module, online: nn.Module, tau: float) -> None:
    with torch.no_grad():
        for old, new in zip(targets.parameters(), online.parameters(), strict=True):
            old.data.copy_(tau * new.data + (1 - tau) * old.data)


class Eager(ABC):
    """The base class of an algorithm in eager PyTorch: its networks and optimisers, and its gradient step."""

    def __init__(self, item: Workload, batch_size: int, seed: int = 0) -> None:
        self.algorithm = algorithm_of(item)
        self.batch_size = batch_size
        self.settings = self.algorithm.hyperparameters
        self.gradient_steps = 0
        self._generator = torch.Generator().manual_seed(seed)
        self._make(self.algorithm.initialise(self._generator))

    def step(self, columns: Mapping[str, npt.NDArray]) -> npt.NDArray[np.float32]:
        """Take one gradient step, with importance weights of 1, and return the TD errors (B,).

        Args:
            columns: the batch, an array of B rows for each field.
        """
        batch = {name: torch.from_numpy(column) for name, column in columns.items()}
        if "terminated" in batch:
            batch["going_on"] = 1 - batch["terminated"].float()
        td_error = self._step(batch, self.algorithm.draw(self.batch_size, self._generator))
        self.gradient_steps += 1
        return td_error.detach().numpy()

    @abstractmethod
    def _make(self, state: Any) -> None: ...

    @abstractmethod
    def _step(self, batch: dict[str, Tensor], draws: Mapping[str, Tensor]) -> Tensor: ...

    def _module(self, name: str, parameters: networks.Parameters) -> nn.Sequential:
        return module(self.algorithm.networks[name], parameters)

    @staticmethod
    def _descend(optimiser: torch.optim.Optimizer, loss: Tensor, clip: float | None = None) -> None:
        optimiser.zero_grad()
        loss.backward()
        if clip is not None:
            parameters: Iterable[Tensor] = optimiser.param_groups[0]["params"]
            nn.utils.clip_grad_norm_(parameters, clip)
        optimiser.step()


class EagerDQN(Eager):
    """The gradient step of DQN and double DQN in eager PyTorch."""

    def _make(self, state: Any) -> None:
        self.q = self._module("q", state.q)
        self.target = deepcopy(self.q)
        self.adam = torch.optim.Adam(self.q.parameters(), lr=self.settings.learning_rate)

    def _step(self, batch: dict[str, Tensor], draws: Mapping[str, Tensor]) -> Tensor:
        settings = self.settings
        with torch.no_grad():
            following = self.target(batch["next_observation"])
            if settings.double:
                greedy = self.q(batch["next_observation"]).argmax(1, keepdim=True)
                next_value = following.gather(1, greedy).squeeze(1)
            else:
                next_value = following.max(1).values
            target = batch["reward"] + settings.gamma * batch["going_on"] * next_value
        value = self.q(batch["observation"]).gather(1, batch["action"].unsqueeze(1)).squeeze(1)
        cost = functional.smooth_l1_loss if settings.loss == "huber" else functional.mse_loss
        self._descend(self.adam, cost(value, target), settings.maximum_gradient_norm)
        if (self.gradient_steps + 1) % settings.target_interval == 0:
            _follow(self.target, self.q, settings.tau)
        return target - value


class EagerDDPG(Eager):
    """The gradient step of DDPG in eager PyTorch."""

    def _make(self, state: Any) -> None:
        self.actor, self.critic = self._module("actor", state.actor), self._module("critic", state.critic)
        self.target_actor, self.target_critic = deepcopy(self.actor), deepcopy(self.critic)
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), lr=self.settings.actor_learning_rate)
        self.critic_adam = torch.optim.Adam(self.critic.parameters(), lr=self.settings.critic_learning_rate)

    def _step(self, batch: dict[str, Tensor], draws: Mapping[str, Tensor]) -> Tensor:
        observation, following = batch["observation"], batch["next_observation"]
        with torch.no_grad():
            next_value = self.target_critic(torch.cat([following, self.target_actor(following)], 1)).flatten()
            target = batch["reward"] + self.settings.gamma * batch["going_on"] * next_value
        td_error = target - self.critic(torch.cat([observation, batch["action"]], 1)).flatten()
        self._descend(self.critic_adam, (td_error**2).mean())
        pair = torch.cat([observation, self.actor(observation)], 1)
        self._descend(self.actor_adam, -self.critic(pair).mean())
        _follow(self.target_actor, self.actor, self.settings.tau)
        _follow(self.target_critic, self.critic, self.settings.tau)
        return td_error


class _TwinCritics(Eager):
    """What TD3 and SAC share."""

    def _make(self, state: Any) -> None:
        self.actor = self._module("actor", state.actor)
        self.critics = nn.ModuleList(
            self._module(f"critics.{name}", networks.part(state.critics, name))
            for name in ("first", "second")
        )
        self.target_critics = deepcopy(self.critics)
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), lr=self.settings.actor_learning_rate)
        self.critics_adam = torch.optim.Adam(self.critics.parameters(), lr=self.settings.critic_learning_rate)

    @staticmethod
    def _values(critics: nn.ModuleList, observation: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        pair = torch.cat([observation, action], 1)
        return critics[0](pair).flatten(), critics[1](pair).flatten()


class EagerTD3(_TwinCritics):
    """The gradient step of TD3 in eager PyTorch."""

    def _make(self, state: Any) -> None:
        super()._make(state)
        self.target_actor = deepcopy(self.actor)

    def _step(self, batch: dict[str, Tensor], draws: Mapping[str, Tensor]) -> Tensor:
        settings, observation = self.settings, batch["observation"]
        following, clip = batch["next_observation"], settings.target_noise_clip
        with torch.no_grad():
            noise = (draws["target_noise"] * settings.target_noise).clamp(-clip, clip)
            next_action = (self.target_actor(following) + noise).clamp(-1, 1)
            next_value = torch.min(*self._values(self.target_critics, following, next_action))
            target = batch["reward"] + settings.gamma * batch["going_on"] * next_value
        first, second = self._values(self.critics, observation, batch["action"])
        loss = functional.mse_loss(first, target) + functional.mse_loss(second, target)
        self._descend(self.critics_adam, loss)
        if (self.gradient_steps + 1) % settings.policy_delay == 0:
            pair = torch.cat([observation, self.actor(observation)], 1)
            self._descend(self.actor_adam, -self.critics[0](pair).mean())
            _follow(self.target_actor, self.actor, settings.tau)
            _follow(self.target_critics, self.critics, settings.tau)
        return target - (first + second) / 2


class EagerSAC(_TwinCritics):
    """The gradient step of SAC in eager PyTorch, with the training of its temperature."""

    def _make(self, state: Any) -> None:
        super()._make(state)
        self.log_alpha = state.temperature["log_alpha"].clone().requires_grad_()
        self.alpha_adam = torch.optim.Adam([self.log_alpha], lr=self.settings.temperature_learning_rate)

    def _sample(self, observation: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.actor(observation).chunk(2, 1)
        normal = torch.distributions.Normal(mean, log_std.clamp(*LOG_STD_RANGE).exp(), validate_args=False)
        u = normal.mean + normal.stddev * noise
        squashed = 2 * (np.log(2) - u - functional.softplus(-2 * u))
        return torch.tanh(u), (normal.log_prob(u) - squashed).sum(1)

    def _step(self, batch: dict[str, Tensor], draws: Mapping[str, Tensor]) -> Tensor:
        settings, observation, following = self.settings, batch["observation"], batch["next_observation"]
        alpha = self.log_alpha.detach().exp()
        with torch.no_grad():
            next_action, next_log_probability = self._sample(following, draws["next_noise"])
            next_value = torch.min(*self._values(self.target_critics, following, next_action))
            soft_value = next_value - alpha * next_log_probability
            target = batch["reward"] + settings.gamma * batch["going_on"] * soft_value
        first, second = self._values(self.critics, observation, batch["action"])
        loss = 0.5 * (functional.mse_loss(first, target) + functional.mse_loss(second, target))
        self._descend(self.critics_adam, loss)
        action, log_probability = self._sample(observation, draws["noise"])
        value = torch.min(*self._values(self.critics, observation, action))
        self._descend(self.actor_adam, (alpha * log_probability - value).mean())
        if settings.tune_temperature:
            entropy_gap = (log_probability.detach() + self.algorithm.target_entropy).mean()  # type: ignore[attr-defined]
            self._descend(self.alpha_adam, -self.log_alpha * entropy_gap)
        _follow(self.target_critics, self.critics, settings.tau)
        return target - (first + second) / 2


class EagerPPO(Eager):
    """The gradient step of PPO in eager PyTorch, with separate policy and value networks, and without early stop."""

    def _make(self, state: Any) -> None:
        self.policy, self.value = self._module("policy", state.policy), self._module("value", state.value)
        self.log_std = None
        trained = list(self.policy.parameters())
        if not self.algorithm.discrete:
            self.log_std = nn.Parameter(state.policy["log_std"].clone())
            trained.append(self.log_std)
        self.policy_adam = torch.optim.Adam(trained, lr=self.settings.policy_learning_rate)
        self.value_adam = torch.optim.Adam(self.value.parameters(), lr=self.settings.value_learning_rate)

    def _distribution(self, observation: Tensor) -> torch.distributions.Distribution:
        output = self.policy(observation)
        if self.log_std is None:
            return torch.distributions.Categorical(logits=output, validate_args=False)
        normal = torch.distributions.Normal(output, self.log_std.exp().expand_as(output), validate_args=False)
        return torch.distributions.Independent(normal, 1, validate_args=False)

    def _step(self, batch: dict[str, Tensor], draws: Mapping[str, Tensor]) -> Tensor:
        settings, observation = self.settings, batch["observation"]
        error = batch["value_target"] - self.value(observation).flatten()
        self._descend(self.value_adam, (error**2).mean(), settings.maximum_gradient_norm)
        advantage = batch["advantage"]
        if settings.normalize_advantages:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        distribution: Any = self._distribution(observation)
        ratio = (distribution.log_prob(batch["action"]) - batch["log_probability"]).exp()
        clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
        gain = torch.min(ratio * advantage, clipped * advantage).mean()
        loss = -gain - settings.entropy_coefficient * distribution.entropy().mean()
        self._descend(self.policy_adam, loss, settings.maximum_gradient_norm)
        return error


EAGER: dict[str, type[Eager]] = {
    "dqn": EagerDQN,
    "ddpg": EagerDDPG,
    "td3": EagerTD3,
    "sac": EagerSAC,
    "ppo": EagerPPO,
}
