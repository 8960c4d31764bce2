"""SAC's gradient step against the same update written by hand with torch.autograd, torch.distributions and Adam."""

import math

import numpy as np
import pytest
import torch
from torch import distributions, nn

from placerl.primitives.algorithms import create, networks

SIZE, ACTIONS = 5, 2


def make(**hyperparameters):
    return create(
        "sac",
        observation_shape=(SIZE,),
        action_size=ACTIONS,
        network={"hidden": [16]},
        hyperparameters=hyperparameters,
        dtype=torch.float64,
    )


def module(parameters, inputs, outputs):
    made = nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, outputs)).double()
    for own, value in zip(made.parameters(), parameters.values(), strict=True):
        own.data.copy_(value)
    return made


def squashed(actor, observation, noise):
    """Action and log-probability by torch.distributions."""
    mean, log_std = actor(observation).chunk(2, 1)
    normal = distributions.Normal(mean, log_std.clamp(-20, 2).exp())
    u = mean + normal.scale * noise
    policy = distributions.TransformedDistribution(normal, distributions.TanhTransform(cache_size=1))
    action = torch.tanh(u)
    log_probability = normal.log_prob(u) - policy.transforms[0].log_abs_det_jacobian(u, action)
    return action, log_probability.sum(1)


def test_steps_follow_the_update_by_hand(make_batch):
    rates = {"actor_learning_rate": 3e-3, "critic_learning_rate": 1e-2, "temperature_learning_rate": 2e-2}
    algorithm = make(gamma=0.9, tau=0.1, initial_temperature=0.5, **rates)
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    actor = module(state.actor, SIZE, 2 * ACTIONS)
    critics, targets = (
        [module(networks.part(joined, which), SIZE + ACTIONS, 1) for which in ("first", "second")]
        for joined in (state.critics, state.target_critics)
    )
    log_alpha = torch.tensor(math.log(0.5), dtype=torch.float64, requires_grad=True)
    actor_adam = torch.optim.Adam(actor.parameters(), lr=3e-3)
    critics_adam = torch.optim.Adam([p for critic in critics for p in critic.parameters()], lr=1e-2)
    alpha_adam = torch.optim.Adam([log_alpha], lr=2e-2)
    generator = torch.Generator().manual_seed(1)

    for step in range(5):
        batch, draws = make_batch(algorithm, 8, seed=step), algorithm.draw(8, generator)
        result = algorithm.gradient_step(state, batch, draws)
        state = result.state

        s, a, s2 = batch["observation"], batch["action"], batch["next_observation"]
        alpha = log_alpha.exp().detach()
        with torch.no_grad():
            a2, log_p2 = squashed(actor, s2, draws["next_noise"])
            bootstrap = torch.min(torch.stack([t(torch.cat([s2, a2], 1))[:, 0] for t in targets]), 0).values
            soft = bootstrap - alpha * log_p2
            y = batch["reward"] + 0.9 * torch.where(batch["terminated"] == 1, 0, soft)
        first, second = (critic(torch.cat([s, a], 1))[:, 0] for critic in critics)
        critic_loss = (batch["weight"] * ((y - first) ** 2 / 2 + (y - second) ** 2 / 2)).mean()
        torch.testing.assert_close(result.td_error, (y - (first + second) / 2).detach())
        critics_adam.zero_grad()
        critic_loss.backward()
        critics_adam.step()

        b, log_p = squashed(actor, s, draws["noise"])
        lowest = torch.min(torch.stack([critic(torch.cat([s, b], 1))[:, 0] for critic in critics]), 0).values
        actor_loss = (alpha * log_p - lowest).mean()
        actor_adam.zero_grad()
        actor_loss.backward()
        actor_adam.step()
        alpha_adam.zero_grad()
        (-log_alpha * (log_p.detach() - ACTIONS)).mean().backward()
        alpha_adam.step()
        for target, online in zip(targets, critics, strict=True):
            for old, new in zip(target.parameters(), online.parameters(), strict=True):
                old.data.mul_(0.9).add_(0.1 * new.data)

        expected = {
            "critic": critic_loss,
            "actor": actor_loss,
            "temperature": alpha,
            "entropy": -log_p.mean(),
        }
        for name, value in expected.items():
            torch.testing.assert_close(result.losses[name], value.detach())
        torch.testing.assert_close(state.temperature["log_alpha"], log_alpha.detach())
        pairs = [(state.actor, actor)]
        for joined, own in ((state.critics, critics), (state.target_critics, targets)):
            pairs += [
                (networks.part(joined, which), m) for which, m in zip(("first", "second"), own, strict=True)
            ]
        for parameters, theirs in pairs:
            for mine, other in zip(parameters.values(), theirs.parameters(), strict=True):
                torch.testing.assert_close(mine, other.detach(), rtol=1e-9, atol=1e-12)


def test_without_tuning_the_temperature_stays(make_batch):
    algorithm = make(tune_temperature=False, initial_temperature=0.2)
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    draws = algorithm.draw(4, torch.Generator().manual_seed(0))
    result = algorithm.gradient_step(state, make_batch(algorithm, 4), draws)
    assert result.state.temperature["log_alpha"] == state.temperature["log_alpha"]
    assert result.losses["temperature"] == pytest.approx(0.2)


def test_log_probabilities_stay_finite_where_tanh_saturates():
    algorithm = make()
    actor = algorithm.initialise(torch.Generator().manual_seed(0)).actor
    actor = actor | {"1.bias": torch.full_like(actor["1.bias"], 50.0)}
    action, log_probability = algorithm.sample(
        actor, torch.zeros(3, SIZE).double(), torch.zeros(3, ACTIONS).double()
    )
    assert (action == 1).all()
    assert log_probability.isfinite().all()


def test_exploring_draws_from_the_policy_and_acting_takes_its_mean():
    algorithm = make()
    actor = algorithm.initialise(torch.Generator().manual_seed(0)).actor
    arrays = {name: value.numpy() for name, value in actor.items()}
    observation = np.repeat(np.random.default_rng(0).standard_normal((1, SIZE)), 20_000, axis=0)
    noise = torch.randn(20_000, ACTIONS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected, _ = algorithm.sample(actor, torch.from_numpy(observation), noise)
    drawn = algorithm.explore(arrays, observation, 0, np.random.default_rng(1))
    np.testing.assert_allclose(drawn.mean(0), expected.mean(0), atol=0.03)
    np.testing.assert_allclose(drawn.std(0), expected.std(0), atol=0.03)
    greedy, _ = algorithm.sample(actor, torch.from_numpy(observation[:1]), torch.zeros(1, ACTIONS).double())
    np.testing.assert_allclose(algorithm.act(arrays, observation[:1]), greedy)


@pytest.mark.parametrize(
    ("name", "value"),
    [("initial_temperature", 0.0), ("target_entropy", math.nan), ("tune_temperature", "yes")],
)
def test_a_wrong_hyperparameter_is_named(name, value):
    with pytest.raises(ValueError, match=name):
        make(**{name: value})


def test_random_numbers_may_be_written_over_older_ones():
    algorithm = make()
    first = algorithm.draw(4, torch.Generator().manual_seed(0))
    older = algorithm.draw(4, torch.Generator().manual_seed(1))
    again = algorithm.draw(4, torch.Generator().manual_seed(0), older)
    assert list(again) == ["noise", "next_noise"]
    for name, value in first.items():
        assert value.shape == (4, algorithm.action_size)
        torch.testing.assert_close(again[name], value, rtol=0, atol=0)
        assert again[name] is older[name]
    assert not torch.equal(first["noise"], first["next_noise"])
