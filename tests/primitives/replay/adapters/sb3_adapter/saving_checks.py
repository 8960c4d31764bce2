"""Checks of saving in Stable-Baselines3's environment: models and replay buffers are loaded and train on."""

import copy
import pickle
import tempfile
from pathlib import Path

import numpy as np
from models import ALGORITHMS, assert_equal, environment, model
from refusals import raises
from stable_baselines3 import DQN

from placerl.primitives.replay.adapters.sb3_adapter import (
    PrioritizedDQN,
    PrioritizedReplayBuffer,
    PrioritizedSAC,
)


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
        path.write_bytes(pickle.dumps("no buffer"))
        with raises(AssertionError, "ReplayBuffer"):
            ours.load_replay_buffer(path)
        assert ours.replay_buffer is before
        model(PrioritizedDQN, "dqn", n_steps=3).save_replay_buffer(path)
        ours.load_replay_buffer(path)
        assert ours.replay_buffer.n_steps == 1
