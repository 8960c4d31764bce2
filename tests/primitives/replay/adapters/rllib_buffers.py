"""Buffers of RLlib's and ours for the checks, and what they hold.

Priorities are powers of two, which both trees add up exactly, so that both buffers draw the same transitions with the
same generator.
"""

import pickle
from functools import partial

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer as Own
from refusals import same_results

from placerl.primitives.replay.adapters.rllib_adapter import PrioritizedEpisodeReplayBuffer as Ours

same = partial(same_results, (Own, Ours))


def chunk(first, length, id_=None, start=0, end=""):
    """An episode's timesteps from `start` on; the observation at time t is (first + t, 1)."""
    times = range(start, start + length)
    return SingleAgentEpisode(
        id_=id_,
        observations=[np.array([first + t, 1.0]) for t in (*times, start + length)],
        infos=[{"at": first + t} for t in (*times, start + length)],
        actions=[first + t for t in times],
        rewards=[float(first + t) for t in times],
        extra_model_outputs={"logp": [-float(t) for t in times]},
        terminated=end == "terminated",
        truncated=end == "truncated",
        t_started=start,
        len_lookback_buffer=0,
    )


def filled(kind, lengths=(4, 3, 5), capacity=20, **options):
    buffer = kind(capacity, **options)
    buffer.rng = np.random.default_rng(3)
    for number, length in enumerate(lengths):
        end = ("terminated", "truncated", "")[number % 3]
        buffer.add(chunk(100 * number, length, f"e{number}", end=end))
    return buffer


def at(sampled):
    """What a sampled transition holds."""
    weight, n_step = (float(sampled.get_extra_model_outputs(name)[0]) for name in ("weights", "n_step"))
    parts = [
        sampled.get_observations(0).tolist(),
        sampled.get_observations(1).tolist(),
        int(sampled.get_actions(0)),
        round(float(sampled.get_rewards(0)), 9),
        sampled.is_terminated,
        sampled.is_truncated,
        sampled.t_started,
        n_step,
    ]
    return parts, weight


def draws(buffer, count=8, **options):
    return [at(sampled)[0] for sampled in buffer.sample(count, **{"beta": 0.4} | options)]


def answer(buffer, sampled):
    """Send TD errors that are powers of two and belong to the transitions."""
    buffer.update_priorities(np.array([2.0 ** (int(step.get_actions(0)) % 4) for step in sampled]))


def trained(kind, rounds=10, **options):
    buffer = filled(kind, **options)
    for _ in range(rounds):
        answer(buffer, buffer.sample(4))
    return buffer


def priorities(buffer):
    """The priority of each timestep that the buffer holds."""
    nodes = dict(map(reversed, buffer._tree_idx_to_sample_idx.items()))
    return [round(float(buffer._sum_segment[nodes[index]]), 6) for index in range(len(buffer))]


def contents(buffer):
    return (
        len(buffer),
        buffer.capacity,
        buffer.get_num_timesteps(),
        buffer.get_num_episodes(),
        buffer.get_num_episodes_evicted(),
        buffer.get_added_timesteps(),
        buffer.get_host(),
        dict(buffer.episode_id_to_index),
        [(episode.id_, len(episode), episode.is_done) for episode in buffer.episodes],
        [np.array(episode.get_observations()).tolist() for episode in buffer.episodes],
        list(buffer._indices),
        buffer._max_priority,
        priorities(buffer),
    )


def restored(buffer, kind=None, **options):
    other = (kind or type(buffer))(20, **options)
    other.set_state(pickle.loads(pickle.dumps(buffer.get_state())))  # RLlib's own shares its lists
    return other


def sampled_once(kind):
    buffer = filled(kind)
    buffer.sample(4)
    return buffer
