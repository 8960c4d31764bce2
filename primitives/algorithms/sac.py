"""Soft actor-critic with a tuned temperature (Haarnoja et al. 2018, arXiv:1812.05905, Algorithm 1).

The policy draws u = mean(s) + std(s) n with n ~ N(0, 1) and acts a = tanh(u), with the log-probability

    log pi(a|s) = sum_k [ -n_k^2 / 2 - log std_k - log(2 pi) / 2 - log(1 - tanh(u_k)^2) ]      appendix C, eq. 26
    log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u))                                         without cancellation

One gradient step, with alpha = exp(log_alpha) as it was before the step:

    y_i = r_i + gamma (1 - terminated_i) (min_j Q'_j(s'_i, a'_i) - alpha log pi(a'_i|s'_i))    equations 3 and 5
    critics: minimise 1/B sum_i w_i sum_j (y_i - Q_j(s_i, a_i))^2 / 2                          equation 5, PAL II
    td_i = y_i - (Q_1 + Q_2)(s_i, a_i) / 2                                                     |td_i|: new priority
    actor: minimise 1/B sum_i (alpha log pi(b_i|s_i) - min_j Q_j(s_i, b_i)), b_i ~ pi(.|s_i)   equations 7 and 9
    temperature: minimise -log_alpha 1/B sum_i (log pi(b_i|s_i) + target_entropy)              equation 18, in log
    Q' <- (1 - tau) Q' + tau Q

with Adam, the actor after the critics. Only `terminated` ends the bootstrap: a truncated episode would have gone on.

Batch of B transitions, as DDPG's:

| field | shape | dtype | range, unit |
|---|---|---|---|
| observation, next_observation | (B, S) | float | the environment's |
| action | (B, A) | float | [-1, 1]: scaled to the environment's bounds outside |
| reward | (B,) | float | the environment's |
| terminated | (B,) | float | 0 or 1 |
| discount | (B,) | float | gamma^m of n-step returns, in the place of gamma; only with `n_step` |
| weight | (B,) | float | importance weight, (0, 1] |

Draws: `noise` and `next_noise`, (B, A) float, standard normal: n for the actions b and a'.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from placerl.primitives import checks
from placerl.primitives.algorithms import base, networks
from placerl.primitives.algorithms.actor_critic import ActorCriticHyperparameters, TwinCritics
from placerl.primitives.algorithms.networks import Array, Network, Parameters
from placerl.primitives.algorithms.updates import AdamState, copy, initial_adam

LOG_STD_RANGE = (-20.0, 2.0)


@dataclass(frozen=True)
class SacHyperparameters(ActorCriticHyperparameters):
    """SAC's hyper-parameters."""

    actor_learning_rate: float = 3e-4
    critic_learning_rate: float = 3e-4
    temperature_learning_rate: float = 3e-4
    """Adam's step size for log alpha, > 0; ignored without `tune_temperature`."""
    initial_temperature: float = 1.0
    """Initial alpha, > 0, in units of reward per nat."""
    tune_temperature: bool = True
    """Tune alpha so that the policy's entropy approaches `target_entropy`."""
    target_entropy: float | None = None
    """Target of the policy's entropy, in nats; None: minus the number of action components (appendix D)."""

    def __post_init__(self) -> None:
        """Raise ValueError for a value out of range."""
        super().__post_init__()
        checks.positive("temperature_learning_rate", self.temperature_learning_rate)
        checks.positive("initial_temperature", self.initial_temperature)
        checks.truth("tune_temperature", self.tune_temperature)
        if self.target_entropy is not None:
            checks.in_range("target_entropy", self.target_entropy, -math.inf)


class SacState(NamedTuple):
    """SAC's state: the parameters and the optimisers' moments, which a gradient step changes.

    `critics` joins the parameters of "first" and "second"; `temperature` holds "log_alpha".
    """

    actor: Parameters
    critics: Parameters
    target_critics: Parameters
    temperature: Parameters
    actor_adam: AdamState
    critics_adam: AdamState
    temperature_adam: AdamState


@dataclass(frozen=True)
class SAC(TwinCritics):
    """SAC for continuous actions. The module's docstring describes the update."""

    name: ClassVar[str] = "sac"
    noises: ClassVar[tuple[str, ...]] = ("noise", "next_noise")
    hyperparameters: SacHyperparameters = SacHyperparameters()

    @property
    def actor(self) -> Network:
        """The actor: maps observations (B, S) to means and log standard deviations before the tanh, (B, 2A)."""
        return self.network.build(self.observation_shape, 2 * self.action_size)

    @property
    def target_entropy(self) -> float:
        """The target of the policy's entropy, in nats."""
        given = self.hyperparameters.target_entropy
        return -float(self.action_size) if given is None else given

    def initialise(self, generator: torch.Generator) -> SacState:
        """Return the state before training, in which each target network equals the trained one."""
        actor = networks.initialise(self.actor, generator, self.dtype)
        critics = self.initial_critics(generator)
        log_alpha = math.log(self.hyperparameters.initial_temperature)
        temperature = {"log_alpha": torch.full((), log_alpha, dtype=self.dtype)}
        return SacState(
            actor=actor,
            critics=critics,
            target_critics=copy(critics),
            temperature=temperature,
            actor_adam=initial_adam(actor),
            critics_adam=initial_adam(critics),
            temperature_adam=initial_adam(temperature),
        )

    def sample(self, actor: Parameters, observation: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions drawn from the policy, (B, A) in (-1, 1), and their log-probabilities, (B,) in nats.

        Args:
            observation: (B, S).
            noise: (B, A), standard normal.
        """
        output = self.actor(actor, observation)
        mean, log_std = output[:, : self.action_size], output[:, self.action_size :]
        # Clip one bound at a time: the derivative of both bounds at once works in place, which no graph can hold.
        log_std = log_std.clamp(min=LOG_STD_RANGE[0]).clamp(max=LOG_STD_RANGE[1])
        u = mean + log_std.exp() * noise
        gaussian = -0.5 * noise * noise - log_std - 0.5 * math.log(2 * math.pi)
        squashed = 2 * (math.log(2) - u - functional.softplus(-2 * u))
        return torch.tanh(u), (gaussian - squashed).sum(1)

    def gradient_step(
        self, state: SacState, batch: base.Batch, draws: base.Batch, variant: str = "full"
    ) -> base.StepResult:
        """Update the critics, the actor, the temperature and the target networks once.

        The losses are "critic", "actor", "temperature" (alpha) and "entropy" (nats).
        """
        settings, updates, inputs = self.hyperparameters, self.updates, {**batch, **draws}
        part = settings.annealing(state.critics_adam.step)
        alpha = state.temperature["log_alpha"].exp()

        def critics_loss(parameters: Parameters, batch: base.Batch) -> tuple[Tensor, Tensor]:
            following = batch["next_observation"]
            next_action, next_log_probability = self.sample(state.actor, following, batch["next_noise"])
            next_value = torch.minimum(*self.values(state.target_critics, following, next_action))
            soft_value = next_value - alpha * next_log_probability
            discount = batch.get("discount", settings.gamma)
            target = batch["reward"] + discount * (1 - batch["terminated"]) * soft_value
            first, second = self.values(parameters, batch["observation"], batch["action"])
            squares = 0.5 * ((target - first) ** 2 + (target - second) ** 2)
            return (batch["weight"] * squares).mean(), target - (first + second) / 2

        gradients, critic_cost, td_error = updates.gradients(critics_loss, state.critics, inputs)
        critics, critics_adam = updates.adam(
            state.critics, gradients, state.critics_adam, part * settings.critic_learning_rate
        )

        def actor_loss(parameters: Parameters, batch: base.Batch) -> tuple[Tensor, Tensor]:
            action, log_probability = self.sample(parameters, batch["observation"], batch["noise"])
            value = base.lesser(*self.values(critics, batch["observation"], action))
            return (alpha * log_probability - value).mean(), log_probability.mean()

        gradients, actor_cost, mean_log_probability = updates.gradients(actor_loss, state.actor, inputs)
        actor, actor_adam = updates.adam(
            state.actor, gradients, state.actor_adam, part * settings.actor_learning_rate
        )

        temperature, temperature_adam = state.temperature, state.temperature_adam
        if settings.tune_temperature:
            slope = {"log_alpha": -(mean_log_probability + self.target_entropy)}
            temperature, temperature_adam = updates.adam(
                temperature, slope, temperature_adam, part * settings.temperature_learning_rate
            )

        new_state = SacState(
            actor=actor,
            critics=critics,
            target_critics=updates.polyak(state.target_critics, critics, settings.tau),
            temperature=temperature,
            actor_adam=actor_adam,
            critics_adam=critics_adam,
            temperature_adam=temperature_adam,
        )
        losses = {
            "critic": critic_cost,
            "actor": actor_cost,
            "temperature": alpha,
            "entropy": -mean_log_probability,
        }
        return base.StepResult(new_state, losses, td_error)

    def act(self, parameters: Mapping[str, Array], observation: Array) -> Array:
        """Return greedy actions, (n, A) in [-1, 1]: tanh of the mean."""
        return networks.activate("tanh", self.actor(parameters, observation)[:, : self.action_size])

    def explored(
        self, parameters: Mapping[str, Array], observation: Array, draws: Mapping[str, Array]
    ) -> Array:
        """Return an action in [-1, 1] drawn from the policy for each observation, (n, A)."""
        output = self.actor(parameters, observation)
        mean, log_std = output[:, : self.action_size], output[:, self.action_size :]
        std = networks.exp(networks.clip(log_std, *LOG_STD_RANGE))
        return networks.activate("tanh", mean + std * draws["noise"])
