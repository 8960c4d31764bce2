"""Checks of RLlib's own algorithms with the buffer: they send TD errors back, and go on from a saved state."""

import logging
import pickle

import numpy as np
import ray
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig
from rllib_buffers import Ours, priorities

ALGORITHMS = {"dqn": (DQNConfig, "CartPole-v1"), "sac": (SACConfig, "Pendulum-v1")}
OURS = "placerl.primitives.replay.adapters.rllib_adapter.PrioritizedEpisodeReplayBuffer"
BUFFER = {"capacity": 1000, "alpha": 0.6, "beta": 0.4}


def created(algorithm, **settings):
    if not ray.is_initialized():
        ray.init(
            address="local",
            num_cpus=1,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    kind, environment = ALGORITHMS[algorithm]
    own = {"type": "PrioritizedEpisodeReplayBuffer", **BUFFER}
    config = (
        kind()
        .environment(environment)
        .env_runners(num_env_runners=0)
        .learners(num_learners=0)
        .training(
            train_batch_size_per_learner=16,
            num_steps_sampled_before_learning_starts=50,
            replay_buffer_config=own | settings,
        )
        .debugging(seed=3, log_level="ERROR")
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=100)
    )
    return config.build_algo()


def check_training(algorithm):
    if algorithm == "dqn":
        trained = created("dqn", type=OURS)
    else:  # whose configuration accepts only RLlib's own classes
        trained = created("sac")
        trained.local_replay_buffer = Ours(1000, alpha=0.6)
    buffer = trained.local_replay_buffer
    assert type(buffer) is Ours
    for _ in range(2):
        trained.train()
    assert buffer.get_sampled_timesteps() > 500
    assert len(np.unique(priorities(buffer))) > 50
    state = pickle.loads(pickle.dumps(buffer.get_state()))
    trained.local_replay_buffer = Ours(1000, alpha=0.6)
    trained.local_replay_buffer.set_state(state)
    held = len(buffer)
    trained.train()
    assert len(trained.local_replay_buffer) > held
    assert priorities(trained.local_replay_buffer)[:held] != priorities(buffer)
    trained.stop()
