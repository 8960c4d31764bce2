"""Deep deterministic policy gradient (Lillicrap et al. 2015, arXiv:1509.02971, Algorithm 1).

The learner of MAP and PRL for continuous actions (MAP Table III), and of FIX (FIX V-B). One gradient step:

    y_i = r_i + gamma (1 - terminated_i) Q'(s'_i, mu'(s'_i))          equation 5
    td_i = y_i - Q(s_i, a_i)                                          |td_i| is the new priority
    critic: minimise 1/B sum_i w_i td_i^2                             equation 4, importance-weighted (PAL II)
    actor:  maximise 1/B sum_i Q(s_i, mu(s_i))                        equation 6, with the critic just updated
    Q' <- (1 - tau) Q' + tau Q,  mu' <- (1 - tau) mu' + tau mu

both with Adam. The critic takes observation and action together in its first layer (FIX V-B); the actor ends with
a tanh. Only `terminated` ends the bootstrap: a truncated episode would have gone on.

Batch of B transitions:

| field | shape | dtype | range, unit |
|---|---|---|---|
| observation, next_observation | (B, S) | float | the environment's |
| action | (B, A) | float | [-1, 1]: scaled to the environment's bounds outside |
| reward | (B,) | float | the environment's |
| terminated | (B,) | float | 0 or 1 |
| discount | (B,) | float | gamma^m of n-step returns, in the place of gamma; only with `n_step` |
| weight | (B,) | float | importance weight, (0, 1] |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from placerl.primitives import checks
from placerl.primitives.algorithms import base, networks
from placerl.primitives.algorithms.actor_critic import ActorCritic, ActorCriticHyperparameters
from placerl.primitives.algorithms.networks import Network, Parameters
from placerl.primitives.algorithms.updates import AdamState, copy, initial_adam

_CRITIC = "critic."
"""Begins the names of the critic's parameters where actors get them too (`Algorithm.evaluating`)."""


@dataclass(frozen=True)
class DdpgHyperparameters(ActorCriticHyperparameters):
    """DDPG's hyper-parameters."""

    actor_learning_rate: float = 1e-4
    """Adam's step size for the actor, > 0."""
    exploration_noise: float = 0.1
    """Standard deviation of the Gaussian noise that actors add to an action in [-1, 1], at least 0."""

    def __post_init__(self) -> None:
        """Raise ValueError for a value out of range."""
        super().__post_init__()
        checks.in_range("exploration_noise", self.exploration_noise, 0)


class DdpgState(NamedTuple):
    """DDPG's state: the parameters and the optimisers' moments, which a gradient step changes."""

    actor: Parameters
    critic: Parameters
    target_actor: Parameters
    target_critic: Parameters
    actor_adam: AdamState
    critic_adam: AdamState


@dataclass(frozen=True)
class DDPG(ActorCritic):
    """DDPG for continuous actions. The module's docstring describes the update."""

    name: ClassVar[str] = "ddpg"
    actors_evaluate: ClassVar[bool] = True
    hyperparameters: DdpgHyperparameters = DdpgHyperparameters()

    @property
    def networks(self) -> dict[str, Network]:
        """The trained networks, "actor" and "critic"."""
        return {"actor": self.actor, "critic": self.critic}

    def initialise(self, generator: torch.Generator) -> DdpgState:
        """Return the state before training, in which each target network equals the trained one."""
        actor = networks.initialise(self.actor, generator, self.dtype)
        critic = networks.initialise(self.critic, generator, self.dtype)
        return DdpgState(
            actor=actor,
            critic=critic,
            target_actor=copy(actor),
            target_critic=copy(critic),
            actor_adam=initial_adam(actor),
            critic_adam=initial_adam(critic),
        )

    def gradient_step(
        self, state: DdpgState, batch: base.Batch, draws: base.Batch | None = None, variant: str = "full"
    ) -> base.StepResult:
        """Update the critic, the actor and the target networks once. The losses are "critic" and "actor"."""
        settings, updates, actor, critic = self.hyperparameters, self.updates, self.actor, self.critic
        part = settings.annealing(state.critic_adam.step)

        def critic_loss(parameters: Parameters, batch: base.Batch) -> tuple[Tensor, Tensor]:
            following = batch["next_observation"]
            next_pair = torch.cat([following, actor(state.target_actor, following)], 1)
            next_value = critic(state.target_critic, next_pair).squeeze(1)
            discount = batch.get("discount", settings.gamma)
            target = batch["reward"] + discount * (1 - batch["terminated"]) * next_value
            taken = torch.cat([batch["observation"], batch["action"]], 1)
            td_error = target - critic(parameters, taken).squeeze(1)
            return (batch["weight"] * td_error * td_error).mean(), td_error

        gradients, critic_cost, td_error = updates.gradients(critic_loss, state.critic, batch)
        new_critic, critic_adam = updates.adam(
            state.critic, gradients, state.critic_adam, part * settings.critic_learning_rate
        )

        def actor_loss(parameters: Parameters, batch: base.Batch) -> tuple[Tensor, tuple[()]]:
            observation = batch["observation"]
            proposed = torch.cat([observation, actor(parameters, observation)], 1)
            return -critic(new_critic, proposed).mean(), ()

        gradients, actor_cost, _ = updates.gradients(actor_loss, state.actor, batch)
        new_actor, actor_adam = updates.adam(
            state.actor, gradients, state.actor_adam, part * settings.actor_learning_rate
        )

        new_state = DdpgState(
            actor=new_actor,
            critic=new_critic,
            target_actor=updates.polyak(state.target_actor, new_actor, settings.tau),
            target_critic=updates.polyak(state.target_critic, new_critic, settings.tau),
            actor_adam=actor_adam,
            critic_adam=critic_adam,
        )
        return base.StepResult(new_state, {"critic": critic_cost, "actor": actor_cost}, td_error)

    def acting_parameters(self, state: DdpgState) -> Parameters:
        """Return the part of the state that actors need: the actor's parameters, and the critic's if `evaluating`."""
        if not self.evaluating:
            return state.actor
        return state.actor | {f"{_CRITIC}{name}": value for name, value in state.critic.items()}

    def acting_td_errors(
        self, parameters: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return TD errors by the online networks alone, (n,), since actors have no target networks (MAP II-A1).

        They equal those of a gradient step whose target networks equal the online ones.

        Raises:
            NotImplementedError: the algorithm is not `evaluating`, so that actors have no critic.
        """
        if not self.evaluating:
            return super().acting_td_errors(parameters, batch)
        values = {
            name.removeprefix(_CRITIC): value
            for name, value in parameters.items()
            if name.startswith(_CRITIC)
        }

        critic: Any = self.critic

        def value_of(observation: np.ndarray, action: np.ndarray) -> Any:
            return critic(values, np.concatenate([observation, action], 1))[:, 0]

        reward, following = batch["reward"], batch["next_observation"]
        running = 1 - batch["terminated"].astype(reward.dtype)
        discount = batch.get("discount", self.hyperparameters.gamma)
        target = reward + discount * running * value_of(following, self.act(parameters, following))
        errors: np.ndarray = target - value_of(batch["observation"], batch["action"])
        return errors
