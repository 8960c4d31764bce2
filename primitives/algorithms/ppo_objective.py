"""PPO's objective alone: its gradients with respect to what the networks put out, as a host computes them (PPO 3).

An accelerator that runs the networks sends their outputs to the host, and gets the gradients back. The losses are those
of `ppo`. A graph learner runs this step; its acting parameters are the gradients.

| column, in addition to PPO's own | shape | meaning |
|---|---|---|
| policy_output | (M, A) | means of continuous actions, or logits |
| value_output | (M, 1) | values |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from placerl.primitives.algorithms import base
from placerl.primitives.algorithms.networks import Array, Parameters
from placerl.primitives.algorithms.ppo import PPO

OUTPUTS = ("policy_output", "value_output")


@dataclass(frozen=True)
class PpoObjective(PPO):
    """The gradients of PPO's losses for minibatches of a fixed size. The module's docstring describes the step.

    Attributes:
        minibatch: M, samples of a minibatch.
    """

    name: ClassVar[str] = "ppo_objective"

    minibatch: int = 1

    @classmethod
    def of(cls, algorithm: PPO, minibatch: int) -> "PpoObjective":
        """Return the objective of an algorithm, for minibatches of M samples (`minibatch`)."""
        return cls(
            algorithm.observation_shape,
            algorithm.action_size,
            algorithm.network,
            algorithm.hyperparameters,
            algorithm.dtype,
            algorithm.updates,
            algorithm.action_kind,
            minibatch=minibatch,
        )

    @property
    def variants(self) -> tuple[str, ...]:
        """The kinds of step; there is only "full"."""
        return ("full",)

    def initialise(self, generator: torch.Generator) -> Any:
        """Return gradients of 0 and, for continuous actions, the policy's first log_std, which the step keeps."""
        shapes = {"policy_output": (self.minibatch, self.action_size), "value_output": (self.minibatch, 1)}
        state = {name: torch.zeros(shape, dtype=self.dtype) for name, shape in shapes.items()}
        if self.discrete:
            return state
        log_std = torch.full((self.action_size,), self.hyperparameters.initial_log_std, dtype=self.dtype)
        return {**state, "log_std": torch.zeros_like(log_std), "policy_log_std": log_std}

    def columns(self, batch_size: int) -> dict[str, base.Column]:
        """Return the shape and dtype of each column: PPO's without observations, and the networks' outputs."""
        samples = {
            name: column for name, column in super().columns(batch_size).items() if name != "observation"
        }
        sizes = zip(OUTPUTS, (self.action_size, 1), strict=True)
        return samples | {name: base.Column((batch_size, size), self.dtype) for name, size in sizes}

    def gradient_step(
        self, state: Any, batch: base.Batch, draws: base.Batch | None = None, variant: str = "full"
    ) -> base.StepResult:
        """Return the gradients of a minibatch as the new state, the losses, and value targets minus values, (M,).

        Args:
            state: the state before, of which only "policy_log_std" is read.
            draws, variant: not used.
        """
        settings = self.hyperparameters
        outputs = {name: batch[name] for name in OUTPUTS}
        if not self.discrete:
            outputs["log_std"] = state["policy_log_std"]

        def loss(outputs: Parameters, batch: base.Batch) -> tuple[Tensor, tuple[Tensor, ...]]:
            policy_cost, (kl, entropy) = self._policy_loss(outputs, outputs["policy_output"], batch)
            error = batch["value_target"] - outputs["value_output"].squeeze(1)
            value_cost = (error * error).mean()
            share = settings.value_coefficient if self.shared else 1.0
            return policy_cost + share * value_cost, (policy_cost, value_cost, kl, entropy, error)

        samples = {name: column for name, column in batch.items() if name not in OUTPUTS}
        gradients, _, (policy_cost, value_cost, kl, entropy, error) = self.updates.gradients(
            loss, outputs, self._normalized(samples)
        )
        if not self.discrete:
            gradients = {**gradients, "policy_log_std": state["policy_log_std"]}
        losses = {"value": value_cost, "policy": policy_cost, "kl": kl, "entropy": entropy}
        return base.StepResult(gradients, losses, error)

    def acting_parameters(self, state: Any) -> Parameters:
        """Return the whole state: the gradients of "policy_output", "value_output" and "log_std"."""
        return dict(state)

    def act(self, parameters: Mapping[str, Array], observation: Array) -> Array:
        """Raise NotImplementedError: the objective has no network."""
        raise NotImplementedError("the objective has no network to act with")

    def log_probability(self, parameters: Mapping[str, Array], output: Array, action: Array) -> Tensor:
        """Return the log-probabilities of actions in nats, (n,), as `prepare` computes them.

        Args:
            parameters: the acting parameters of PPO, of which "policy.log_std" is read for continuous actions.
            output: (n, A), the policy network's outputs, an array.
        """
        policy = {} if self.discrete else {"log_std": torch.as_tensor(parameters["policy.log_std"])}
        return self.distribution(policy, torch.as_tensor(output), torch.as_tensor(action))[0]

    def drawn(self, parameters: Mapping[str, Array], output: Array, draws: Mapping[str, Array]) -> Array:
        """Return the actions drawn by the policy network's outputs, (n, A), or (n,) int64 for discrete ones.

        Args:
            parameters: the policy's "policy.log_std" for continuous actions.
            output: (n, A), the policy network's outputs.
        """
        return self._drawn(parameters, output, draws)
