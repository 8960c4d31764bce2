"""Checks of the replay in a device's memory, in SB3's environment; on the CPU the device is the host's C++.

What the buffer on the host is checked for, it is checked for too, except for views and errors that come later
(`DevicePrioritizedReplayBuffer`).
"""

import copy
import tempfile
import warnings
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import buffer_checks
import buffers
import numpy as np
import priority_checks
import torch
from buffers import ACTIONS, BOX
from models import ALGORITHMS, model
from refusals import raises
from stable_baselines3.common.running_mean_std import RunningMeanStd

from placerl.primitives.replay.adapters.sb3_adapter import DevicePrioritizedReplayBuffer
from placerl.primitives.replay.adapters.sb3_adapter.device_buffer import _normalized

NOT_SHARED = (
    "check_a_copy_without_a_seed_draws_from_numpys_global_generator",
    "check_td_errors_of_another_shape_and_nan_are_refused",
    "check_the_views_are_what_is_sampled",
)


@contextmanager
def on_a_device():
    """Let the other files' checks create buffers of this kind."""
    with ExitStack() as stack:
        for file in (buffers, buffer_checks, priority_checks):
            kind = mock.patch.object(file, "PrioritizedReplayBuffer", DevicePrioritizedReplayBuffer)
            stack.enter_context(kind)
        yield


def check_a_sequence_on_a_device(operations, **settings):
    with on_a_device():
        buffer_checks.check_a_sequence(operations, **settings)


def check_what_the_buffer_on_the_host_is_checked_for():
    shared = {
        name: check
        for file in (buffer_checks, priority_checks)
        for name, check in vars(file).items()
        if name.startswith("check_") and name not in (*NOT_SHARED, "check_a_sequence")
    }
    assert len(shared) > 10
    for check in shared.values():
        with on_a_device():
            check()


def filled(**options):
    """Return a buffer of 8 items."""
    buffer = DevicePrioritizedReplayBuffer(8, BOX, ACTIONS["box"], "cpu", seed=0, **options)
    for number in range(8):
        buffer.add(np.full((1, 3), number), np.full((1, 3), number), np.zeros((1, 2)), [0], [0], [{}])
    return buffer


def check_a_batch_is_the_memory_that_the_kernels_wrote():
    buffer = filled()
    batch = buffer.sample(4)
    memory = {tensor.untyped_storage().data_ptr() for tensor in (*batch[:3], batch.rewards, buffer.weights)}
    assert len(memory) == 1
    assert buffer.sample(4).observations.untyped_storage().data_ptr() not in memory


def check_a_td_error_that_is_not_finite_is_told_by_the_next_step():
    buffer = filled()
    with raises(ValueError, "td_errors: found shape (3,); allowed: (4,), (4, 1)"):
        buffer.sample(4)
        buffer.update_priorities(torch.ones(3))
    before = buffer.replay.priorities(range(8))
    buffer.update_priorities(torch.tensor([1.0, np.nan, 2.0, 3.0]))
    step = np.ones((1, 3)), np.ones((1, 3)), np.ones((1, 2)), [1], [0], [{}]
    with raises(ValueError, "td_errors: found one that is NaN"):
        buffer.add(*step)
    assert (buffer.rewards == 0).all()
    assert (buffer.replay.priorities(range(8)) == before).all()
    buffer.add(*step)
    assert buffer.rewards[0] == 1


def check_too_little_memory_of_a_cuda_device_is_said():
    buffer = filled()
    buffer._device = torch.device("cuda:1")
    free = mock.patch("torch.cuda.mem_get_info", return_value=(10**9, 8 * 10**9))
    with free as asked, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for needed_bytes in (10**9, 2 * 10**9):
            buffer._warn_of_memory(needed_bytes)
    asked.assert_called_with(torch.device("cuda:1"))
    (said,) = [str(warning.message) for warning in caught]
    assert said.startswith("Device cuda:1 does not have")
    assert said.endswith("2.00GB > 1.00GB")


def check_rows_without_an_item_add_nothing_to_n_step_returns():
    buffer = DevicePrioritizedReplayBuffer(8, BOX, ACTIONS["box"], "cpu", n_steps=3, gamma=0.5)
    storage = buffer.replay.storage
    storage.restore_columns({name: np.full_like(column, np.nan) for name, column in storage.columns.items()})
    for _ in range(2):
        buffer.add(np.zeros((1, 3)), np.zeros((1, 3)), np.zeros((1, 2)), [1], [0], [{}])
    batch = buffer._get_samples(np.array([0, 1]))
    assert batch.rewards.tolist() == [[1.5], [1.0]]
    assert batch.discounts.tolist() == [[0.25], [0.5]]


def check_the_host_does_not_wait_for_statistics(where):
    values = torch.linspace(-5, 5, 12, device=where).reshape(4, 3)
    vector, number = RunningMeanStd(shape=(3,)), RunningMeanStd()
    vector.update(np.random.default_rng(0).normal(3, 2, (5, 3)))
    number.update(np.random.default_rng(1).normal(1, 4, 5))
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = _normalized(values, vector, 1e-8, 2.0), _normalized(values, number, 1e-8, 2.0, centred=False)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    given = values.cpu().numpy().astype(np.float64)
    for tensor, kept, mean in zip(found, (vector, number), (vector.mean, 0.0), strict=True):
        expected = np.clip((given - mean) / np.sqrt(kept.var + 1e-8), -2, 2).astype(np.float32)
        np.testing.assert_allclose(tensor.cpu().numpy(), expected, rtol=1e-6)


def check_a_copy_needs_another_sample_before_priorities():
    buffer = filled()
    buffer.sample(4)
    with raises(RuntimeError, "update_priorities: found no sample"):
        copy.deepcopy(buffer).update_priorities(torch.ones(4))
    buffer.device = torch.device("cpu")  # as SB3 does on loading, for which nothing moves
    buffer.update_priorities(torch.ones(4))


def check_what_a_device_has_not_is_refused():
    with raises(ValueError, "device: found meta; allowed: cuda, cpu"):
        DevicePrioritizedReplayBuffer(8, BOX, ACTIONS["box"], "meta")
    with raises(TypeError, "beta: found function; allowed: a number, or a LinearSchedule"):
        filled(beta=lambda step: 0.5)


def check_every_algorithm_trains_and_goes_on_from_a_file():
    for algorithm, (_, kind) in ALGORITHMS.items():
        settings = {"n_envs": 2, "normalized": True, "n_steps": 3}
        settings |= {"replay_buffer_class": DevicePrioritizedReplayBuffer}
        trained = model(kind, algorithm, **settings)
        trained.learn(60)
        rows = np.arange(60)
        priorities = trained.replay_buffer.replay.priorities(rows)
        assert len(np.unique(priorities)) > 20
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "buffer"
            trained.save_replay_buffer(path)
            other = model(kind, algorithm, **settings)
            other.load_replay_buffer(path)
        loaded = other.replay_buffer
        assert np.array_equal(loaded.rewards, trained.replay_buffer.rewards)
        assert np.array_equal(loaded.replay.priorities(rows), priorities)
        assert loaded.replay.samples_drawn == trained.replay_buffer.replay.samples_drawn > 0
        other.learn(40, reset_num_timesteps=False)
        assert loaded.size() == 50
