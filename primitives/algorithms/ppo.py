"""Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347) with generalised advantages.

Each of N actors takes T steps with the current policy; `prepare` turns them into N T samples:

    delta_t = r_t + gamma (1 - terminated_t) V(s_{t+1}) - V(s_t)              Schulman et al. 2016 (GAE), eq. 10
    A_t = delta_t + gamma lambda (1 - over_t) A_{t+1},  R_t = A_t + V(s_t)    eq. 16, cut where an episode is over

and `minibatches` splits them into minibatches of M samples for K epochs. One gradient step on a minibatch, with
ratio_i = pi(a_i|s_i) / pi_old(a_i|s_i) and A normalised over the minibatch:

    L_clip = 1/M sum_i min(ratio_i A_i, clip(ratio_i, 1 - epsilon, 1 + epsilon) A_i)     PPO equation 1
    policy: maximise L_clip + c_e H(pi);  value: minimise 1/M sum_i (V(s_i) - R_i)^2     PPO 2.1

An MLP policy and value are two networks, each with its own Adam. Once KL(pi_old, pi), estimated by the mean of
ratio - 1 - log ratio, exceeds 1.5 `target_kl`, `early_stop` returns True, and the rest of the iteration takes
"value" steps, which do not change the policy (PPO 3.3, 5.3.4). Pixels go through one network with two heads,
which minimises -L_clip + c_v (V - R)^2 - c_e H (PPO 5.1). A truncated episode is over, but its last state has a
value; the last state of a terminated episode has none.

Minibatch of M samples:

| field | shape | dtype | range, unit |
|---|---|---|---|
| observation | (M, *observation_shape) | float, or uint8 pixels | the environment's |
| action | (M, A) or (M,) | float or int64 | as drawn, not clipped; or [0, action_size) |
| log_probability | (M,) | float | log pi_old(a), nats |
| advantage | (M,) | float | units of return |
| value_target | (M,) | float | R, units of return |
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from placerl.primitives import checks
from placerl.primitives.algorithms import base, networks
from placerl.primitives.algorithms.networks import MLP, Array, NatureCNN, Network, Parameters
from placerl.primitives.algorithms.updates import AdamState, initial_adam

_LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class PpoHyperparameters(base.Hyperparameters):
    """PPO's hyper-parameters. N is the number of actors and M the batch size."""

    policy_learning_rate: float = 3e-4
    """Adam's step size for the policy (for everything when policy and value share a network), > 0."""
    value_learning_rate: float = 1e-3
    """Adam's step size for the value network, > 0; unused when policy and value share a network."""
    gamma: float = 0.99
    """Discount per step, [0, 1]."""
    gae_lambda: float = 0.95
    """lambda of the generalised advantages, [0, 1]."""
    trajectory_length: int = 512
    """T, steps of each actor in an iteration, at least 1."""
    epochs: int = 10
    """K, passes over the samples of an iteration, at least 1."""
    clip: float = 0.2
    """epsilon, the largest distance of the ratio from 1 that the objective rewards, (0, 1]."""
    target_kl: float | None = None
    """Policy steps stop when the KL divergence exceeds 1.5 times this, nats, > 0; None: never."""
    entropy_coefficient: float = 0.0
    """c_e, the weight of the entropy in the policy's objective, at least 0."""
    value_coefficient: float = 0.5
    """c_v, the weight of the value's loss if policy and value share a network, at least 0; otherwise unused."""
    normalize_advantages: bool = True
    """Give the advantages of each minibatch mean 0 and standard deviation 1."""
    maximum_gradient_norm: float | None = 0.5
    """Joint norm that a network's gradients are clipped to, > 0; None: no clipping."""
    initial_log_std: float = 0.0
    """Initial log standard deviation of continuous actions."""

    def __post_init__(self) -> None:
        """Raise ValueError for a value out of range."""
        super().__post_init__()
        checks.positive("policy_learning_rate", self.policy_learning_rate)
        checks.positive("value_learning_rate", self.value_learning_rate)
        checks.in_range("gamma", self.gamma, 0, 1)
        checks.in_range("gae_lambda", self.gae_lambda, 0, 1)
        checks.whole("trajectory_length", self.trajectory_length, 1)
        checks.whole("epochs", self.epochs, 1)
        checks.in_range("clip", self.clip, 0, 1, open_low=True)
        if self.target_kl is not None:
            checks.positive("target_kl", self.target_kl)
        checks.in_range("entropy_coefficient", self.entropy_coefficient, 0)
        checks.in_range("value_coefficient", self.value_coefficient, 0)
        checks.truth("normalize_advantages", self.normalize_advantages)
        if self.maximum_gradient_norm is not None:
            checks.positive("maximum_gradient_norm", self.maximum_gradient_norm)
        checks.in_range("initial_log_std", self.initial_log_std, -20, 2)


class SeparateState(NamedTuple):
    """PPO's state if policy and value are separate networks.

    For continuous actions `policy` also holds "log_std" (A,), the log standard deviations.
    """

    policy: Parameters
    value: Parameters
    policy_adam: AdamState
    value_adam: AdamState


class SharedState(NamedTuple):
    """PPO's state if policy and value share a network.

    `network` joins the parameters of "trunk" (the shared part), "policy" and "value".
    """

    network: Parameters
    adam: AdamState


class Rollout(NamedTuple):
    """The steps that N actors took in T time steps, one column per field.

    Attributes:
        observation: (T, N, *observation_shape).
        action: (T, N, A) float as drawn, or (T, N) int64.
        reward: (T, N) float.
        next_observation: (T, N, *observation_shape); at an episode's end, the episode's last observation.
        terminated: (T, N) bool.
        truncated: (T, N) bool.
    """

    observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    next_observation: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


def advantages(
    reward: np.ndarray,
    value: np.ndarray,
    next_value: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    *,
    gamma: float,
    gae_lambda: float,
) -> np.ndarray:
    """Return generalised advantage estimates A_t of T steps of N actors (Schulman et al. 2016). All arrays are (T, N).

    Args:
        reward: r_t.
        value, next_value: V(s_t) and V(s_{t+1}).
        terminated, truncated: whether step t terminated or truncated the episode.
        gamma: discount per step.
    """
    delta = reward + gamma * np.where(terminated, 0, next_value) - value
    decay = gamma * gae_lambda * ~(terminated | truncated)
    result = np.empty_like(delta)
    following = np.zeros_like(delta[0])
    for t in range(len(delta) - 1, -1, -1):
        following = delta[t] + decay[t] * following
        result[t] = following
    return result


@dataclass(frozen=True)
class PPO(base.Algorithm):
    """PPO for continuous or discrete actions. The module's docstring describes the update."""

    name: ClassVar[str] = "ppo"
    action_kinds: ClassVar[tuple[str, ...]] = ("continuous", "discrete")
    hyperparameters: PpoHyperparameters = PpoHyperparameters()

    @property
    def shared(self) -> bool:
        """Whether policy and value share a network, the trunk, as with pixels."""
        return self.network.kind == "nature_cnn"

    @property
    def variants(self) -> tuple[str, ...]:
        """The kinds of gradient step: "full", and "value", which leaves the policy unchanged.

        If policy and value share a network, there is only "full".
        """
        return ("full",) if self.shared else ("full", "value")

    @property
    def networks(self) -> dict[str, Network]:
        """The trained networks by name.

        They are "policy" and "value"; if policy and value share a network, its shared part is "trunk".
        """
        if not self.shared:
            return {
                "policy": self.network.build(self.observation_shape, self.action_size),
                "value": self.network.build(self.observation_shape, 1),
            }
        channels, height, width = self.observation_shape
        trunk = NatureCNN((channels, height, width))
        heads = {"policy": MLP((trunk.outputs, self.action_size)), "value": MLP((trunk.outputs, 1))}
        return {"trunk": trunk, **heads}

    def initialise(self, generator: torch.Generator) -> SeparateState | SharedState:
        """Return the state before training: orthogonal weights, small ones in the policy's last layer."""
        parts = {}
        for name, network in self.networks.items():
            last = {"policy": 0.01, "value": 1.0, "trunk": math.sqrt(2)}[name]
            gains = (math.sqrt(2),) * (len(network.layers) - 1) + (last,)
            parts[name] = networks.initialise(network, generator, self.dtype, gains)
        if not self.discrete:
            initial = self.hyperparameters.initial_log_std
            parts["policy"]["log_std"] = torch.full((self.action_size,), initial, dtype=self.dtype)
        if self.shared:
            joined = networks.join(**parts)
            return SharedState(joined, initial_adam(joined))
        policy, value = parts["policy"], parts["value"]
        return SeparateState(policy, value, initial_adam(policy), initial_adam(value))

    def columns(self, batch_size: int) -> dict[str, base.Column]:
        """Return the shape and dtype of each column of a minibatch of samples, by name.

        The columns are observation, action, log_probability, advantage and value_target.
        """
        transition = super().columns(batch_size)
        scalar = base.Column((batch_size,), self.dtype)
        samples = {"log_probability": scalar, "advantage": scalar, "value_target": scalar}
        return {name: transition[name] for name in ("observation", "action")} | samples

    def _features(self, parameters: Mapping[str, Array], observation: Array) -> Array:
        if not self.shared:
            return observation
        return self.networks["trunk"](networks.part(parameters, "trunk"), observation)

    def distribution(self, policy: Parameters, output: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-probabilities of actions, and the policy's entropies, each (M,) in nats.

        Args:
            policy: the policy's parameters, of which "log_std" is read for continuous actions.
            output: the policy network's output, (M, A): the means of continuous actions, or logits.
            action: the actions, (M, A) continuous or (M,) discrete.
        """
        if self.discrete:
            log_probabilities = torch.log_softmax(output, 1)
            chosen = log_probabilities.gather(1, action.unsqueeze(1)).squeeze(1)
            return chosen, -(log_probabilities.exp() * log_probabilities).sum(1)
        log_std = policy["log_std"]
        normal = (action - output) * torch.exp(-log_std)
        log_probability = (-0.5 * normal * normal - log_std - 0.5 * _LOG_2PI).sum(1)
        entropy = (log_std + 0.5 * (1 + _LOG_2PI)).sum()
        return log_probability, entropy.expand(len(action))

    def _normalized(self, batch: base.Batch) -> base.Batch:
        if not self.hyperparameters.normalize_advantages:
            return batch
        batch = self.updates.together(batch)
        centred = batch["advantage"] - batch["advantage"].mean()
        deviation = torch.sqrt((centred * centred).sum() / max(len(centred) - 1, 1))
        return {**batch, "advantage": centred / (deviation + 1e-8)}

    def _policy_loss(
        self, policy: Parameters, output: Tensor, batch: base.Batch
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        settings = self.hyperparameters
        advantage = batch["advantage"]
        log_probability, entropy = self.distribution(policy, output, batch["action"])
        log_ratio = log_probability - batch["log_probability"]
        ratio = log_ratio.exp()
        # Clip one bound at a time: the derivative of both bounds at once works in place, which no graph can hold.
        clipped = ratio.clamp(min=1 - settings.clip).clamp(max=1 + settings.clip)
        gain = base.lesser(ratio * advantage, clipped * advantage).mean()
        mean_entropy = entropy.mean()
        kl = (ratio - 1 - log_ratio).mean()
        return -gain - settings.entropy_coefficient * mean_entropy, (kl, mean_entropy)

    def gradient_step(
        self, state: Any, batch: base.Batch, draws: base.Batch | None = None, variant: str = "full"
    ) -> base.StepResult:
        """Take one gradient step on a minibatch.

        The losses are "value" and, unless the variant is "value", "policy", "kl" and "entropy" (both in nats).

        Args:
            variant: the kind of step: "full", or "value", which leaves the policy unchanged.

        Returns:
            The new state, the losses, and the (M,) differences between value targets and values.
        """
        return self._shared_step(state, batch) if self.shared else self._separate_step(state, batch, variant)

    def _separate_step(self, state: SeparateState, batch: base.Batch, variant: str) -> base.StepResult:
        settings, updates = self.hyperparameters, self.updates
        part = settings.annealing(state.value_adam.step)
        policy_network, value_network = self.networks["policy"], self.networks["value"]

        def value_loss(parameters: Parameters, batch: base.Batch) -> tuple[Tensor, Tensor]:
            error = batch["value_target"] - value_network(parameters, batch["observation"]).squeeze(1)
            return (error * error).mean(), error

        gradients, value_cost, error = updates.gradients(value_loss, state.value, batch)
        gradients = updates.clip(gradients, settings.maximum_gradient_norm)
        value, value_adam = updates.adam(
            state.value, gradients, state.value_adam, part * settings.value_learning_rate
        )
        if variant == "value":
            new_state = state._replace(value=value, value_adam=value_adam)
            return base.StepResult(new_state, {"value": value_cost}, error)

        def policy_loss(parameters: Parameters, batch: base.Batch) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            return self._policy_loss(parameters, policy_network(parameters, batch["observation"]), batch)

        gradients, policy_cost, (kl, entropy) = updates.gradients(
            policy_loss, state.policy, self._normalized(batch)
        )
        gradients = updates.clip(gradients, settings.maximum_gradient_norm)
        policy, policy_adam = updates.adam(
            state.policy, gradients, state.policy_adam, part * settings.policy_learning_rate
        )
        losses = {"value": value_cost, "policy": policy_cost, "kl": kl, "entropy": entropy}
        return base.StepResult(SeparateState(policy, value, policy_adam, value_adam), losses, error)

    def _shared_step(self, state: SharedState, batch: base.Batch) -> base.StepResult:
        settings, updates, parts = self.hyperparameters, self.updates, self.networks
        part = settings.annealing(state.adam.step)

        def loss(parameters: Parameters, batch: base.Batch) -> tuple[Tensor, tuple[Tensor, ...]]:
            features = self._features(parameters, batch["observation"])
            policy = networks.part(parameters, "policy")
            policy_cost, (kl, entropy) = self._policy_loss(policy, parts["policy"](policy, features), batch)
            value = parts["value"](networks.part(parameters, "value"), features).squeeze(1)
            error = batch["value_target"] - value
            value_cost = (error * error).mean()
            total = policy_cost + settings.value_coefficient * value_cost
            return total, (policy_cost, value_cost, kl, entropy, error)

        gradients, _, (policy_cost, value_cost, kl, entropy, error) = updates.gradients(
            loss, state.network, self._normalized(batch)
        )
        gradients = updates.clip(gradients, settings.maximum_gradient_norm)
        network, adam = updates.adam(
            state.network, gradients, state.adam, part * settings.policy_learning_rate
        )
        losses = {"value": value_cost, "policy": policy_cost, "kl": kl, "entropy": entropy}
        return base.StepResult(SharedState(network, adam), losses, error)

    def acting_parameters(self, state: Any) -> Parameters:
        """Return the part of the state that actors need: the joined parameters of the policy and value networks.

        Their names begin with "policy" and "value", and with "trunk" if policy and value share a network.
        """
        if isinstance(state, SharedState):
            return state.network
        return networks.join(policy=state.policy, value=state.value)

    def _policy_output(self, parameters: Mapping[str, Array], observation: Array) -> Array:
        features = self._features(parameters, observation)
        return self.networks["policy"](networks.part(parameters, "policy"), features)

    def act(self, parameters: Mapping[str, Array], observation: Array) -> Array:
        """Return the most likely action: (n, A), not clipped, or (n,) int64."""
        output = self._policy_output(parameters, observation)
        return output.argmax(-1) if self.discrete else output

    def draw_exploration(
        self, number: int, environment_step: int, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Draw the random numbers for drawing actions from the policy.

        Returns:
            "noise", (number, A) standard normal, for continuous actions; "gumbel", Gumbel noise (number, A), for
            discrete ones.
        """
        if not self.discrete:
            return super().draw_exploration(number, environment_step, rng)
        gumbel = rng.gumbel(size=(number, self.action_size))
        return {"gumbel": gumbel.astype(base.NUMPY_DTYPES[self.dtype])}

    def explored(
        self, parameters: Mapping[str, Array], observation: Array, draws: Mapping[str, Array]
    ) -> Array:
        """Return an action drawn from the policy for each observation: (n, A), not clipped, or (n,) int64."""
        return self._drawn(parameters, self._policy_output(parameters, observation), draws)

    def _drawn(self, parameters: Mapping[str, Array], output: Array, draws: Mapping[str, Array]) -> Array:
        """Return actions drawn from the distribution that the policy network's output describes."""
        if self.discrete:  # the argmax of logits plus Gumbel noise is a draw from their softmax
            return (output + draws["gumbel"]).argmax(-1)
        return output + networks.exp(parameters["policy.log_std"]) * draws["noise"]

    def drawn_with_probability(
        self, parameters: Parameters, observation: Tensor, draws: base.Batch
    ) -> tuple[Tensor, Tensor]:
        """Return the actions that `explored` draws from the policy, and their log-probabilities, (n,) in nats.

        Args:
            observation: (n, *observation_shape).
            draws: random numbers from `draw_exploration`, as tensors.
        """
        output = self._policy_output(parameters, observation)
        action = self._drawn(parameters, output, draws)
        return action, self.distribution(networks.part(parameters, "policy"), output, action)[0]

    def values(self, parameters: Mapping[str, Array], observation: Array) -> Array:
        """Return the values of observations, (n,)."""
        features = self._features(parameters, observation)
        return self.networks["value"](networks.part(parameters, "value"), features)[:, 0]

    def prepare(self, parameters: Mapping[str, np.ndarray], rollout: Rollout) -> dict[str, np.ndarray]:
        """Turn a rollout into samples: compute advantages, value targets and the actions' log-probabilities.

        Args:
            parameters: the acting parameters with which the actors collected the rollout.

        Returns:
            The columns of N T samples by name (`columns`), as `minibatches` takes them.
        """
        settings, parts = self.hyperparameters, self.networks
        length, actors = rollout.reward.shape
        observation = rollout.observation.reshape(length * actors, *self.observation_shape)
        action = rollout.action.reshape(length * actors, *rollout.action.shape[2:])
        features = self._features(parameters, observation)
        value_parameters = networks.part(parameters, "value")
        value = parts["value"](value_parameters, features).reshape(length, actors)

        # Within an episode the next value is that of the next row; an extra value is needed only where an episode
        # breaks off.
        next_value = np.concatenate([value[1:], np.zeros_like(value[:1])])
        open_end = rollout.truncated & ~rollout.terminated
        open_end[-1] = ~rollout.terminated[-1]
        if open_end.any():
            last = self._features(parameters, rollout.next_observation[open_end])
            next_value[open_end] = parts["value"](value_parameters, last)[:, 0]

        advantage = advantages(
            rollout.reward.astype(value.dtype, copy=False),
            value,
            next_value,
            rollout.terminated,
            rollout.truncated,
            gamma=settings.gamma,
            gae_lambda=settings.gae_lambda,
        )
        policy = {
            name: torch.from_numpy(np.asarray(array))
            for name, array in networks.part(parameters, "policy").items()
        }
        output = parts["policy"](policy, torch.from_numpy(features))
        log_probability, _ = self.distribution(policy, output, torch.from_numpy(action))
        return {
            "observation": observation,
            "action": action,
            "log_probability": log_probability.numpy(),
            "advantage": advantage.reshape(-1),
            "value_target": (advantage + value).reshape(-1),
        }

    def minibatches(
        self, samples: Mapping[str, np.ndarray], batch_size: int, rng: np.random.Generator
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield the minibatches of K epochs, each of M samples (`batch_size`) in random order.

        The last samples of an epoch are left out if they do not fill a minibatch.
        """
        count = len(samples["advantage"])
        for _ in range(self.hyperparameters.epochs):
            order = rng.permutation(count)
            for start in range(0, count - batch_size + 1, batch_size):
                chosen = order[start : start + batch_size]
                yield {name: column[chosen] for name, column in samples.items()}

    def early_stop(self, losses: Mapping[str, float]) -> bool:
        """Return whether the policy has changed so much that the rest of the iteration must leave it unchanged.

        Args:
            losses: losses of the last gradient step by name; "kl" is compared with 1.5 `target_kl`.
        """
        target = self.hyperparameters.target_kl
        return not self.shared and target is not None and losses.get("kl", 0.0) > 1.5 * target
