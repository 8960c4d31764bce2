"""PPO: advantages, samples and gradient steps against their definitions, written by hand."""

import numpy as np
import pytest
import torch
from torch import distributions, nn

from placerl.primitives.algorithms import create, networks
from placerl.primitives.algorithms.ppo import Rollout, advantages

SIZE = 5


def make(action_kind="continuous", **hyperparameters):
    return create(
        "ppo",
        observation_shape=(SIZE,),
        action_size=3,
        network={"hidden": [16], "activation": "tanh"},
        hyperparameters=hyperparameters,
        action_kind=action_kind,
        dtype=torch.float64,
    )


def module(parameters, outputs):
    made = nn.Sequential(nn.Linear(SIZE, 16), nn.Tanh(), nn.Linear(16, outputs)).double()
    for own, value in zip(made.parameters(), parameters.values(), strict=False):
        own.data.copy_(value)
    return made


def test_advantages_are_the_sums_of_their_definition():
    rng = np.random.default_rng(0)
    reward, value, next_value = rng.standard_normal((3, 20, 4))
    terminated, truncated = rng.random((2, 20, 4)) < 0.15
    result = advantages(reward, value, next_value, terminated, truncated, gamma=0.9, gae_lambda=0.8)
    for actor in range(4):
        for start in range(20):
            total = 0.0
            for k, t in enumerate(range(start, 20)):
                bootstrap = 0 if terminated[t, actor] else 0.9 * next_value[t, actor]
                total += (0.9 * 0.8) ** k * (reward[t, actor] + bootstrap - value[t, actor])
                if terminated[t, actor] or truncated[t, actor]:
                    break
            assert result[start, actor] == pytest.approx(total)


def test_lambda_one_without_values_gives_discounted_returns():
    none = np.zeros((3, 1), bool)
    result = advantages(
        np.ones((3, 1)), np.zeros((3, 1)), np.zeros((3, 1)), none, none, gamma=0.5, gae_lambda=1
    )
    np.testing.assert_allclose(result[:, 0], [1.75, 1.5, 1.0])


@pytest.mark.parametrize("action_kind", ["continuous", "discrete"])
@pytest.mark.parametrize("normalize", [True, False])
def test_steps_follow_the_update_by_hand(make_batch, action_kind, normalize):
    algorithm = make(
        action_kind,
        policy_learning_rate=1e-2,
        value_learning_rate=2e-2,
        entropy_coefficient=0.1,
        maximum_gradient_norm=0.3,
        normalize_advantages=normalize,
    )
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    policy, value = module(state.policy, 3), module(state.value, 1)
    policy_parameters = list(policy.parameters())
    if action_kind == "continuous":
        log_std = nn.Parameter(state.policy["log_std"].clone())
        policy_parameters.append(log_std)
    policy_adam = torch.optim.Adam(policy_parameters, lr=1e-2)
    value_adam = torch.optim.Adam(value.parameters(), lr=2e-2)

    for step in range(5):
        batch = make_batch(algorithm, 8, seed=step)
        batch["log_probability"] = batch["log_probability"] * 0.3 - 3.0
        result = algorithm.gradient_step(state, batch, {})
        state = result.state

        output = policy(batch["observation"])
        if action_kind == "continuous":
            distribution = distributions.Independent(distributions.Normal(output, log_std.exp()), 1)
        else:
            distribution = distributions.Categorical(logits=output)
        advantage = batch["advantage"]
        if normalize:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        log_ratio = distribution.log_prob(batch["action"]) - batch["log_probability"]
        gain = torch.min(log_ratio.exp() * advantage, log_ratio.exp().clamp(0.8, 1.2) * advantage).mean()
        loss = -gain - 0.1 * distribution.entropy().mean()
        policy_adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy_parameters, 0.3)
        policy_adam.step()
        error = batch["value_target"] - value(batch["observation"])[:, 0]
        value_adam.zero_grad()
        (error**2).mean().backward()
        nn.utils.clip_grad_norm_(value.parameters(), 0.3)
        value_adam.step()

        torch.testing.assert_close(result.losses["policy"], loss.detach())
        torch.testing.assert_close(result.losses["kl"], (log_ratio.exp() - 1 - log_ratio).mean().detach())
        torch.testing.assert_close(result.td_error, error.detach())
        own = [*state.policy.values(), *state.value.values()]
        for mine, theirs in zip(own, [*policy_parameters, *value.parameters()], strict=True):
            torch.testing.assert_close(mine, theirs.detach(), rtol=1e-8, atol=1e-10)


def test_a_value_step_leaves_the_policy_alone(make_batch):
    algorithm = make()
    state, batch = algorithm.initialise(torch.Generator().manual_seed(0)), make_batch(algorithm, 8)
    full = algorithm.gradient_step(state, batch, {}).state
    value = algorithm.gradient_step(state, batch, {}, "value")
    assert value.state.policy is state.policy
    assert value.state.policy_adam is state.policy_adam
    assert all(torch.equal(full.value[name], leaf) for name, leaf in value.state.value.items())
    assert "policy" not in value.losses


def test_a_shared_trunk_takes_one_step_on_the_unified_objective(make_batch):
    algorithm = create(
        "ppo",
        observation_shape=(4, 84, 84),
        action_size=6,
        action_kind="discrete",
        network={"kind": "nature_cnn"},
        hyperparameters={"entropy_coefficient": 0.01, "maximum_gradient_norm": None},
        dtype=torch.float64,
    )
    assert algorithm.variants == ("full",)
    state, batch = algorithm.initialise(torch.Generator().manual_seed(0)), make_batch(algorithm, 3)
    batch["log_probability"] = batch["log_probability"] * 0.1 - 1.8
    result = algorithm.gradient_step(state, batch, {})

    leaves = {name: leaf.clone().requires_grad_() for name, leaf in state.network.items()}
    features = networks.NatureCNN()(networks.part(leaves, "trunk"), batch["observation"])
    logits = features @ leaves["policy.0.weight"].T + leaves["policy.0.bias"]
    value = (features @ leaves["value.0.weight"].T + leaves["value.0.bias"])[:, 0]
    distribution = distributions.Categorical(logits=logits)
    ratio = (distribution.log_prob(batch["action"]) - batch["log_probability"]).exp()
    advantage = (batch["advantage"] - batch["advantage"].mean()) / (batch["advantage"].std() + 1e-8)
    gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
    cost = ((batch["value_target"] - value) ** 2).mean()
    (-gain + 0.5 * cost - 0.01 * distribution.entropy().mean()).backward()
    optimiser = torch.optim.Adam(leaves.values(), lr=3e-4)
    optimiser.step()
    for name, leaf in result.state.network.items():
        torch.testing.assert_close(leaf, leaves[name].detach(), rtol=1e-8, atol=1e-10)


def test_the_policy_stops_when_the_divergence_is_large():
    algorithm = make(target_kl=0.02)
    assert algorithm.early_stop({"kl": 0.031})
    assert not algorithm.early_stop({"kl": 0.029})
    assert not algorithm.early_stop({"value": 1.0})
    assert not make(target_kl=None).early_stop({"kl": 100.0})


def random_rollout(algorithm, rng, length=6, actors=3):
    shape = (length, actors)
    action = rng.integers(3, size=shape) if algorithm.discrete else rng.standard_normal((*shape, 3))
    observation = rng.standard_normal((length + 1, actors, SIZE))
    terminated, truncated = rng.random((2, *shape)) < 0.2
    following = observation[1:].copy()
    over = terminated | truncated
    following[over] = rng.standard_normal((over.sum(), SIZE))
    return Rollout(observation[:-1], action, rng.standard_normal(shape), following, terminated, truncated)


@pytest.mark.parametrize("action_kind", ["continuous", "discrete"])
def test_samples_hold_values_advantages_and_log_probabilities(action_kind):
    algorithm = make(action_kind, initial_log_std=-0.5)
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    parameters = {name: leaf.numpy() for name, leaf in algorithm.acting_parameters(state).items()}
    rollout = random_rollout(algorithm, np.random.default_rng(0))
    samples = algorithm.prepare(parameters, rollout)
    assert samples.keys() == algorithm.columns(18).keys()
    for name, (shape, _) in algorithm.columns(18).items():
        assert samples[name].shape == shape, name

    value = module(state.value, 1)
    with torch.no_grad():
        now = value(torch.from_numpy(rollout.observation))[..., 0].numpy()
        then = value(torch.from_numpy(rollout.next_observation))[..., 0].numpy()
        output = module(state.policy, 3)(torch.from_numpy(rollout.observation))
    expected = advantages(
        rollout.reward, now, then, rollout.terminated, rollout.truncated, gamma=0.99, gae_lambda=0.95
    )
    np.testing.assert_allclose(samples["advantage"], expected.reshape(-1))
    np.testing.assert_allclose(samples["value_target"], (expected + now).reshape(-1))
    if action_kind == "continuous":
        distribution = distributions.Independent(distributions.Normal(output, np.exp(-0.5)), 1)
    else:
        distribution = distributions.Categorical(logits=output)
    log_probability = distribution.log_prob(torch.from_numpy(rollout.action))
    np.testing.assert_allclose(samples["log_probability"], log_probability.reshape(-1))


def test_minibatches_deal_out_every_sample_once_an_epoch():
    algorithm = make(epochs=2)
    samples = {"advantage": np.arange(12.0), "value_target": 10 * np.arange(12.0)}
    dealt = list(algorithm.minibatches(samples, 4, np.random.default_rng(0)))
    assert len(dealt) == 6
    for epoch in (dealt[:3], dealt[3:]):
        together = np.concatenate([batch["advantage"] for batch in epoch])
        assert sorted(together) == list(range(12))
        assert not np.array_equal(together, np.arange(12))
    assert all(np.array_equal(10 * batch["advantage"], batch["value_target"]) for batch in dealt)


@pytest.mark.parametrize("action_kind", ["continuous", "discrete"])
def test_exploring_draws_from_the_policy(action_kind):
    algorithm = make(action_kind, initial_log_std=-1.0)
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    state.policy["1.bias"].copy_(torch.tensor([0.5, 0.0, -1.0]))
    parameters = {name: leaf.numpy() for name, leaf in algorithm.acting_parameters(state).items()}
    action = algorithm.explore(parameters, np.zeros((30_000, SIZE)), 0, np.random.default_rng(0))
    if action_kind == "continuous":
        np.testing.assert_allclose(action.mean(0), [0.5, 0.0, -1.0], atol=0.01)
        np.testing.assert_allclose(action.std(0), np.exp(-1.0), atol=0.01)
    else:
        share = np.bincount(action) / len(action)
        np.testing.assert_allclose(share, np.exp([0.5, 0, -1]) / np.exp([0.5, 0, -1]).sum(), atol=0.01)
    greedy = algorithm.act(parameters, np.zeros((1, SIZE)))
    np.testing.assert_allclose(greedy, [[0.5, 0, -1]] if action_kind == "continuous" else [0])


@pytest.mark.parametrize(
    ("name", "value"),
    [("clip", 0.0), ("epochs", 0), ("gae_lambda", 1.5), ("target_kl", 0.0), ("normalize_advantages", 1)],
)
def test_a_wrong_hyperparameter_is_named(name, value):
    with pytest.raises(ValueError, match=name):
        make(**{name: value})


def test_an_action_kind_that_an_algorithm_is_not_for_is_named():
    with pytest.raises(ValueError, match="action_kind for dqn"):
        create("dqn", observation_shape=(4,), action_size=2, action_kind="continuous")
