"""Checks of what SB3's own buffers do not have, in its environment: priorities, weights, and their copies."""

import copy
import io
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from buffers import ACTIONS, BOX, assert_same
from refusals import raises

from placerl.primitives.replay import LinearSchedule
from placerl.primitives.replay.adapters.sb3_adapter import PrioritizedReplayBuffer


def prioritized(**options):
    """Return a buffer of 50 items with priorities of their own."""
    torch.manual_seed(0)
    buffer = PrioritizedReplayBuffer(50, BOX, ACTIONS["box"], "cpu", **options)
    for number in range(50):
        buffer.add(np.full((1, 3), number), np.full((1, 3), number), np.zeros((1, 2)), [0], [0], [{}])
    for _ in range(20):
        buffer.sample(16)
        buffer.update_priorities(torch.rand(16, 1) * 9)
    return buffer


def check_reset_forgets_priorities_and_keeps_the_schedule():
    buffer = prioritized(beta=LinearSchedule(0.0, 1.0, 40))
    assert buffer.replay.max_priority > 1
    buffer.reset()
    assert (buffer.replay.max_priority, buffer.replay.beta) == (1, 0.5)
    with raises(RuntimeError, "sample"):
        buffer.update_priorities(torch.ones(16))


def check_a_copy_has_the_same_priorities_and_draws():
    original = prioritized(seed=1)
    stream = io.BytesIO()
    pickle.dump(original, stream)
    stream.seek(0)
    for buffer in (pickle.load(stream), copy.deepcopy(original)):
        rows = np.arange(50)
        assert np.array_equal(buffer.replay.priorities(rows), original.replay.priorities(rows))
        generator, expected = copy.deepcopy(buffer), copy.deepcopy(original)
        for _ in range(3):
            assert_same(expected.sample(8).observations, generator.sample(8).observations, "draws")
            assert torch.equal(expected.weights, generator.weights)
            assert expected.weights.min() < 0.999


def check_a_copy_without_a_seed_draws_from_numpys_global_generator():
    original = prioritized()
    again = pickle.loads(pickle.dumps(original))
    draws = []
    for buffer in (original, again, again):
        np.random.seed(5)  # noqa: NPY002 (what SB3 seeds)
        draws.append(buffer.sample(16).observations)
    assert torch.equal(draws[0], draws[1])
    assert torch.equal(draws[1], draws[2])
    assert not torch.equal(draws[2], again.sample(16).observations)


LOAD = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    buffer = pickle.load(file)
buffer.sample(4)
print(buffer.size(), buffer.observations[:, 0, 0].sum(), buffer.replay.priorities(range(50)).sum())
"""


def check_a_pickle_is_read_in_another_process():
    buffer = prioritized()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "buffer.pkl"
        path.write_bytes(pickle.dumps(buffer))
        done = subprocess.run(
            [sys.executable, "-P", "-c", LOAD, str(path)], capture_output=True, text=True, check=True
        )
    size, observations, priorities = map(float, done.stdout.split())
    assert (size, observations) == (50, sum(range(50)))
    assert priorities == buffer.replay.priorities(range(50)).sum()


def check_priorities_and_weights_are_those_of_the_paper():
    buffer = PrioritizedReplayBuffer(8, BOX, ACTIONS["box"], "cpu", alpha=0.5, beta=0.25, seed=0)
    for number in range(4):
        buffer.add(np.full((1, 3), number), np.zeros((1, 3)), np.zeros((1, 2)), [0], [0], [{}])
    buffer.sample(16)
    while len(np.unique(buffer._sampled)) < 4:
        buffer.sample(16)
    rows = buffer._sampled
    buffer.update_priorities(torch.tensor([1.0, 4.0, 9.0, 16.0])[rows])
    assert np.allclose(buffer.replay.priorities(range(4)), [1, 2, 3, 4], rtol=1e-5)
    drawn = buffer.sample(20_000).observations[:, 0].numpy().astype(int)
    assert np.allclose(np.bincount(drawn) / 20_000, np.array([1, 2, 3, 4]) / 10, atol=0.02)
    expected = ((drawn + 1.0) / 1) ** -0.25
    assert np.allclose(buffer.weights[:, 0].numpy(), expected, rtol=1e-4)


def check_an_array_of_td_errors_sets_the_priorities_that_a_tensor_sets():
    buffer = prioritized()
    buffer.sample(4)
    expected = None
    for td_errors in (torch.arange(4.0), torch.arange(4.0)[:, None], np.arange(4.0), np.arange(4.0)[:, None]):
        buffer.update_priorities(td_errors)
        priorities = buffer.replay.priorities(buffer._sampled)
        assert expected is None or (priorities == expected).all()
        expected = priorities


def check_td_errors_of_another_shape_and_nan_are_refused():
    buffer = prioritized()
    buffer.sample(4)
    nan = torch.tensor([1.0, 2.0, 3.0, float("nan")])
    for td_errors in (torch.ones(3), torch.ones(4, 2), torch.ones(2, 2), torch.ones(1, 4), nan):
        with raises(ValueError, "td_errors"):
            buffer.update_priorities(td_errors)
