"""Checks of copies and states in RLlib's environment: both buffers go on from them as if nothing had happened."""

import copy
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from refusals import message, refused
from rllib_buffers import (
    Ours,
    Own,
    answer,
    chunk,
    contents,
    draws,
    filled,
    priorities,
    restored,
    same,
    trained,
)


def check_a_seed_repeats_the_draws():
    def drawn(seed):
        buffer = trained(Ours)
        return draws_of(Ours(20, seed=seed), buffer)

    assert drawn(1) == drawn(1) != drawn(2)
    assert not np.array_equal(Ours(4).rng.random(4), Ours(4).rng.random(4))
    same(lambda kind: draws(filled(kind)))


def draws_of(empty, buffer):
    state = buffer.get_state()
    del state["rng"]
    empty.set_state(state)
    return draws(empty, 32)


def check_a_copy_is_the_same_and_continues():
    for way in (copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer)), restored):

        def work(kind, way=way):
            buffer = trained(kind)
            buffer.sample(4)
            copied = way(buffer)
            if kind is Own:  # whose state has no generator
                copied.rng = copy.deepcopy(buffer.rng)
            for each in (buffer, copied):
                each.update_priorities(np.array([1.0, 2.0, 4.0, 8.0]))
                each.add(chunk(200, 3, "e2", start=5))
            assert draws(buffer, 16) == draws(copied, 16)
            assert contents(buffer) == contents(copied)
            return contents(buffer)

        same(work)


def check_a_state_does_not_change_when_the_buffer_goes_on():
    buffer, other = trained(Ours), Ours(20)
    before, state = contents(buffer), buffer.get_state()
    other.set_state(state)
    for going in (buffer, other):
        for _ in range(3):
            going.add(chunk(200, 2, "e2", start=len(going.episodes[-1])))
            answer(going, going.sample(4))
        again = Ours(20)
        again.set_state(state)
        assert contents(again) == before


def check_a_state_replaces_what_the_buffer_held():
    buffer = trained(Ours)
    other = filled(Ours, (1, 1, 2))
    other.set_state(buffer.get_state())  # RLlib's keeps the old episodes
    assert contents(other) == contents(buffer)
    assert draws(other, 16) == draws(buffer, 16)
    empty = Ours(20)
    other.set_state(empty.get_state())
    assert contents(other) == contents(empty)


def check_each_reads_the_state_of_the_other():
    for one, other in ((Own, Ours), (Ours, Own)):
        buffer = trained(one)
        read = restored(buffer, other)
        assert contents(read) == contents(buffer)
        read.rng = copy.deepcopy(buffer.rng)
        assert draws(read, 16) == draws(buffer, 16)
        assert (read._min_segment.min() == buffer._min_segment.min()) or Ours in (one, other)
    own, ours = trained(Own).get_state(), trained(Ours).get_state()
    for name in ("_sum_segment", "_min_segment"):
        np.testing.assert_array_equal(own[name][1:], ours[name][1:])
    assert set(own) == set(ours) - {"rng", "_awaiting"}


def check_a_state_before_an_update_tells_which_timesteps_were_evicted():
    buffer = filled(Ours, (10, 10))
    sampled = buffer.sample(256)
    buffer.add(chunk(200, 1, "evicts ten"))
    read = restored(buffer)
    for each in (buffer, read):
        answer(each, sampled)
    assert priorities(read) == priorities(buffer)


def check_a_state_of_another_capacity_is_refused_and_changes_nothing():
    assert same(lambda kind: refused(lambda: kind(100).set_state(filled(kind).get_state())))
    buffer = filled(Ours, (1,), capacity=100)
    before = contents(buffer)
    said = message(lambda: buffer.set_state(trained(Ours).get_state()), ValueError)
    assert "state: found a tree of 64 leaves; allowed: 256" in said
    assert contents(buffer) == before


LOAD = """
import pickle, sys
from placerl.primitives.replay.adapters import rllib_adapter
with open(sys.argv[1], "rb") as file:
    pickled, state = pickle.load(file)
restored = rllib_adapter.PrioritizedEpisodeReplayBuffer(20)
restored.set_state(state)
for buffer in (pickled, restored):
    print([int(step.get_actions(0)) for step in buffer.sample(16)])
"""


def check_another_process_continues():
    buffer = trained(Ours)
    path = Path(tempfile.mkdtemp()) / "buffer"
    path.write_bytes(pickle.dumps((buffer, buffer.get_state())))
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOAD, str(path)], capture_output=True, text=True, check=True
    )
    expected = str([step[2] for step in draws(buffer, 16)])
    assert done.stdout.splitlines() == [expected, expected], done.stdout
