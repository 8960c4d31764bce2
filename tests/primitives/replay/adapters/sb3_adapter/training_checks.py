"""Checks of training in Stable-Baselines3's environment: with equal weights it is SB3's own, bit for bit."""

import warnings
from unittest import mock

import numpy as np
import torch
from models import ALGORITHMS, assert_equal, environment, model, own_class, tensors
from refusals import raises
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import NormalActionNoise

from placerl.primitives.replay.adapters.sb3_adapter import (
    PrioritizedDQN,
    PrioritizedReplayBuffer,
    PrioritizedSAC,
    PrioritizedTD3,
)

VARIANTS = {
    "dqn": [
        {},
        {"n_envs": 3, "n_steps": 3},
        {"policy": "CnnPolicy"},
        {"policy": "MultiInputPolicy", "n_envs": 2},
        {"normalized": True, "n_steps": 2},
        {
            "gradient_steps": -1,
            "train_freq": 5,
            "tau": 0.5,
            "max_grad_norm": 0.1,
            "learning_rate": lambda x: x * 1e-2,
        },
        {"train_freq": (2, "episode"), "gamma": 0.5},
        {"replay_buffer_kwargs": {"handle_timeout_termination": False}},
        {"buffer_size": 2, "n_envs": 4},
        {"exploration_fraction": 0.5, "exploration_final_eps": 0.4},
    ],
    "ddpg": [
        {},
        {"n_steps": 3, "n_envs": 2},
        {"policy": "MultiInputPolicy"},
        {"gradient_steps": -1, "train_freq": (1, "episode"), "tau": 0.1},
        {"normalized": True, "n_envs": 2},
    ],
    "td3": [
        {},
        {"n_steps": 3, "n_envs": 2, "normalized": True},
        {"policy": "CnnPolicy"},
        {"policy": "MultiInputPolicy"},
        {
            "policy_kwargs": {"n_critics": 3},
            "policy_delay": 3,
            "target_policy_noise": 0.5,
            "target_noise_clip": 0.1,
        },
        {"gradient_steps": 3, "train_freq": 4, "learning_rate": lambda x: x * 1e-2},
    ],
    "sac": [
        {},
        {"n_steps": 3, "n_envs": 2, "normalized": True},
        {"policy": "CnnPolicy"},
        {"policy": "MultiInputPolicy", "ent_coef": 0.1},
        {"policy_kwargs": {"n_critics": 3}, "ent_coef": "auto_0.3", "target_entropy": -0.5},
        {"use_sde": True, "sde_sample_freq": 2, "use_sde_at_warmup": True},
        {
            "gradient_steps": 5,
            "target_update_interval": 2,
            "train_freq": 4,
            "learning_rate": lambda x: x * 1e-2,
        },
    ],
}


def check_training(algorithm, number):
    """With alpha = 0 and the same draws, a whole training equals SB3's own bit for bit."""
    settings = dict(VARIANTS[algorithm][number])
    if algorithm != "dqn" and number == 0:
        settings["action_noise"] = NormalActionNoise(np.zeros(2), np.full(2, 0.3))
    options = settings.pop("replay_buffer_kwargs", {}) | {"alpha": 0}
    own_kind, ours_kind = ALGORITHMS[algorithm]
    n_step_options = {"n_steps": settings.get("n_steps", 1), "gamma": settings.get("gamma", 0.99)}
    own_settings = {name: value for name, value in settings.items() if name != "n_steps"}
    own = model(
        own_class(own_kind),
        algorithm,
        replay_buffer_class=PrioritizedReplayBuffer,
        replay_buffer_kwargs=options | n_step_options,
        **own_settings,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as that n_steps is ignored
        ours = model(ours_kind, algorithm, replay_buffer_kwargs=options, **settings)
    assert (ours.replay_buffer.n_steps, ours.replay_buffer.gamma) == tuple(n_step_options.values())
    before = tensors(ours)
    for steps, restart in ((45, True), (20, False), (10, True)):
        for trained in (own, ours):
            np.random.seed(steps)  # noqa: NPY002 (what SB3 seeds)
            torch.manual_seed(steps)
            trained.action_space.seed(steps)
            trained.learn(steps, reset_num_timesteps=restart)
    assert own._n_updates == ours._n_updates > 0
    assert_equal(own, ours)
    assert any(not torch.equal(value, tensors(ours)[name]) for name, value in before.items())
    logged = {name: value for name, value in own.logger.name_to_value.items() if name.startswith("train/")}
    assert len(logged) > 1
    for name, value in logged.items():
        assert np.isclose(value, ours.logger.name_to_value[name], rtol=1e-6), name
    assert logged.keys() == {name for name in ours.logger.name_to_value if name.startswith("train/")}


def check_weighted_step(algorithm, n_envs=2, **settings):
    """A step equals that of SB3's own class whose loss function was replaced by the weighted one."""
    own_kind, ours_kind = ALGORITHMS[algorithm]
    ours = model(ours_kind, algorithm, n_envs=n_envs, learning_starts=100, **settings)
    ours.learn(100)
    ours.replay_buffer.update_priorities = lambda td_errors: None
    for _ in range(30):  # priorities that differ
        ours.replay_buffer.sample(16)
        PrioritizedReplayBuffer.update_priorities(ours.replay_buffer, 5 * torch.rand(16))
    batches, updates = [], []
    draw = ours.replay_buffer.sample

    def sample(batch_size, env):
        batches.append((draw(batch_size, env), ours.replay_buffer.weights))
        return batches[-1][0]

    ours.replay_buffer.sample = sample
    ours.replay_buffer.update_priorities = updates.append
    own = model(own_kind, algorithm, n_envs=n_envs, **settings)
    own.policy.load_state_dict(ours.policy.state_dict())
    torch.manual_seed(0)
    ours.train(4, 16)
    assert all(weights.min() < 0.99 and weights.max() == 1 for _, weights in batches)

    expected, errors = [], []

    def next_batch(batch_size, env):
        batch, weights = batches[len(expected)]
        expected.append(weights)
        errors.append([])
        return batch

    def weighted(loss):
        def compute(q, target):
            errors[-1].append((q - target).detach().abs())
            return (expected[-1] * loss(q - target)).mean()

        return compute

    def huber(x):
        return torch.where(x.abs() < 1, 0.5 * x**2, x.abs() - 0.5)

    own.replay_buffer.sample = next_batch
    torch.manual_seed(0)
    with (
        mock.patch("torch.nn.functional.mse_loss", weighted(torch.square)),
        mock.patch("torch.nn.functional.smooth_l1_loss", weighted(huber)),
    ):
        own.train(4, 16)
    for name, value in tensors(own).items():
        assert torch.allclose(value, tensors(ours)[name], rtol=1e-4, atol=1e-6), name
    assert len(updates) == 4
    for found, critics in zip(updates, errors, strict=True):
        assert torch.allclose(found.reshape(-1, 1), torch.stack(critics).mean(dim=0), rtol=1e-4, atol=1e-6)


def check_priorities_follow_training():
    for algorithm, (_, kind) in ALGORITHMS.items():
        trained = model(kind, algorithm)
        trained.learn(80)
        priorities = trained.replay_buffer.replay.priorities(np.arange(80))
        assert len(np.unique(priorities)) > 40, algorithm


def check_a_seed_repeats_a_training_and_another_does_not():
    for algorithm, (_, kind) in ALGORITHMS.items():
        first, again, other = (model(kind, algorithm, seed=seed) for seed in (1, 1, 2))
        for trained in (first, again, other):
            trained.set_random_seed(trained.seed)  # creating the next one has seeded the global generators
            trained.learn(60)
        assert_equal(first, again)
        with raises(AssertionError):
            assert_equal(first, other)


def check_set_random_seed_reaches_the_draws():
    trained = model(PrioritizedDQN, "dqn")
    trained.learn(40)
    draws = []
    for seed in (7, 7, 8):
        trained.set_random_seed(seed)
        draws.append(trained.replay_buffer.sample(16).observations)
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def check_reset_leaves_only_what_comes_after():
    trained = model(PrioritizedTD3, "td3")
    trained.learn(60)
    trained.replay_buffer.reset()
    trained.learn(5, reset_num_timesteps=False)
    assert trained.replay_buffer.size() == 5
    assert trained.replay_buffer.replay.samples_drawn > 40


def check_set_env_trains_on_in_the_new_environment():
    trained = model(PrioritizedSAC, "sac", n_envs=2)
    trained.learn(40)
    trained.set_env(environment("sac", n_envs=2))
    trained.learn(20, reset_num_timesteps=False)
    assert (trained.num_timesteps, trained.replay_buffer.size()) == (60, 30)


def check_the_first_lines_of_the_documentation_train():
    trained = PrioritizedDQN("MlpPolicy", "CartPole-v1", replay_buffer_kwargs={"alpha": 0.6, "beta": 0.4})
    trained.set_logger(Logger(folder=None, output_formats=[]))
    trained.learn(150)
    assert trained.replay_buffer.size() == 152  # SB3's DQN steps four at a time
