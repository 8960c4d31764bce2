"""Twin delayed DDPG (Fujimoto et al. 2018, arXiv:1802.09477, Algorithm 1).

One gradient step:

    a'_i = clip(mu'(s'_i) + clip(sigma n_i, -c, c), -1, 1),  n_i ~ N(0, 1)             target policy smoothing
    y_i = r_i + gamma (1 - terminated_i) min(Q1'(s'_i, a'_i), Q2'(s'_i, a'_i))         clipped double Q-learning
    critics: minimise 1/B sum_i w_i ((y_i - Q1(s_i, a_i))^2 + (y_i - Q2(s_i, a_i))^2)  weights as in PAL II
    td_i = y_i - (Q1(s_i, a_i) + Q2(s_i, a_i)) / 2                                     |td_i| is the new priority
    every `policy_delay`-th step ("full"):
        actor: maximise 1/B sum_i Q1(s_i, mu(s_i))
        Q' <- (1 - tau) Q' + tau Q for both critics,  mu' <- (1 - tau) mu' + tau mu

with Adam; the other steps ("critic") update the critics alone. Only `terminated` ends the bootstrap: a truncated
episode would have gone on.

Batch of B transitions, as DDPG's:

| field | shape | dtype | range, unit |
|---|---|---|---|
| observation, next_observation | (B, S) | float | the environment's |
| action | (B, A) | float | [-1, 1]: scaled to the environment's bounds outside |
| reward | (B,) | float | the environment's |
| terminated | (B,) | float | 0 or 1 |
| discount | (B,) | float | gamma^m of n-step returns, in the place of gamma; only with `n_step` |
| weight | (B,) | float | importance weight, (0, 1] |

Draws: `target_noise` (B, A) float, standard normal.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from placerl.primitives import checks
from placerl.primitives.algorithms import base, networks
from placerl.primitives.algorithms.actor_critic import ActorCriticHyperparameters, TwinCritics
from placerl.primitives.algorithms.networks import Parameters
from placerl.primitives.algorithms.updates import AdamState, copy, initial_adam


@dataclass(frozen=True)
class Td3Hyperparameters(ActorCriticHyperparameters):
    """TD3's hyper-parameters."""

    policy_delay: int = 2
    """Gradient steps between updates of actor and targets, at least 1."""
    target_noise: float = 0.2
    """Standard deviation of the noise on the target action, at least 0."""
    target_noise_clip: float = 0.5
    """Largest magnitude of the noise on the target action, at least 0."""
    exploration_noise: float = 0.1
    """Standard deviation of the Gaussian noise that actors add to an action in [-1, 1], at least 0."""

    def __post_init__(self) -> None:
        """Raise ValueError for a value out of range."""
        super().__post_init__()
        checks.whole("policy_delay", self.policy_delay, 1)
        checks.in_range("target_noise", self.target_noise, 0)
        checks.in_range("target_noise_clip", self.target_noise_clip, 0)
        checks.in_range("exploration_noise", self.exploration_noise, 0)


class Td3State(NamedTuple):
    """TD3's state: the parameters and the optimisers' moments, which a gradient step changes.

    `critics` joins the parameters of "first" and "second".
    """

    actor: Parameters
    critics: Parameters
    target_actor: Parameters
    target_critics: Parameters
    actor_adam: AdamState
    critics_adam: AdamState


@dataclass(frozen=True)
class TD3(TwinCritics):
    """TD3 for continuous actions. The module's docstring describes the update."""

    name: ClassVar[str] = "td3"
    noises: ClassVar[tuple[str, ...]] = ("target_noise",)
    hyperparameters: Td3Hyperparameters = Td3Hyperparameters()

    @property
    def variants(self) -> tuple[str, ...]:
        """The kinds of gradient step: "full", and "critic", which leaves the actor and the targets unchanged."""
        return ("full", "critic")

    def variant(self, step: int) -> str:
        """Return the kind of a step, counted from 0: "full" for every `policy_delay`-th one, else "critic"."""
        return "full" if (step + 1) % self.hyperparameters.policy_delay == 0 else "critic"

    def initialise(self, generator: torch.Generator) -> Td3State:
        """Return the state before training, in which each target network equals the trained one."""
        actor = networks.initialise(self.actor, generator, self.dtype)
        critics = self.initial_critics(generator)
        return Td3State(
            actor=actor,
            critics=critics,
            target_actor=copy(actor),
            target_critics=copy(critics),
            actor_adam=initial_adam(actor),
            critics_adam=initial_adam(critics),
        )

    def gradient_step(
        self, state: Td3State, batch: base.Batch, draws: base.Batch, variant: str = "full"
    ) -> base.StepResult:
        """Update the critics once, and in variant "full" also the actor and the target networks.

        The losses are "critic" and, in "full", "actor".
        """
        settings, updates, inputs = self.hyperparameters, self.updates, {**batch, **draws}
        part = settings.annealing(state.critics_adam.step)
        clip = settings.target_noise_clip

        def critics_loss(parameters: Parameters, batch: base.Batch) -> tuple[Tensor, Tensor]:
            following = batch["next_observation"]
            noise = (settings.target_noise * batch["target_noise"]).clamp(-clip, clip)
            next_action = (self.actor(state.target_actor, following) + noise).clamp(-1, 1)
            next_value = torch.minimum(*self.values(state.target_critics, following, next_action))
            discount = batch.get("discount", settings.gamma)
            target = batch["reward"] + discount * (1 - batch["terminated"]) * next_value
            first, second = self.values(parameters, batch["observation"], batch["action"])
            squares = (target - first) ** 2 + (target - second) ** 2
            return (batch["weight"] * squares).mean(), target - (first + second) / 2

        gradients, critic_cost, td_error = updates.gradients(critics_loss, state.critics, inputs)
        critics, critics_adam = updates.adam(
            state.critics, gradients, state.critics_adam, part * settings.critic_learning_rate
        )
        if variant == "critic":
            new_state = state._replace(critics=critics, critics_adam=critics_adam)
            return base.StepResult(new_state, {"critic": critic_cost}, td_error)

        first_critic = networks.part(critics, "first")

        def actor_loss(parameters: Parameters, batch: base.Batch) -> tuple[Tensor, tuple[()]]:
            observation = batch["observation"]
            proposed = torch.cat([observation, self.actor(parameters, observation)], 1)
            return -self.critic(first_critic, proposed).mean(), ()

        gradients, actor_cost, _ = updates.gradients(actor_loss, state.actor, inputs)
        actor, actor_adam = updates.adam(
            state.actor, gradients, state.actor_adam, part * settings.actor_learning_rate
        )
        new_state = Td3State(
            actor=actor,
            critics=critics,
            target_actor=updates.polyak(state.target_actor, actor, settings.tau),
            target_critics=updates.polyak(state.target_critics, critics, settings.tau),
            actor_adam=actor_adam,
            critics_adam=critics_adam,
        )
        return base.StepResult(new_state, {"critic": critic_cost, "actor": actor_cost}, td_error)
