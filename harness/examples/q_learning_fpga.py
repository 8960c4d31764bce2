"""`q_learning` on another platform: the replay management on an FPGA, simulated."""

import torch

from harness.runtime.program import compose


def q(weights, observation):
    return torch.relu(observation @ weights["in"] + weights["bias"]) @ weights["out"]


def act(weights, observation):
    return q(weights, observation).argmax(1)


def step(weights, batch):
    best = q(weights, batch["next_observation"]).amax(1)
    wanted = batch["reward"] + 0.99 * (1 - batch["terminated"]) * best

    def loss(weights):
        error = wanted - q(weights, batch["observation"]).gather(1, batch["action"].unsqueeze(1)).squeeze(1)
        return (batch["weight"] * error * error).mean(), error

    slope, (cost, error) = torch.func.grad_and_value(loss, has_aux=True)(weights)
    new = {name: value - 0.003 * slope[name] for name, value in weights.items()}
    return new, {"loss": cost, "td_error": error}


first = {"in": torch.randn(4, 64) / 2, "bias": torch.zeros(64), "out": torch.zeros(64, 2)}
training = compose("CartPole-v1", first, step, act, mapping="native-fpga:u200-cpu")
print(training.advance(2_000))
