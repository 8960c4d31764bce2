"""What the algorithms for continuous actions have in common: an actor, a critic or two, and exploration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from placerl.primitives import checks
from placerl.primitives.algorithms import base, networks
from placerl.primitives.algorithms.networks import Array, Network, Parameters


@dataclass(frozen=True)
class ActorCriticHyperparameters(base.Hyperparameters):
    """The hyper-parameters of an actor, a critic and their target networks."""

    actor_learning_rate: float = 1e-3
    """Adam's step size for the actor, > 0."""
    critic_learning_rate: float = 1e-3
    """Adam's step size for the critic or critics, > 0."""
    gamma: float = 0.99
    """Discount per step, [0, 1]."""
    tau: float = 0.005
    """Fraction by which the target networks move towards the trained ones at each update, (0, 1]."""

    def __post_init__(self) -> None:
        """Raise ValueError for a value out of range."""
        super().__post_init__()
        checks.positive("actor_learning_rate", self.actor_learning_rate)
        checks.positive("critic_learning_rate", self.critic_learning_rate)
        checks.in_range("gamma", self.gamma, 0, 1)
        checks.in_range("tau", self.tau, 0, 1, open_low=True)


class ActorCritic(base.Algorithm):
    """An algorithm with an actor and a critic. The actor is deterministic, and its actions get Gaussian noise
    (`exploration_noise`), unless the algorithm has its own (SAC).
    """

    action_kinds: ClassVar[tuple[str, ...]] = ("continuous",)

    @property
    def actor(self) -> Network:
        """The actor mu: maps observations (B, S) to actions (B, A) in [-1, 1]."""
        return self.network.build(self.observation_shape, self.action_size, "tanh")

    @property
    def critic(self) -> Network:
        """The critic, or each of them: maps observations joined with actions, (B, S + A), to values (B, 1)."""
        return self.network.build((self.observation_shape[0] + self.action_size,), 1)

    def acting_parameters(self, state: Any) -> Parameters:
        """Return the part of the state that actors need to choose actions: the actor's parameters."""
        actor: Parameters = state.actor
        return actor

    def act(self, parameters: Mapping[str, Array], observation: Array) -> Array:
        """Return greedy actions, (n, A) in [-1, 1]."""
        return self.actor(parameters, observation)

    def explored(
        self, parameters: Mapping[str, Array], observation: Array, draws: Mapping[str, Array]
    ) -> Array:
        """Return the greedy action plus Gaussian noise, clipped to [-1, 1]."""
        noise = self.hyperparameters.exploration_noise * draws["noise"]
        return networks.clip(self.act(parameters, observation) + noise, -1, 1)


class TwinCritics(ActorCritic):
    """An actor with the critics Q1 and Q2, whose parameters are joined as "first" and "second"."""

    @property
    def networks(self) -> dict[str, Network]:
        """The trained networks: "actor", "critics.first" and "critics.second"."""
        return {"actor": self.actor, "critics.first": self.critic, "critics.second": self.critic}

    def initial_critics(self, generator: torch.Generator) -> Parameters:
        """Return the critics' parameters before training."""
        return networks.join(
            first=networks.initialise(self.critic, generator, self.dtype),
            second=networks.initialise(self.critic, generator, self.dtype),
        )

    def values(self, critics: Parameters, observation: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Return Q1 and Q2, (B,) each, of observations (B, S) and actions (B, A)."""
        pairs = torch.cat([observation, action], 1)
        first = self.critic(networks.part(critics, "first"), pairs).squeeze(1)
        return first, self.critic(networks.part(critics, "second"), pairs).squeeze(1)
