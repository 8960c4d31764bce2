"""Checks of the buffer in RLlib's environment: what RLlib's own prioritised buffer does, ours does too.

Each check runs the same operations on both, RLlib's first. `COVERED` names every public method and attribute of
RLlib's class with the check that covers it, here or in `rllib_state_checks.py`.
"""

import copy
import pickle
import warnings
from functools import partial

import numpy as np
import rllib_state_checks
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.policy.sample_batch import SampleBatch
from refusals import failure, message, refused
from rllib_buffers import (
    Ours,
    Own,
    answer,
    at,
    chunk,
    contents,
    draws,
    filled,
    priorities,
    same,
    sampled_once,
    trained,
)

from placerl.primitives.replay.base import EMPTY

COVERED = {
    "add": "check_the_same_contents",
    "batch_length_T": "check_sequences_are_refused",
    "batch_size_B": "check_the_size_of_a_sample",
    "capacity": "check_the_same_contents",
    "episode_id_to_index": "check_the_same_contents",
    "episodes": "check_the_same_contents",
    "get_added_timesteps": "check_the_same_contents",
    "get_host": "check_the_same_contents",
    "get_metrics": "check_metrics",
    "get_num_episodes": "check_the_same_contents",
    "get_num_episodes_evicted": "check_the_same_contents",
    "get_num_timesteps": "check_the_same_contents",
    "get_sampled_timesteps": "check_metrics",
    "get_state": "check_a_copy_is_the_same_and_continues",
    "metrics": "check_metrics",
    "num_episodes_evicted": "check_the_attribute_that_rllib_never_sets",
    "rng": "check_a_seed_repeats_the_draws",
    "sample": "check_samples",
    "sampled_timesteps": "check_metrics",
    "set_state": "check_a_copy_is_the_same_and_continues",
    "update_priorities": "check_priorities",
}


def check_every_public_name_of_rllibs_buffer_is_covered():
    public = {name for name in {*dir(Own), *vars(Own(4))} if not name.startswith("_")}
    assert public == set(COVERED), public ^ set(COVERED)
    known = vars(rllib_state_checks) | globals()
    assert all(callable(known[check]) for check in COVERED.values())


def check_the_same_contents():
    for capacity in (1, 2, 5, 8, 20):
        for lengths in ((), (1,), (4, 3, 5), (2,) * 9, (1, 7, 1, 1, 1, 9)):
            if max(lengths, default=0) <= 2 * capacity:
                same(lambda kind, n=lengths, c=capacity: contents(filled(kind, n, c)))

    def several(kind):
        buffer = kind(20, alpha=0.5)
        buffer.add([chunk(0, 3, "a"), chunk(50, 4, "b", end="truncated")], weight=4.0)
        buffer.add([])
        return contents(buffer)

    assert set(same(several)[-1]) == {2.0}


def check_chunks_become_one_episode():
    def work(kind):
        buffer = filled(kind, (2, 4))
        buffer.add([chunk(0, 3, "a"), chunk(0, 2, "a", start=3)])
        buffer.add(chunk(0, 4, "a", start=5, end="terminated"))
        return contents(buffer)

    same(work)

    def wrong(kind):
        buffer = filled(kind, (2, 4))
        buffer.add(chunk(0, 3, "a"))
        return refused(lambda: buffer.add(chunk(0, 2, "a", start=7)))

    assert same(wrong)


def check_a_sequence(operations, capacity, alpha):
    """The same operations on both buffers have the same results."""
    buffers = [kind(capacity, alpha=alpha) for kind in (Own, Ours)]
    for buffer in buffers:
        buffer.rng = np.random.default_rng(7)
    lengths = {}
    for name, *arguments in operations:
        if name == "add":
            number, length, end = arguments
            start = lengths.get(number, 0)
            # RLlib fails inside where an episode goes on that has ended, that it evicts or that outgrows the tree.
            held = f"e{number}" in buffers[0].episode_id_to_index
            if (start and not held) or start + length > capacity or lengths.get((number, "ended")):
                continue
            for buffer in buffers:
                buffer.add(chunk(100 * number, length, f"e{number}", start, end))
            lengths[number], lengths[number, "ended"] = start + length, bool(end)
        elif name == "copy":
            buffers = [copy.deepcopy(buffer) for buffer in buffers]
        elif name == "pickle":
            buffers = [pickle.loads(pickle.dumps(buffer)) for buffer in buffers]
        elif name == "state":
            states = [pickle.loads(pickle.dumps(buffer.get_state())) for buffer in buffers]
            rngs = [buffer.rng for buffer in buffers]
            buffers = [kind(capacity, alpha=alpha) for kind in (Own, Ours)]
            for buffer, state, rng in zip(buffers, states, rngs, strict=True):
                buffer.set_state(state)
                buffer.rng = rng
        elif len(buffers[0]):
            sampled = [buffer.sample(4, beta=0.4) for buffer in buffers]
            own, ours = ([at(step)[0] for step in steps] for steps in sampled)
            assert own == ours, (own, ours)
            for buffer, steps in zip(buffers, sampled, strict=True):
                answer(buffer, steps)
        own, ours = map(contents, buffers)
        assert own == ours, (name, own, ours)


def check_samples():
    for options in (
        {},
        {"n_step": 1},
        {"n_step": 3, "gamma": 0.5},
        {"n_step": (1, 4), "gamma": 0.9},
        {"to_numpy": True},
        {"sample_episodes": True, "batch_length_T": 0, "lookback": 0, "min_batch_length_T": 0},
        {"batch_length_T": 1},
    ):
        same(lambda kind, o=options: draws(trained(kind), 32, **o))


def check_infos_and_model_outputs_come_along():
    def work(kind):
        sampled = filled(kind).sample(8, include_infos=True, include_extra_model_outputs=True)
        return [(step.get_infos(), step.get_extra_model_outputs("logp")) for step in sampled]

    same(work)


def check_the_size_of_a_sample():
    def work(kind):
        buffer = filled(kind, batch_size_B=5)
        return (
            len(buffer.sample()),
            len(buffer.sample(3)),
            len(buffer.sample(batch_size_B=40)),
            buffer.batch_size_B,
        )

    assert same(work) == (5, 3, 40, 5)
    assert same(lambda kind: refused(lambda: filled(kind).sample(3, batch_size_B=3)))
    buffer = filled(Ours)
    for size in (0, -1):  # RLlib takes 0 for the default, and returns nothing for -1
        assert f"num_items: found {size}; allowed: 1 to" in message(
            lambda s=size: buffer.sample(s), ValueError
        )
        assert "batch_size_B" in message(lambda s=size: buffer.sample(batch_size_B=s), ValueError)
    assert buffer.get_sampled_timesteps() == 0


def check_weights_are_those_of_the_priorities():
    for beta in (0.0, 0.4, 1.0, 500.0):
        for to_numpy in (False, True):
            buffer = trained(Ours)
            sampled = buffer.sample(8, beta=beta, to_numpy=to_numpy)
            drawn = buffer._sum_segment[np.array(buffer._last_sampled_indices)]
            weights = [at(step)[1] for step in sampled]
            np.testing.assert_allclose(weights, (drawn.min() / drawn) ** beta, rtol=1e-6, atol=1e-40)

    def ratios(kind):  # RLlib's are normalised over the whole buffer: by one factor
        weights = [at(step)[1] for step in trained(kind).sample(32, beta=0.5)]
        return np.round(np.array(weights) / max(weights), 6).tolist()

    assert len(set(same(ratios))) > 2
    for beta in (None, -1.0, np.nan):
        assert "beta: found" in message(
            lambda b=beta: filled(Ours).sample(2, beta=b), (TypeError, ValueError)
        )


def check_priorities():
    for alpha in (0.0, 0.5, 1.0, 2.0):

        def work(kind, alpha=alpha):
            buffer = filled(kind, alpha=alpha)
            buffer.sample(8)
            buffer.update_priorities(np.array([0.5, -3.0, 4.0, 16.0, 0.25, 1.0, 0.0, 2.0]))
            second = refused(lambda: buffer.update_priorities(np.ones(8)))
            return priorities(buffer), buffer._max_priority, second

        same(work)
    for td_errors in (np.ones(3), np.ones(5), np.ones(0)):
        assert same(lambda kind, e=td_errors: refused(lambda: sampled_once(kind).update_priorities(e)))
    for td_errors in ([1.0, 2.0, 4.0, 8.0], np.ones(4, np.float32)):
        same(lambda kind, e=td_errors: refused(lambda: sampled_once(kind).update_priorities(e)))
    assert same(lambda kind: refused(lambda: filled(kind).update_priorities(np.ones(1))))
    same(lambda kind: filled(kind).update_priorities(np.ones(0)))


def check_priorities_that_the_tree_cannot_hold_are_refused_and_change_nothing():
    for td_error in (np.nan, np.inf, 1e300):
        buffer = sampled_once(Ours)
        before = contents(buffer)
        wrong = np.array([1.0, td_error, 1.0, 1.0])
        assert "priorities: found" in message(partial(buffer.update_priorities, wrong), ValueError)
        assert contents(buffer) == before
        buffer.update_priorities(np.ones(4))
    assert "(4, 1)" in message(partial(sampled_once(Ours).update_priorities, np.ones((4, 1))), ValueError)
    for weight in (0.0, -1.0, np.nan, np.inf, 1e300):
        buffer = filled(Ours, alpha=0.9)
        before = contents(buffer)
        assert "weight: found" in message(partial(buffer.add, chunk(0, 2, "w"), weight=weight), ValueError)
        assert contents(buffer) == before


def check_no_priority_becomes_too_small_to_draw():
    buffer = filled(Ours, (2,), alpha=50.0)
    for _ in range(20):
        buffer.sample(2)
        buffer.update_priorities(np.zeros(2))
    assert min(priorities(buffer)) >= 0
    assert {step[2] for step in draws(buffer, 64)} == {0, 1}


def check_draws_follow_the_priorities():
    buffer = filled(Ours, (4,), seed=1)
    while len(set(priorities(buffer))) < 4:
        buffer.update_priorities(np.array([1.0 + step[2] for step in draws(buffer, 8)]))
    drawn = [step[2] for step in draws(buffer, 4000)]
    np.testing.assert_allclose(np.bincount(drawn) / 4000, np.arange(1, 5) / 10, atol=0.03)


def check_metrics():
    def work(kind):
        buffer = trained(kind, capacity=10)
        buffer.sample(4, n_step=2)
        buffer.sample(3)
        totals = buffer.get_sampled_timesteps(), buffer.sampled_timesteps
        peeked = buffer.metrics.peek(("num_env_steps_sampled_lifetime",))
        reduced = {name: repr(value) for name, value in buffer.get_metrics().items()}
        return totals, peeked, reduced

    assert same(work)[0] == (47, 47)


def check_the_attribute_that_rllib_never_sets():
    assert same(lambda kind: refused(lambda: kind(4).num_episodes_evicted))


def check_an_empty_buffer_is_refused_by_name():
    assert same(lambda kind: refused(lambda: kind(5).sample(2, beta=0.4)))
    assert message(lambda: Ours(5).sample(2), ValueError) == EMPTY


def check_steps_that_no_episode_is_long_enough_for_are_refused():
    buffer = filled(Ours, (2, 3, 1))  # RLlib's own looks for ever
    for n_step in (4, (4, 9)):
        assert "allowed: up to 3" in message(lambda n=n_step: buffer.sample(2, n_step=n), ValueError)
    for n_step in (0, -1, 1.5, True, (2, 2), (0, 3), [1, 3], "2"):
        assert "n_step: found" in message(lambda n=n_step: buffer.sample(2, n_step=n), ValueError)
    assert len(buffer.sample(2, n_step=3)) == len(buffer.sample(2, n_step=(3, 9))) == 2


def check_a_batch_may_be_larger_than_the_buffer():
    same(lambda kind: draws(filled(kind, (2,), capacity=2), 64))


def check_an_episode_longer_than_the_tree_is_refused_by_name():
    assert same(lambda kind: refused(lambda: kind(4).add(chunk(0, 30, "a"))))
    said = message(lambda: Ours(4).add(chunk(0, 30, "a")), ValueError)
    assert "capacity: found 4 for an episode of more than 8 timesteps" in said


def check_an_update_of_an_evicted_timestep_is_dropped():
    def work(kind):
        buffer = filled(kind, (4, 4), capacity=8)
        sampled = buffer.sample(128)
        buffer.add(chunk(200, 1, "evicts four"))
        answer(buffer, sampled)
        return failure(lambda: draws(buffer, 64)), priorities(buffer)

    own, ours = work(Own), work(Ours)
    assert own[0] == "KeyError"  # RLlib's own draws a timestep that is not there
    # The new timestep, which is last, takes the place of an evicted one, and RLlib's own takes its update, too.
    assert (own[1][-1], ours) == (8.0, ("", [*own[1][:-1], 1.0]))


def check_sequences_are_refused():
    assert same(lambda kind: kind(5).batch_length_T) == 1
    assert "batch_length_T: found 20; allowed: 1" in message(lambda: Ours(5, batch_length_T=20), ValueError)
    buffer = filled(Ours)
    for name, value in (("batch_length_T", 20), ("lookback", 1), ("min_batch_length_T", 3)):
        said = message(lambda n=name, v=value: buffer.sample(2, **{n: v}), ValueError)
        assert f"{name}: found {value}; allowed: " in said
        assert "EpisodeReplayBuffer" in said
    assert "sample_episodes: found False" in message(
        lambda: buffer.sample(2, sample_episodes=False), ValueError
    )


def check_arguments_out_of_range_are_refused_by_name():
    for options in ({"capacity": 0}, {"capacity": -3}, {"alpha": -1.0}, {"alpha": np.nan}):
        assert same(lambda kind, o=options: refused(lambda: kind(**o)))
    for name, value in (("capacity", 0), ("alpha", -1.0), ("batch_size_B", 0), ("fanout", 1), ("beta", -1.0)):
        assert f"{name}: found {value}" in message(lambda n=name, v=value: Ours(**{n: v}), ValueError)
    # which RLlib accepts and does not use
    assert "alhpa" in message(lambda: Ours(5, alhpa=0.5), TypeError)
    assert "stratified" in message(lambda: filled(Ours).sample(2, stratified=True), TypeError)


def check_only_episodes_of_one_agent_are_taken():
    buffer = filled(Ours)
    before = contents(buffer)
    for wrong in (
        MultiAgentEpisode(),
        SampleBatch({"obs": np.zeros(3)}),
        {"obs": np.zeros(3)},
        None,
        "episode",
    ):
        for given in (wrong, [chunk(0, 2, "new"), wrong]):
            said = message(lambda g=given: buffer.add(g), TypeError)
            assert f"episodes: found {type(wrong).__name__}; allowed: SingleAgentEpisode" in said
            assert "MultiAgentPrioritizedEpisodeReplayBuffer" in said
    assert contents(buffer) == before


def check_a_buffer_whose_priorities_never_change_says_so():
    for answers in (True, False):
        buffer = filled(Ours)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(250):
                sampled = buffer.sample(2)
                if answers:
                    answer(buffer, sampled)
        said = [str(warning.message) for warning in caught if "update_priorities" in str(warning.message)]
        assert len(said) == (not answers), said
        assert all("ray.rllib.utils.replay_buffers.EpisodeReplayBuffer" in text for text in said)
