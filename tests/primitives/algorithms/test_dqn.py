"""DQN's gradient step against the same update written by hand with torch.autograd and torch.optim."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from placerl.primitives.algorithms import create, tree


def make(**hyperparameters):
    return create(
        "dqn",
        observation_shape=(4,),
        action_size=3,
        network={"hidden": [16]},
        hyperparameters=hyperparameters,
        dtype=torch.float64,
    )


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("loss", ["huber", "squared"])
@pytest.mark.parametrize("norm", [None, 0.05])
def test_steps_follow_the_update_by_hand(make_batch, double, loss, norm):
    algorithm = make(
        double=double, loss=loss, maximum_gradient_norm=norm, learning_rate=1e-2, gamma=0.9, target_interval=2
    )
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    q, target_q = (nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)).double() for _ in range(2))
    for module in (q, target_q):
        for own, value in zip(module.parameters(), state.q.values(), strict=True):
            own.data.copy_(value)
    adam = torch.optim.Adam(q.parameters(), lr=1e-2)

    for step in range(5):
        batch = make_batch(algorithm, 8, seed=step)
        result = algorithm.gradient_step(state, batch, {}, algorithm.variant(step))
        state = result.state

        rows = torch.arange(8)
        with torch.no_grad():
            following = target_q(batch["next_observation"])
            chooser = q(batch["next_observation"]) if double else following
            bootstrap = following[rows, chooser.argmax(1)]
            y = batch["reward"] + 0.9 * torch.where(batch["terminated"] == 1, 0, bootstrap)
        value = q(batch["observation"])[rows, batch["action"]]
        torch.testing.assert_close(result.td_error, (y - value).detach())
        cost = functional.huber_loss(value, y, reduction="none") if loss == "huber" else (y - value) ** 2
        total = (batch["weight"] * cost).mean()
        adam.zero_grad()
        total.backward()
        if norm is not None:
            nn.utils.clip_grad_norm_(q.parameters(), norm)
        adam.step()
        if step % 2 == 1:
            target_q.load_state_dict(q.state_dict())

        torch.testing.assert_close(result.losses["q"], total.detach())
        for own, module in ((state.q, q), (state.target_q, target_q)):
            for mine, theirs in zip(own.values(), module.parameters(), strict=True):
                torch.testing.assert_close(mine, theirs.detach(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("n_step", [False, True])
def test_the_actors_td_errors_are_those_of_a_step_whose_target_is_the_online_network(
    make_batch, double, n_step
):
    algorithm = replace(make(double=double, gamma=0.9), n_step=n_step)
    state = algorithm.initialise(torch.Generator().manual_seed(0))  # with equal networks
    batch = make_batch(algorithm, 32, seed=0)
    assert 0 < batch["terminated"].sum() < 32
    arrays = {name: column.numpy() for name, column in batch.items() if name != "weight"}
    parameters = {name: value.numpy() for name, value in algorithm.acting_parameters(state).items()}
    expected = algorithm.gradient_step(state, batch).td_error.numpy()
    for columns in (arrays, arrays | {"terminated": arrays["terminated"].astype(bool)}):
        found = algorithm.acting_td_errors(parameters, columns)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_actors_td_errors_by_hand():
    algorithm = make(gamma=0.5)
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    parameters = {name: np.zeros_like(value.numpy()) for name, value in state.q.items()}
    bias = next(name for name, value in parameters.items() if value.shape == (3,))
    parameters[bias][:] = [1, 2, 4]  # the values of the three actions in every state
    batch = {
        "observation": np.zeros((2, 4)),
        "next_observation": np.zeros((2, 4)),
        "action": np.array([0, 1]),
        "reward": np.array([3.0, 3.0]),
        "terminated": np.array([False, True]),
    }
    # 3 + 0.5 * 4 - 1, and 3 - 2 where nothing follows
    np.testing.assert_array_equal(algorithm.acting_td_errors(parameters, batch), [4, 1])


@pytest.mark.parametrize("name", ["ddpg", "td3", "sac"])
def test_actors_without_a_critic_compute_no_td_errors(name):
    algorithm = create(name, observation_shape=(4,), action_size=1, network={"hidden": [16]})
    with pytest.raises(NotImplementedError, match=f"{name}: its acting parameters give actions, not values"):
        algorithm.acting_td_errors({}, {})


def test_the_online_variant_leaves_the_target_alone(make_batch):
    algorithm = make(target_interval=3)
    assert [algorithm.variant(step) for step in range(6)] == ["online", "online", "full"] * 2
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    batch = make_batch(algorithm, 4)
    online = algorithm.gradient_step(state, batch, {}, "online").state
    full = algorithm.gradient_step(state, batch, {}, "full").state
    for name, value in state.target_q.items():
        assert torch.equal(online.target_q[name], value)
        assert torch.equal(full.target_q[name], full.q[name])


def test_a_step_is_pure(make_batch):
    algorithm = make()
    state, batch = algorithm.initialise(torch.Generator().manual_seed(0)), make_batch(algorithm, 4)
    before = tree.flatten(tree.map_tensors(torch.clone, state))
    algorithm.gradient_step(state, batch, {})
    assert all(torch.equal(leaf, before[name]) for name, leaf in tree.flatten(state).items())


def test_a_step_on_pixels(make_batch):
    algorithm = create("dqn", observation_shape=(4, 84, 84), action_size=6, network={"kind": "nature_cnn"})
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    result = algorithm.gradient_step(state, make_batch(algorithm, 2), {})
    assert result.td_error.shape == (2,)
    assert all(p.isfinite().all() for p in result.state.q.values())
    assert algorithm.act(state.q, torch.zeros(3, 4, 84, 84, dtype=torch.uint8)).shape == (3,)


def test_the_greedy_action_has_the_largest_value():
    algorithm = make()
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    observation = torch.randn(32, 4, dtype=torch.float64)
    action = algorithm.act(state.q, observation)
    assert torch.equal(action, algorithm.q(state.q, observation).argmax(1))
    assert len(set(action.tolist())) > 1


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"target_interval": 0}, "target_interval"),
        ({"target_interval": 1.5}, "target_interval"),
        ({"loss": "absolute"}, "loss"),
        ({"epsilon_final": -0.1}, "epsilon_final"),
        ({"maximum_gradient_norm": 0.0}, "maximum_gradient_norm"),
    ],
)
def test_a_wrong_hyperparameter_is_named(wrong, name):
    with pytest.raises(ValueError, match=name):
        make(**wrong)


def test_an_unknown_algorithm_is_refused():
    with pytest.raises(ValueError, match=r"name: found 'a3c'; allowed: ddpg, dqn"):
        create("a3c", observation_shape=(4,), action_size=2)


def test_exploration_falls_from_random_to_almost_greedy():
    algorithm = make(epsilon_initial=1.0, epsilon_final=0.1, exploration_steps=100)
    assert [algorithm.epsilon(step) for step in (0, 50, 100, 1000)] == pytest.approx([1.0, 0.55, 0.1, 0.1])
    state = algorithm.initialise(torch.Generator().manual_seed(0))
    arrays = {name: value.numpy() for name, value in state.q.items()}
    rng = np.random.default_rng(0)
    observation = np.repeat(rng.standard_normal((1, 4)), 3000, axis=0)
    greedy = algorithm.act(arrays, observation)[0]
    for step, share in ((0, 1 / 3), (1000, 0.9 + 0.1 / 3)):
        action = algorithm.explore(arrays, observation, step, rng)
        assert (action == greedy).mean() == pytest.approx(share, abs=0.03)


def test_a_range_without_an_end_does_not_allow_infinity():
    with pytest.raises(ValueError, match=r"learning_rate: found inf; allowed: a number in \(0, inf\)$"):
        make(learning_rate=float("inf"))
