"""A mini-batch of Hopper's sizes for PPO 64-64, PPO's own gradient step, and the part of it that a host does."""

from dataclasses import dataclass

import numpy as np
import torch

from placerl.primitives.algorithms.networks import NetworkDescription
from placerl.primitives.algorithms.ppo import PPO, PpoHyperparameters, SeparateState
from tests.primitives.fpga.gemm.float_golden import Floats

NETWORKS = ("policy", "value")
SIZES = {"policy": (11, 64, 64, 3), "value": (11, 64, 64, 1)}


@dataclass
class HopperStep:
    """PPO's first gradient step on random samples of Hopper's sizes, without clipping the gradient's norm.

    Attributes:
        algorithm: PPO.
        state: the state before the step.
        batch: the mini-batch.
        new_state: the state after it, as this project's PPO computes it.
    """

    algorithm: PPO
    state: SeparateState
    batch: dict[str, torch.Tensor]
    new_state: SeparateState

    @classmethod
    def of(cls, samples: int) -> "HopperStep":
        """Return a step on `samples` samples."""
        settings = PpoHyperparameters(maximum_gradient_norm=None)
        network = NetworkDescription("mlp", (64, 64), "tanh")
        algorithm = PPO((11,), 3, network, settings, action_kind="continuous")
        generator = torch.Generator().manual_seed(0)
        state = algorithm.initialise(generator)
        assert isinstance(state, SeparateState)
        batch = {
            "observation": torch.randn(samples, 11, generator=generator),
            "action": torch.randn(samples, 3, generator=generator),
            "advantage": torch.randn(samples, generator=generator),
            "value_target": torch.randn(samples, generator=generator),
        }
        output = algorithm.networks["policy"](state.policy, batch["observation"])
        now = algorithm.distribution(state.policy, output, batch["action"])[0]
        # The old policy was another one, so that some ratios are clipped.
        batch["log_probability"] = now + 0.2 * torch.randn(samples, generator=generator)
        return cls(algorithm, state, batch, algorithm.gradient_step(state, batch).state)

    def rate(self, name: str) -> float:
        """Return Adam's step size of a network."""
        settings = self.algorithm.hyperparameters
        return float(settings.policy_learning_rate if name == "policy" else settings.value_learning_rate)

    @property
    def inputs(self) -> Floats:
        """The samples as columns, (11, M)."""
        return np.ascontiguousarray(self.batch["observation"].numpy().T)

    @staticmethod
    def weights(state: SeparateState, name: str) -> list[Floats]:
        """Return W_1 to W_3 of a network, with the biases in the last column."""
        parameters = state.policy if name == "policy" else state.value
        return [
            torch.cat([parameters[f"{k}.weight"], parameters[f"{k}.bias"][:, None]], 1).numpy()
            for k in range(3)
        ]

    def deltas(self, name: str, output: Floats) -> Floats:
        """Return the gradient of a network's loss with respect to its output, (n_L, M): the host's part."""
        z = torch.from_numpy(np.ascontiguousarray(output.T)).requires_grad_()
        if name == "policy":
            batch = self.algorithm._normalized(self.batch)
            loss = self.algorithm._policy_loss(self.state.policy, z, batch)[0]
        else:
            loss = ((self.batch["value_target"] - z.squeeze(1)) ** 2).mean()
        (gradient,) = torch.autograd.grad(loss, z)
        return np.ascontiguousarray(gradient.numpy().T)
