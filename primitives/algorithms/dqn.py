"""Deep Q-learning (Mnih et al. 2015), with double Q-learning (van Hasselt et al. 2016) as an option.

The gradient step minimises the importance-weighted TD error (PAL II, equation 3):

    y_i = r_i + gamma (1 - terminated_i) max_a Q'(s'_i, a)                 Mnih et al. 2015, Algorithm 1
    y_i = r_i + gamma (1 - terminated_i) Q'(s'_i, argmax_a Q(s'_i, a))     double: van Hasselt et al., eq. 4
    td_i = y_i - Q(s_i, a_i)                                               PAL eq. 2; |td_i|: new priority
    L = 1/B sum_i w_i l(td_i),  l(x) = x^2, or Huber's (clipped error of Mnih et al. 2015, Methods)

with Adam; Q' is the target network: Q' <- (1 - tau) Q' + tau Q every `target_interval` gradient steps. Only
`terminated` ends the bootstrap: a truncated episode would have gone on, so its last state has a value.

Batch of B transitions:

| field | shape | dtype | range, unit |
|---|---|---|---|
| observation, next_observation | (B, *observation_shape) | float, or uint8 pixels | the environment's |
| action | (B,) | int64 | [0, action_size) |
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
from placerl.primitives.algorithms.networks import Array, Network, Parameters
from placerl.primitives.algorithms.updates import AdamState, copy, initial_adam

BONUS = 1e30
"""Larger than any value: what `DQN.draw_exploration` adds to the value of a random action."""


@dataclass(frozen=True)
class DqnHyperparameters(base.Hyperparameters):
    """DQN's hyper-parameters."""

    learning_rate: float = 1e-4
    """Adam's step size, > 0."""
    gamma: float = 0.99
    """Discount per step, [0, 1]."""
    double: bool = False
    """Choose the next action with the online network (double DQN)."""
    target_interval: int = 1000
    """Gradient steps between updates of the target network, at least 1."""
    tau: float = 1.0
    """Fraction by which the target network moves towards the online one at each update, (0, 1]; 1 copies it."""
    loss: str = "huber"
    """Loss of the TD error: "huber" (squared below 1, linear above) or "squared"."""
    maximum_gradient_norm: float | None = None
    """Joint norm that gradients are clipped to, > 0; None: no clipping."""
    epsilon_initial: float = 1.0
    """Probability of a random action at the first environment step, [0, 1]."""
    epsilon_final: float = 0.05
    """Probability of a random action from `exploration_steps` on, [0, 1]."""
    exploration_steps: int = 10_000
    """Environment steps over which the probability decreases linearly, at least 1."""

    def __post_init__(self) -> None:
        """Raise ValueError for a value out of range."""
        super().__post_init__()
        checks.positive("learning_rate", self.learning_rate)
        checks.in_range("gamma", self.gamma, 0, 1)
        checks.whole("target_interval", self.target_interval, 1)
        checks.in_range("tau", self.tau, 0, 1, open_low=True)
        checks.truth("double", self.double)
        checks.one_of("loss", self.loss, ("huber", "squared"))
        if self.maximum_gradient_norm is not None:
            checks.positive("maximum_gradient_norm", self.maximum_gradient_norm)
        checks.in_range("epsilon_initial", self.epsilon_initial, 0, 1)
        checks.in_range("epsilon_final", self.epsilon_final, 0, 1)
        checks.whole("exploration_steps", self.exploration_steps, 1)


class DqnState(NamedTuple):
    """DQN's state: the parameters and the optimiser's moments, which a gradient step changes."""

    q: Parameters
    target_q: Parameters
    adam: AdamState


@dataclass(frozen=True)
class DQN(base.Algorithm):
    """Deep Q-learning for discrete actions. The module's docstring describes the update."""

    name: ClassVar[str] = "dqn"
    action_kinds: ClassVar[tuple[str, ...]] = ("discrete",)
    actors_evaluate: ClassVar[bool] = True
    hyperparameters: DqnHyperparameters = DqnHyperparameters()

    @property
    def variants(self) -> tuple[str, ...]:
        """The kinds of gradient step: "full", and "online", which leaves the target network unchanged."""
        return ("full", "online")

    def variant(self, step: int) -> str:
        """Return the kind of a step, counted from 0: "full" for every `target_interval`-th one, else "online"."""
        return "full" if (step + 1) % self.hyperparameters.target_interval == 0 else "online"

    @property
    def q(self) -> Network:
        """The Q network: maps observations (B, ...) to one value per action, (B, A)."""
        return self.network.build(self.observation_shape, self.action_size)

    @property
    def networks(self) -> dict[str, Network]:
        """The trained network, "q"."""
        return {"q": self.q}

    def initialise(self, generator: torch.Generator) -> DqnState:
        """Return the state before training, in which the target network equals the online network."""
        q = networks.initialise(self.q, generator, self.dtype)
        return DqnState(q, copy(q), initial_adam(q))

    def gradient_step(
        self, state: DqnState, batch: base.Batch, draws: base.Batch | None = None, variant: str = "full"
    ) -> base.StepResult:
        """Update the Q network once, and in variant "full" also the target network.

        The losses are "q", the weighted loss of the TD errors, and "mean_q", the mean value of the batch's actions.
        """
        settings, updates, q = self.hyperparameters, self.updates, self.q
        part = settings.annealing(state.adam.step)

        def loss(parameters: Parameters, batch: base.Batch) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            next_values = q(state.target_q, batch["next_observation"])
            if settings.double:
                greedy = q(state.q, batch["next_observation"]).argmax(1, keepdim=True)
                next_value = next_values.gather(1, greedy).squeeze(1)
            else:
                next_value = next_values.amax(1)
            discount = batch.get("discount", settings.gamma)
            target = batch["reward"] + discount * (1 - batch["terminated"]) * next_value
            values = q(parameters, batch["observation"])
            value = values.gather(1, batch["action"].unsqueeze(1)).squeeze(1)
            td_error = target - value
            return (batch["weight"] * self._cost(td_error)).mean(), (td_error, value.mean())

        gradients, q_loss, (td_error, mean_q) = updates.gradients(loss, state.q, batch)
        gradients = updates.clip(gradients, settings.maximum_gradient_norm)
        new_q, adam = updates.adam(state.q, gradients, state.adam, part * settings.learning_rate)
        target_q = (
            state.target_q if variant == "online" else updates.polyak(state.target_q, new_q, settings.tau)
        )
        return base.StepResult(DqnState(new_q, target_q, adam), {"q": q_loss, "mean_q": mean_q}, td_error)

    def _cost(self, td_error: Tensor) -> Tensor:
        if self.hyperparameters.loss == "squared":
            return td_error * td_error
        # Huber's function without a branch: the part of |x| up to 1 is squared, the rest is linear.
        magnitude = td_error.abs()
        inner = magnitude.clamp(max=1.0)
        return inner * (magnitude - 0.5 * inner)

    def acting_parameters(self, state: DqnState) -> Parameters:
        """Return the part of the state that actors need to choose actions: the online network's parameters."""
        return state.q

    def act(self, parameters: Mapping[str, Array], observation: Array) -> Array:
        """Return the action with the largest value for each observation, (n,) int64."""
        return self.q(parameters, observation).argmax(-1)

    def acting_td_errors(
        self, parameters: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return TD errors by the online network alone, (n,), since actors have no target network (MAP II-A1).

        They equal those of a gradient step, of either kind of Q-learning, whose target network equals the online one.

        Args:
            parameters: from `acting_parameters`, as NumPy arrays, whether or not the algorithm is `evaluating`.
        """
        q: Any = self.q
        reward, action = batch["reward"], batch["action"]
        running = 1 - batch["terminated"].astype(reward.dtype)
        discount = batch.get("discount", self.hyperparameters.gamma)
        target = reward + discount * running * q(parameters, batch["next_observation"]).max(-1)
        errors: np.ndarray = target - q(parameters, batch["observation"])[np.arange(len(action)), action]
        return errors

    def epsilon(self, environment_step: int) -> float:
        """Return the probability of a random action after a number of environment steps."""
        settings = self.hyperparameters
        progress = min(environment_step / settings.exploration_steps, 1.0)
        return settings.epsilon_initial + progress * (settings.epsilon_final - settings.epsilon_initial)

    def draw_exploration(
        self, number: int, environment_step: int, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Draw which actions are random, as "bonus" (number, A), which `explored` adds to the actions' values.

        With probability `epsilon` a row holds a number larger than any value, at an action drawn at random; its other
        elements are 0.
        """
        epsilon = self.epsilon(environment_step)
        bonus = np.zeros((number, self.action_size), base.NUMPY_DTYPES[self.dtype])
        if number == 1:  # avoids the cost of array calls
            if rng.random() < epsilon:
                bonus[0, rng.integers(self.action_size)] = BONUS
            return {"bonus": bonus}
        random = np.flatnonzero(rng.random(number) < epsilon)
        bonus[random, rng.integers(self.action_size, size=number)[random]] = BONUS
        return {"bonus": bonus}

    def explored(
        self, parameters: Mapping[str, Array], observation: Array, draws: Mapping[str, Array]
    ) -> Array:
        """Return epsilon-greedy actions, (n,) int64.

        For NumPy arrays the greedy actions come from `act`, which a learner may replace by its own computation.
        """
        bonus = draws["bonus"]
        if not isinstance(bonus, np.ndarray):
            return (self.q(parameters, observation) + bonus).argmax(-1)
        random, action = bonus.any(-1), bonus.argmax(-1)
        return action if random.all() else np.where(random, action, self.act(parameters, observation))
