"""DDPG's gradient step against the same update written by hand with torch.autograd and torch.optim."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from placerl.primitives.algorithms import create, tree

SIZES, ACTIONS = 5, 2


def mlp(inputs, outputs, final):
    modules = [nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, outputs)]
    return nn.Sequential(*modules, *([nn.Tanh()] if final else [])).double()


def load(module, parameters):
    for own, value in zip(module.parameters(), parameters.values(), strict=True):
        own.data.copy_(value)


def make(**hyperparameters):
    return create(
        "ddpg",
        observation_shape=(SIZES,),
        action_size=ACTIONS,
        network={"hidden": [16, 16]},
        hyperparameters=hyperparameters,
        dtype=torch.float64,
    )


def test_steps_follow_the_update_by_hand(make_batch):
    algorithm = make(actor_learning_rate=3e-3, critic_learning_rate=1e-2, gamma=0.9, tau=0.1)
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    actor, target_actor = mlp(SIZES, ACTIONS, True), mlp(SIZES, ACTIONS, True)
    critic, target_critic = mlp(SIZES + ACTIONS, 1, False), mlp(SIZES + ACTIONS, 1, False)
    pairs = {"actor": actor, "target_actor": target_actor, "critic": critic, "target_critic": target_critic}
    for name, module in pairs.items():
        load(module, getattr(state, name))
    actor_adam = torch.optim.Adam(actor.parameters(), lr=3e-3)
    critic_adam = torch.optim.Adam(critic.parameters(), lr=1e-2)

    for step in range(5):
        batch = make_batch(algorithm, 8, seed=step)
        result = algorithm.gradient_step(state, batch, {})
        state = result.state

        s, a, s2 = batch["observation"], batch["action"], batch["next_observation"]
        with torch.no_grad():
            bootstrap = target_critic(torch.cat([s2, target_actor(s2)], 1))[:, 0]
            y = batch["reward"] + 0.9 * torch.where(batch["terminated"] == 1, 0, bootstrap)
        delta = y - critic(torch.cat([s, a], 1))[:, 0]
        torch.testing.assert_close(result.td_error, delta.detach())
        critic_loss = (batch["weight"] * delta**2).sum() / 8
        critic_adam.zero_grad()
        critic_loss.backward()
        critic_adam.step()
        actor_loss = -critic(torch.cat([s, actor(s)], 1)).sum() / 8
        actor_adam.zero_grad()
        actor_loss.backward()
        actor_adam.step()
        for target, online in ((target_actor, actor), (target_critic, critic)):
            for old, new in zip(target.parameters(), online.parameters(), strict=True):
                old.data.mul_(0.9).add_(0.1 * new.data)

        torch.testing.assert_close(result.losses["critic"], critic_loss.detach())
        torch.testing.assert_close(result.losses["actor"], actor_loss.detach())
        for name, module in pairs.items():
            for own, theirs in zip(getattr(state, name).values(), module.parameters(), strict=True):
                torch.testing.assert_close(own, theirs.detach(), rtol=1e-9, atol=1e-12)


def test_a_step_is_pure(make_batch):
    algorithm = make()
    state, batch = algorithm.initialise(torch.Generator().manual_seed(0)), make_batch(algorithm, 4)
    before = tree.map_tensors(torch.clone, state)
    first, second = (tree.flatten(algorithm.gradient_step(state, batch, {}).state) for _ in range(2))
    for name, leaf in tree.flatten(state).items():
        assert torch.equal(leaf, tree.flatten(before)[name]), name
        assert torch.equal(first[name], second[name]), name
        assert first[name].data_ptr() != leaf.data_ptr(), name


def test_only_termination_stops_the_bootstrap(make_batch):
    algorithm = make()
    state, batch = algorithm.initialise(torch.Generator().manual_seed(0)), make_batch(algorithm, 4)
    batch["terminated"] = torch.ones(4, dtype=torch.float64)
    value = algorithm.critic(state.critic, torch.cat([batch["observation"], batch["action"]], 1))[:, 0]
    ended = algorithm.gradient_step(state, batch, {}).td_error
    torch.testing.assert_close(ended, batch["reward"] - value)
    batch["terminated"] = torch.zeros(4, dtype=torch.float64)
    assert (algorithm.gradient_step(state, batch, {}).td_error != ended).all()


def test_a_weight_of_zero_takes_a_transition_out_of_the_critics_loss(make_batch):
    algorithm = make()
    state, batch = algorithm.initialise(torch.Generator().manual_seed(0)), make_batch(algorithm, 4)
    batch["weight"] = torch.tensor([1.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    first = algorithm.gradient_step(state, batch, {})
    batch["reward"][2] += 100
    second = algorithm.gradient_step(state, batch, {})
    assert first.losses["critic"] == second.losses["critic"]
    assert first.td_error[2] != second.td_error[2]


def test_actions_are_within_their_bounds():
    algorithm = make()
    parameters = algorithm.acting_parameters(algorithm.initialise(torch.Generator().manual_seed(0)))
    observation = 100 * torch.randn(64, SIZES, dtype=torch.float64)
    action = algorithm.act(parameters, observation)
    assert action.shape == (64, ACTIONS)
    assert action.abs().max() <= 1
    arrays = {name: value.numpy() for name, value in parameters.items()}
    torch.testing.assert_close(torch.from_numpy(algorithm.act(arrays, observation.numpy())), action)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"tau": 0.0}, "tau"),
        ({"gamma": 1.1}, "gamma"),
        ({"actor_learning_rate": -1}, "actor_learning_rate"),
        ({"critic_learning_rate": float("nan")}, "critic_learning_rate"),
        ({"exploration_noise": "much"}, "exploration_noise"),
        ({"learning_rate": 1e-3}, "hyperparameters"),
    ],
)
def test_a_wrong_hyperparameter_is_named(wrong, name):
    with pytest.raises(ValueError, match=name):
        make(**wrong)


def test_pixels_are_refused():
    with pytest.raises(ValueError, match="observation_shape"):
        create("ddpg", observation_shape=(4, 84, 84), action_size=1)
    with pytest.raises(ValueError, match="kind"):
        create("ddpg", observation_shape=(4, 84, 84), action_size=1, network={"kind": "nature_cnn"})


def test_exploration_adds_noise_within_the_bounds():
    algorithm = make(exploration_noise=0.5)
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    arrays = {name: value.numpy() for name, value in state.actor.items()}
    rng = np.random.default_rng(0)
    observation = np.repeat(rng.standard_normal((1, SIZES)), 4000, axis=0)
    action = algorithm.explore(arrays, observation, 0, rng)
    assert np.abs(action).max() <= 1
    inside = np.abs(action) < 1
    greedy = algorithm.act(arrays, observation)
    assert inside.mean() > 0.9
    assert np.std((action - greedy)[inside]) == pytest.approx(0.5, abs=0.1)


def test_actors_with_the_critic_compute_the_td_errors_of_a_step(make_batch):
    algorithm = replace(make(gamma=0.9), evaluating=True)
    state = algorithm.initialise(torch.Generator().manual_seed(0))  # target networks equal the trained ones
    batch = make_batch(algorithm, 8)
    arrays = {name: value.numpy() for name, value in batch.items()}
    parameters = {name: value.numpy() for name, value in algorithm.acting_parameters(state).items()}
    found = algorithm.acting_td_errors(parameters, arrays | {"terminated": arrays["terminated"] == 1})
    np.testing.assert_allclose(found, algorithm.gradient_step(state, batch, {}).td_error.numpy())
    actions = algorithm.act(parameters, arrays["observation"])
    np.testing.assert_allclose(actions, make().act(state.actor, batch["observation"]).numpy())
