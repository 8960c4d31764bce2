"""Trains a user's own deterministic policy gradient, in plain PyTorch, on a pendulum; `mapping` names the devices."""

import torch

import placerl


def layers(weights, x):
    return torch.relu(x @ weights["in"] + weights["bias"]) @ weights["out"]


def act(weights, observation):
    return torch.tanh(layers(weights["policy"], observation))


def q(weights, observation, action):
    return layers(weights["critic"], torch.cat([observation, action], 1)).squeeze(1)


def step(weights, batch):
    following = batch["next_observation"]
    best = q(weights["slow"], following, act(weights["slow"], following))
    target_q = 0.1 * batch["reward"] + 0.98 * (1 - batch["terminated"]) * best

    def loss(critic):
        error = target_q - q({"critic": critic}, batch["observation"], batch["action"])
        return (batch["weight"] * error * error).mean(), error

    def cost(policy):
        return -q(weights, batch["observation"], act({"policy": policy}, batch["observation"])).mean()

    slopes, (critic_loss, error) = torch.func.grad_and_value(loss, has_aux=True)(weights["critic"])
    climb, policy_loss = torch.func.grad_and_value(cost)(weights["policy"])
    new = {
        "critic": {name: value - 0.01 * slopes[name] for name, value in weights["critic"].items()},
        "policy": {name: value - 0.01 * climb[name] for name, value in weights["policy"].items()},
    }
    slow = {
        part: {name: 0.99 * value + 0.01 * new[part][name] for name, value in weights["slow"][part].items()}
        for part in new
    }
    return {**new, "slow": slow}, {"critic": critic_loss, "policy": policy_loss, "td_error": error}


def network(inputs):
    return {"in": torch.randn(inputs, 64) / 2, "bias": torch.zeros(64), "out": torch.randn(64, 1) / 100}


first = {"critic": network(4), "policy": network(3)}
weights = {**first, "slow": first}
training = placerl.compose("Pendulum-v1", weights, step, act, mapping="native-native-cpu")
print(training.advance(2_000))
