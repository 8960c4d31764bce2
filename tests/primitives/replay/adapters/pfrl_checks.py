"""Checks of the buffer in PFRL's environment: what PFRL's own prioritised buffer does, ours does too.

Each check runs the same operations on both buffers, PFRL's first. Draws differ, so their contents are compared and not
their order. `COVERED` names every public method and property of PFRL's classes, with the check that covers it.
"""

import copy
import pickle
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pfrl
import torch
from pfrl import agents, explorers, q_functions, replay_buffers
from refusals import failure, message, same_results

from placerl.primitives.replay.adapters.pfrl_adapter import PrioritizedReplayBuffer

OWN = replay_buffers.PrioritizedReplayBuffer
BOTH = (OWN, PrioritizedReplayBuffer)
same = partial(same_results, BOTH)
COVERED = {
    "append": "check_episodes_become_the_same_items",
    "capacity": "check_a_full_buffer_drops_its_oldest_items",
    "load": "check_save_and_load",
    "priority_from_errors": "check_priorities",
    "sample": "check_weights_are_those_of_the_priorities",
    "save": "check_save_and_load",
    "stop_current_episode": "check_episodes_become_the_same_items",
    "update_errors": "check_sample_and_update_take_turns",
    "weights_from_probabilities": "check_weights_of_given_probabilities",
}


def step(buffer, number, terminal=False, env_id=0):
    buffer.append(
        state=np.full(2, number),
        action=number,
        reward=float(number),
        next_state=np.full(2, number + 1),
        is_state_terminal=terminal,
        env_id=env_id,
    )


def filled(kind, count, capacity=10, **options):
    buffer = kind(capacity, **options)
    for number in range(count):
        step(buffer, number)
    return buffer


def items(buffer):
    """The items as tuples of their steps' actions, sorted."""
    return sorted(tuple(step["action"] for step in steps) for steps in buffer.memory.data)


def check_every_public_method_of_pfrl_is_covered():
    public = {name for name in dir(OWN) if not name.startswith("_")}
    assert public == set(COVERED), public ^ set(COVERED)
    assert {name for name in vars(OWN(1)) if not name.startswith("_")} <= set(
        vars(PrioritizedReplayBuffer(1))
    )
    assert all(callable(globals()[check]) for check in COVERED.values())


def check_episodes_become_the_same_items():
    def work(kind, num_steps, seed):
        rng, buffer = np.random.default_rng(seed), kind(50, num_steps=num_steps)
        for number in range(40):
            env_id = int(rng.integers(2))
            ended = rng.random()
            step(buffer, number, ended < 0.15, env_id)
            if 0.15 <= ended < 0.3:
                buffer.stop_current_episode(env_id)
        return len(buffer), items(buffer)

    for num_steps in (1, 2, 5):
        for seed in range(5):
            same(lambda kind, n=num_steps, s=seed: work(kind, n, s))


def check_a_full_buffer_drops_its_oldest_items():
    for capacity in (1, 3, 10):
        for count in (0, 1, 9, 10, 11, 35):
            same(lambda kind, c=capacity, n=count: (len(b := filled(kind, n, c)), b.capacity, items(b)))


def check_too_many_or_too_few_items_are_refused():
    for count, n in ((0, 1), (1, 2), (4, 5), (10, 11)):
        assert same(lambda kind, c=count, k=n: failure(lambda: filled(kind, c).sample(k))) == "AssertionError"
    assert same(lambda kind: failure(lambda: kind(5, num_steps=0))) == "AssertionError"
    assert same(lambda kind: failure(lambda: kind(5, alpha=-1))) == "AssertionError"
    same(lambda kind: len(filled(kind, 4).sample(4)))


def check_sample_and_update_take_turns():
    def twice(kind):
        buffer = filled(kind, 6)
        buffer.sample(2)
        first = failure(lambda: buffer.sample(2))
        wrong = failure(lambda: buffer.update_errors([0.1]))
        buffer.update_errors([0.1, 0.2])
        return (
            first,
            wrong,
            failure(lambda: buffer.update_errors([0.1, 0.2])),
            failure(lambda: buffer.sample(2)),
        )

    assert same(twice) == ("AssertionError", "AssertionError", "AssertionError", "")
    assert same(lambda kind: bool(failure(lambda: filled(kind, 6).update_errors([0.1]))))


def check_an_agent_that_sends_no_errors_is_named():
    buffer = filled(PrioritizedReplayBuffer, 6)
    buffer.sample(2)
    said = message(lambda: buffer.sample(2), AssertionError)
    assert "DQN and its descendants" in said
    assert "pfrl.replay_buffers.ReplayBuffer" in said


def check_an_actor_critic_agent_does_not_train_unprioritised():
    def train(kind):
        policy = torch.nn.Sequential(torch.nn.Linear(2, 1), pfrl.policies.DeterministicHead())
        q_function = torch.nn.Sequential(pfrl.nn.ConcatObsAndAction(), torch.nn.Linear(3, 1))
        agent = agents.DDPG(
            policy,
            q_function,
            torch.optim.Adam(policy.parameters()),
            torch.optim.Adam(q_function.parameters()),
            kind(100),
            gamma=0.9,
            explorer=explorers.AdditiveGaussian(0.1, -1, 1),
            replay_start_size=4,
            minibatch_size=4,
        )
        for _ in range(9):
            agent.act(np.zeros(2, np.float32))
            agent.observe(np.zeros(2, np.float32), 0.0, False, False)

    assert same(lambda kind: failure(lambda: train(kind))) == "AssertionError"


def check_priorities():
    errors = [0.0, 0.3, 0.9, 2.5, -1.0]
    for options in (
        {},
        {"error_max": None},
        {"error_min": 0.2, "error_max": 0.5},
        {"alpha": 0.0, "eps": 1.0},
    ):
        own, ours = (kind(10, **options).priority_from_errors(errors) for kind in BOTH)
        np.testing.assert_allclose(ours, own)
    own, ours = (kind(10, error_min=None, error_max=None).priority_from_errors(errors[:4]) for kind in BOTH)
    np.testing.assert_allclose(ours, own)


def check_weights_of_given_probabilities():
    probabilities = np.array([0.1, 0.02, 0.4])
    for normalisation in (True, "batch", False):
        buffers = [filled(kind, 7, normalize_by_max=normalisation, betasteps=5) for kind in BOTH]
        for _ in range(7):  # beta grows to 1
            own, ours = (buffer.weights_from_probabilities(probabilities, 0.02) for buffer in buffers)
            np.testing.assert_allclose(ours, own)
            assert buffers[0].beta == buffers[1].beta


def check_weights_are_those_of_the_priorities():
    for normalisation in (True, False):
        # Only ours: in PFRL's, an item that was drawn has no priority until its error comes back.
        buffer = filled(
            PrioritizedReplayBuffer, 8, capacity=8, alpha=0.5, normalize_by_max=normalisation, beta0=1.0
        )
        updated = set()
        for _ in range(40):
            sampled = [steps[0]["action"] for steps in buffer.sample(4)]
            buffer.update_errors([0.1 * (number + 1) for number in sampled])
            updated.update(sampled)
        assert updated == set(range(8))
        priority = [(0.1 * (number + 1) + 0.01) ** 0.5 for number in range(8)]
        sampled = [steps[0] for steps in buffer.sample(4)]
        raw = np.array([sum(priority) / (8 * priority[step["action"]]) for step in sampled])
        expected = raw / raw.max() if normalisation else raw
        np.testing.assert_allclose([step["weight"] for step in sampled], expected, rtol=1e-5)


def check_save_and_load():
    def work(kind, saved, into):
        path = Path(tempfile.mkdtemp()) / "buffer"
        original, other = filled(kind, *saved), filled(kind, *into)
        original.sample(2)
        original.update_errors([0.5, 0.9])
        original.save(path)
        other.load(path)
        found = len(other), items(other), other.memory.max_priority == original.memory.max_priority
        step(other, 99)
        return *found, len(other), items(other), len(other.sample(2))

    for saved in ((5, 10), (10, 10), (25, 10)):
        for into in ((0, 10), (7, 10), (3, 4), (3, 30)):
            same(lambda kind, s=saved, i=into: work(kind, s, i))


def check_a_loaded_memory_continues_its_draws():
    path = Path(tempfile.mkdtemp()) / "buffer"
    original = filled(PrioritizedReplayBuffer, 10, fanout=4)
    other = PrioritizedReplayBuffer(10, fanout=16, alpha=0.1)
    original.save(path)
    other.load(path)
    for _ in range(5):
        drawn = [[steps[0]["action"] for steps in buffer.sample(4)] for buffer in (original, other)]
        assert drawn[0] == drawn[1]
        for buffer in (original, other):
            buffer.memory.set_last_priority(np.array([0.1, 0.2, 0.3, 0.4]))


def check_files_of_another_kind_are_refused():
    path = Path(tempfile.mkdtemp()) / "buffer"
    for kind in (OWN, replay_buffers.ReplayBuffer):
        filled(kind, 5).save(path)
        buffer = filled(PrioritizedReplayBuffer, 3)
        said = message(partial(buffer.load, path), ValueError)
        assert "allowed: a file that this class saved" in said
        assert len(buffer) == 3


def check_deep_copies_are_independent():
    def work(kind):
        original = filled(kind, 6, num_steps=2)
        copied = copy.deepcopy(original)
        step(copied, 50)
        found = len(original), len(copied), items(original), items(copied)
        step(original, 60)
        return *found, items(original), items(copied)

    same(work)
    ours = filled(PrioritizedReplayBuffer, 6)
    copied = copy.deepcopy(ours)
    drawn = [[steps[0]["action"] for steps in buffer.sample(5)] for buffer in (ours, copied)]
    assert drawn[0] == drawn[1]


def check_pickles_of_the_memory():
    same(lambda kind: len(pickle.loads(pickle.dumps(filled(kind, 5).memory))))
    same(
        lambda kind: bool(failure(lambda: pickle.dumps(filled(kind, 5))))
    )  # PFRL's buffer holds a local function


def check_what_is_not_offered_is_refused_by_name():
    for options, said in (
        ({"normalize_by_max": "memory"}, "normalize_by_max: found 'memory'; allowed: True, 'batch', False"),
        ({"capacity": None}, "capacity: found None; allowed: a number"),
        ({"fanout": 1}, "fanout: found 1; allowed: 2 to 256"),
    ):
        assert said in message(partial(PrioritizedReplayBuffer, **{"capacity": 5} | options), ValueError)


def check_a_dqn_saves_and_goes_on():
    def train(kind):
        pfrl.utils.set_random_seed(0)
        rng, exploration = np.random.default_rng(0), np.random.default_rng(0)
        q_function = q_functions.FCStateQFunctionWithDiscreteAction(
            2, 2, n_hidden_layers=1, n_hidden_channels=4
        )
        agent = agents.DoubleDQN(
            q_function,
            torch.optim.Adam(q_function.parameters()),
            kind(100, num_steps=2),
            gamma=0.9,
            explorer=explorers.ConstantEpsilonGreedy(0.5, lambda: int(exploration.integers(2))),
            replay_start_size=8,
            minibatch_size=4,
        )

        def go_on(steps):
            for _ in range(steps):
                agent.act(rng.random(2, dtype=np.float32))
                ended = rng.random() < 0.2
                agent.observe(rng.random(2, dtype=np.float32), rng.random(), ended, ended)

        go_on(30)
        path = Path(tempfile.mkdtemp()) / "buffer"
        agent.replay_buffer.save(path)
        agent.replay_buffer.load(path)
        go_on(30)
        return len(agent.replay_buffer), agent.optim_t

    same(train)
