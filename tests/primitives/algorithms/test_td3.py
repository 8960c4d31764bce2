"""TD3's gradient step against the same update written by hand with torch.autograd and torch.optim."""

import numpy as np
import pytest
import torch
from torch import nn

from placerl.primitives.algorithms import create, networks

SIZE, ACTIONS = 5, 2


def make(**hyperparameters):
    return create(
        "td3",
        observation_shape=(SIZE,),
        action_size=ACTIONS,
        network={"hidden": [16]},
        hyperparameters=hyperparameters,
        dtype=torch.float64,
    )


def modules_of(state):
    """Plain modules that hold the state's numbers, by the state's names."""

    def module(parameters, inputs, outputs, final):
        layers = [nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, outputs), *([nn.Tanh()] if final else [])]
        made = nn.Sequential(*layers).double()
        for own, value in zip(made.parameters(), parameters.values(), strict=True):
            own.data.copy_(value)
        return made

    made = {name: module(getattr(state, name), SIZE, ACTIONS, True) for name in ("actor", "target_actor")}
    for name in ("critics", "target_critics"):
        for which in ("first", "second"):
            parameters = networks.part(getattr(state, name), which)
            made[f"{name}.{which}"] = module(parameters, SIZE + ACTIONS, 1, False)
    return made


def assert_equal(state, modules):
    for name, module in modules.items():
        field, _, which = name.partition(".")
        parameters = getattr(state, field)
        own = networks.part(parameters, which) if which else parameters
        for mine, theirs in zip(own.values(), module.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs.detach(), rtol=1e-9, atol=1e-12)


def test_steps_follow_the_update_by_hand(make_batch):
    algorithm = make(
        actor_learning_rate=3e-3, critic_learning_rate=1e-2, gamma=0.9, tau=0.1, target_noise=0.5
    )
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    modules = modules_of(state)
    critics = [modules["critics.first"], modules["critics.second"]]
    targets = [modules["target_critics.first"], modules["target_critics.second"]]
    actor, target_actor = modules["actor"], modules["target_actor"]
    actor_adam = torch.optim.Adam(actor.parameters(), lr=3e-3)
    critics_adam = torch.optim.Adam([p for critic in critics for p in critic.parameters()], lr=1e-2)
    generator = torch.Generator().manual_seed(1)

    for step in range(6):
        batch, draws = make_batch(algorithm, 8, seed=step), algorithm.draw(8, generator)
        result = algorithm.gradient_step(state, batch, draws, algorithm.variant(step))
        state = result.state

        s, a, s2 = batch["observation"], batch["action"], batch["next_observation"]
        with torch.no_grad():
            noise = (0.5 * draws["target_noise"]).clamp(-0.5, 0.5)
            a2 = (target_actor(s2) + noise).clamp(-1, 1)
            bootstrap = torch.min(torch.stack([t(torch.cat([s2, a2], 1))[:, 0] for t in targets]), 0).values
            y = batch["reward"] + 0.9 * torch.where(batch["terminated"] == 1, 0, bootstrap)
        first, second = (critic(torch.cat([s, a], 1))[:, 0] for critic in critics)
        loss = (batch["weight"] * ((y - first) ** 2 + (y - second) ** 2)).sum() / 8
        torch.testing.assert_close(result.td_error, (y - (first + second) / 2).detach())
        torch.testing.assert_close(result.losses["critic"], loss.detach())
        critics_adam.zero_grad()
        loss.backward()
        critics_adam.step()
        if step % 2 == 1:
            loss = -critics[0](torch.cat([s, actor(s)], 1)).mean()
            actor_adam.zero_grad()
            loss.backward()
            actor_adam.step()
            torch.testing.assert_close(result.losses["actor"], loss.detach())
            for target, online in zip([target_actor, *targets], [actor, *critics], strict=True):
                for old, new in zip(target.parameters(), online.parameters(), strict=True):
                    old.data.mul_(0.9).add_(0.1 * new.data)
        assert_equal(state, modules)


def test_the_policy_waits_for_its_delay():
    algorithm = make(policy_delay=3)
    assert [algorithm.variant(step) for step in range(6)] == ["critic", "critic", "full"] * 2


def test_target_noise_is_clipped(make_batch):
    algorithm = make(target_noise=1.0, target_noise_clip=0.1)
    state, batch = algorithm.initialise(torch.Generator().manual_seed(0)), make_batch(algorithm, 4)
    first, second = (
        algorithm.gradient_step(
            state, batch, {"target_noise": torch.full((4, ACTIONS), size).double()}
        ).td_error
        for size in (1.0, 100.0)
    )
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_exploration_stays_within_the_bounds():
    algorithm = make(exploration_noise=2.0)
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    arrays = {name: value.numpy() for name, value in state.actor.items()}
    action = algorithm.explore(arrays, np.zeros((100, SIZE)), 0, np.random.default_rng(0))
    assert np.abs(action).max() == 1
    assert action.std() > 0.3


@pytest.mark.parametrize("name", ["policy_delay", "target_noise", "target_noise_clip", "tau"])
def test_a_wrong_hyperparameter_is_named(name):
    with pytest.raises(ValueError, match=name):
        make(**{name: -1})
