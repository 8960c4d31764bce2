"""Checks of the algorithms in Stable-Baselines3's environment: with equal weights they train as SB3's own do."""

import copy
import io
import tempfile
import warnings
from pathlib import Path
from unittest import mock

import gymnasium
import numpy as np
import torch
from buffer_checks import raises
from gymnasium import spaces
from stable_baselines3 import DDPG, DQN, SAC, TD3, HerReplayBuffer
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import VecNormalize

from primitives.replay.adapters.sb3_adapter import (
    PrioritizedDDPG,
    PrioritizedDQN,
    PrioritizedReplayBuffer,
    PrioritizedSAC,
    PrioritizedTD3,
)

torch.set_num_threads(1)
ALGORITHMS = {
    "dqn": (DQN, PrioritizedDQN),
    "ddpg": (DDPG, PrioritizedDDPG),
    "td3": (TD3, PrioritizedTD3),
    "sac": (SAC, PrioritizedSAC),
}
IMAGE = spaces.Box(0, 255, (36, 36, 1), np.uint8)
VECTOR = spaces.Box(-1, 1, (3,), np.float32)
OBSERVATIONS = {
    "MlpPolicy": VECTOR,
    "CnnPolicy": IMAGE,
    "MultiInputPolicy": spaces.Dict({"vector": VECTOR, "number": spaces.Discrete(4), "image": IMAGE}),
}


class Noise(gymnasium.Env):
    """An environment of random observations and rewards, whose episodes end and are cut now and then."""

    def __init__(self, policy="MlpPolicy", discrete=False):
        self.observation_space = copy.deepcopy(OBSERVATIONS[policy])
        self.action_space = spaces.Discrete(3) if discrete else spaces.Box(-2, 2, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        ends = self.np_random.random(2) < 0.1
        return (
            self.observation_space.sample(),
            float(self.np_random.normal()),
            bool(ends[0]),
            bool(ends[1]),
            {},
        )


def environment(algorithm, policy="MlpPolicy", n_envs=1, normalized=False):
    env = make_vec_env(lambda: Noise(policy, algorithm == "dqn"), n_envs=n_envs, seed=1)
    return VecNormalize(env) if normalized else env


def model(kind, algorithm, policy="MlpPolicy", n_envs=1, normalized=False, **settings):
    """Return a small model that begins to learn after 20 steps."""
    common = {"learning_starts": 20, "batch_size": 16, "buffer_size": 200, "seed": 3, "device": "cpu"}
    if algorithm == "dqn":
        common |= {"train_freq": 1, "target_update_interval": 10}
    common["policy_kwargs"] = {"net_arch": [16]} | settings.pop("policy_kwargs", {})
    created = kind(policy, environment(algorithm, policy, n_envs, normalized), **common | settings)
    created.set_logger(Logger(folder=None, output_formats=[]))  # SB3's own leaves a temporary folder
    return created


def tensors(trained):
    """Return everything that training changes, by name."""
    found = dict(trained.policy.state_dict())
    optimizers = [
        trained.policy.optimizer if isinstance(trained, DQN) else trained.actor.optimizer,
        None if isinstance(trained, DQN) else trained.critic.optimizer,
        getattr(trained, "ent_coef_optimizer", None),
    ]
    for number, optimizer in enumerate(optimizers):
        for key, state in (optimizer.state_dict()["state"] if optimizer else {}).items():
            found |= {f"optimizer {number} {key} {name}": value for name, value in state.items()}
    if getattr(trained, "log_ent_coef", None) is not None:
        found["log_ent_coef"] = trained.log_ent_coef.detach()
    return {name: value.clone() for name, value in found.items()}


def assert_equal(own, ours):
    own, ours = tensors(own), tensors(ours)
    assert own.keys() == ours.keys()
    different = [name for name, value in own.items() if not torch.equal(value, ours[name])]
    assert not different, different


def own_class(kind):
    """Return SB3's own algorithm, allowed to sample from our buffer, whose weights it ignores."""
    return type(kind.__name__, (kind,), {"applies_weights": True})


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


def check_sb3s_own_algorithms_refuse_the_buffer_by_name():
    for algorithm, (kind, _) in ALGORITHMS.items():
        name = f"Prioritized{kind.__name__}"
        with raises(TypeError, "replay_buffer_class", name):
            model(kind, algorithm, replay_buffer_class=PrioritizedReplayBuffer)
        with raises(TypeError, name):  # a subclass of either
            model(
                type("Mine", (kind,), {}),
                algorithm,
                replay_buffer_class=type("Buffer", (PrioritizedReplayBuffer,), {}),
            )
        given = model(kind, algorithm)
        given.replay_buffer = PrioritizedReplayBuffer(200, given.observation_space, given.action_space, "cpu")
        with raises(TypeError, name):
            given.learn(40)
        loaded, stream = model(kind, algorithm), io.BytesIO()
        given.save_replay_buffer(stream)
        stream.seek(0)
        loaded.load_replay_buffer(stream)
        with raises(TypeError, name):
            loaded.learn(40)


def check_a_wrapped_sample_is_refused_too():
    class Wrapped(PrioritizedReplayBuffer):
        def sample(self, batch_size, env=None):
            return super().sample(batch_size, env)

    given = model(SAC, "sac")
    given.replay_buffer = Wrapped(200, given.observation_space, given.action_space, "cpu")
    with raises(TypeError, "PrioritizedSAC"):
        given.learn(40)


def check_an_algorithm_of_a_users_own_says_that_it_applies_weights():
    with raises(TypeError, "applies_weights"):
        model(type("Own", (SAC,), {}), "sac", replay_buffer_class=PrioritizedReplayBuffer)
    model(own_class(SAC), "sac", replay_buffer_class=PrioritizedReplayBuffer).learn(40)


class SamplesByHand(BaseCallback):
    """Draws from a buffer of the user's while a model trains."""

    def __init__(self, buffer=None):
        super().__init__()
        self.buffer, self.drawn = buffer, 0

    def _on_step(self):
        buffer = self.buffer or self.model.replay_buffer
        if buffer.size():
            self.drawn += len(buffer.sample(4).rewards)
        return True


def check_by_hand_any_number_of_samples_may_be_drawn():
    trained = model(PrioritizedSAC, "sac")
    own = SamplesByHand()
    trained.learn(40, callback=own)
    assert own.drawn > 100
    for _ in range(5):
        trained.replay_buffer.sample(8)
    # also in a training of SB3's own class, whose buffer is another one
    other = SamplesByHand(trained.replay_buffer)
    model(SAC, "sac").learn(40, callback=other)
    assert other.drawn > 100

    class Creates(BaseCallback):
        def _on_step(self):
            PrioritizedReplayBuffer(4, self.model.observation_space, self.model.action_space, "cpu")
            return True

    model(SAC, "sac").learn(5, callback=Creates())


def check_other_buffers_and_conflicting_options_are_refused_by_name():
    for algorithm, (_, kind) in ALGORITHMS.items():
        for buffer in (ReplayBuffer, DictReplayBuffer, NStepReplayBuffer, HerReplayBuffer):
            with raises(TypeError, "replay_buffer_class", buffer.__name__, "PrioritizedReplayBuffer"):
                model(kind, algorithm, replay_buffer_class=buffer)
        with raises(ValueError, "optimize_memory_usage"):
            model(kind, algorithm, optimize_memory_usage=True)
        for name, value in (("n_steps", 5), ("gamma", 0.5)):
            with raises(ValueError, f"replay_buffer_kwargs['{name}']"):
                model(kind, algorithm, replay_buffer_kwargs={name: value})
        with raises(ValueError, "n_steps"):
            model(kind, algorithm, n_steps=0)
        with raises(TypeError, "n_steps: found 2.5"):
            model(kind, algorithm, n_steps=2.5)
        with raises(TypeError, "wrong"):
            model(kind, algorithm, replay_buffer_kwargs={"wrong": 1})
    given = {"alpha": 0.3}
    model(PrioritizedDQN, "dqn", replay_buffer_kwargs=given, n_steps=3)
    assert given == {"alpha": 0.3}


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


def check_a_saved_model_is_loaded_and_trains_on():
    for algorithm, (own, kind) in ALGORITHMS.items():
        trained = model(kind, algorithm, n_steps=3, replay_buffer_kwargs={"alpha": 0.3})
        trained.learn(40)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.zip"
            trained.save(path)
            loaded = kind.load(path, env=environment(algorithm))
            assert_equal(trained, loaded)
            assert loaded.replay_buffer.replay.alpha == 0.3
            assert (loaded.replay_buffer.n_steps, loaded.replay_buffer.size()) == (3, 0)
            loaded.learn(40, reset_num_timesteps=False)
            changed = kind.load(path, env=environment(algorithm, n_envs=2), n_steps=2, gamma=0.5)
            assert (changed.replay_buffer.n_steps, changed.replay_buffer.gamma) == (2, 0.5)
            changed.learn(40)
            with raises(TypeError, kind.__name__):
                own.load(path)
            # a model of SB3's own goes on with prioritised replay
            model(own, algorithm).save(path)
            with raises(TypeError, "replay_buffer_class", "None"):
                kind.load(path)
            kind.load(path, env=environment(algorithm), replay_buffer_class=None).learn(40)


def check_a_model_that_sb3s_own_class_saved_trains_on_with_priorities():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.zip"
        model(DQN, "dqn", n_steps=3).save(path)
        with raises(TypeError, "replay_buffer_class", "load"):
            PrioritizedDQN.load(path, env=environment("dqn"))
        loaded = PrioritizedDQN.load(path, env=environment("dqn"), replay_buffer_class=None)
        loaded.learn(40)
        assert (type(loaded.replay_buffer), loaded.replay_buffer.n_steps) == (PrioritizedReplayBuffer, 3)


def check_a_saved_replay_buffer_is_loaded_and_trains_on():
    for algorithm, (_, kind) in ALGORITHMS.items():
        for policy in ("MlpPolicy", "MultiInputPolicy") if algorithm == "dqn" else ("MlpPolicy",):
            trained = model(kind, algorithm, policy, n_envs=2)
            trained.learn(60)
            kept = copy.deepcopy(trained.replay_buffer)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "logs" / "buffer"
                trained.save_replay_buffer(path)
                for truncate in (True, False):
                    other = model(kind, algorithm, policy, n_envs=2)
                    other.load_replay_buffer(path, truncate_last_traj=truncate)
                    loaded = other.replay_buffer
                    assert (loaded.pos, loaded.full, loaded.device) == (kept.pos, kept.full, other.device)
                    assert np.array_equal(loaded.rewards, kept.rewards)
                    rows = np.arange(60)
                    assert np.array_equal(loaded.replay.priorities(rows), kept.replay.priorities(rows))
                    assert loaded.replay.samples_drawn == kept.replay.samples_drawn > 0
                    other.learn(40, reset_num_timesteps=False)
                    assert other.replay_buffer.size() == 50


def check_a_replay_buffer_of_another_kind_is_refused_on_loading():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "buffer.pkl"
        ours = model(PrioritizedDQN, "dqn")
        before = ours.replay_buffer
        for other, kind, text in (
            (model(DQN, "dqn"), TypeError, "ReplayBuffer"),
            (model(PrioritizedDQN, "dqn", n_envs=2), ValueError, "n_envs"),
            (model(PrioritizedDQN, "dqn", "CnnPolicy"), ValueError, "observation_space"),
            (model(PrioritizedSAC, "sac"), ValueError, "action_space"),
        ):
            other.save_replay_buffer(path)
            with raises(kind, text):
                ours.load_replay_buffer(path)
            assert ours.replay_buffer is before
        model(PrioritizedDQN, "dqn", n_steps=3).save_replay_buffer(path)
        ours.load_replay_buffer(path)
        assert ours.replay_buffer.n_steps == 1


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
