"""Trains a user's own Q-learning, in plain PyTorch; `mapping` names backends that `placerl doctor` lists."""

import torch

import placerl


def q(net, observation):
    return torch.relu(observation @ net["in"] + net["bias"]) @ net["out"]


def act(state, observation):
    return q(state["now"], observation).argmax(1)


def step(state, batch):
    best = q(state["target"], batch["next_observation"]).amax(1)
    target_q = batch["reward"] + 0.99 * (1 - batch["terminated"]) * best

    def loss(now):
        error = target_q - q(now, batch["observation"]).gather(1, batch["action"].unsqueeze(1)).squeeze(1)
        return (batch["weight"] * (1 + error * error).sqrt()).mean(), error

    gradients, (cost, error) = torch.func.grad_and_value(loss, has_aux=True)(state["now"])
    now = {name: value - 0.03 * gradients[name] for name, value in state["now"].items()}
    target = {name: value + 0.003 * (now[name] - value) for name, value in state["target"].items()}
    return {"now": now, "target": target}, {"loss": cost, "td_error": error}


first = {"in": torch.randn(4, 64) / 2, "bias": torch.zeros(64), "out": torch.zeros(64, 2)}
start = {"now": first, "target": first}
training = placerl.compose("CartPole-v1", start, step, act, mapping="native-native-cpu")  # or another mapping
print(training.advance(30_000).episodes[-1])
