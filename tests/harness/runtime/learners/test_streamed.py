"""A learner in several streams takes the steps of one, each stream with its part of a batch."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from placerl.harness import workloads
from placerl.harness.loop.schedule import Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.learners import streamed
from placerl.harness.runtime.learners.streamed import StreamedLearner, StreamedUpdates
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives.learner.torch.torch_backend import TorchLearner
from tests.harness.runtime.trainings import replay_training
from tests.marks import needs_opencl

SIZE = 9


@needs_opencl
@pytest.mark.parametrize("name", ["cartpole-dqn", "pendulum-sac"])
def test_streams_take_the_steps_of_one_learner(name):
    algorithm = algorithm_of(workloads.load(name))
    algorithm = replace(algorithm, network=replace(algorithm.network, hidden=(16,)))
    rng = np.random.default_rng(0)
    divided = StreamedLearner(algorithm, 2, batch_size=SIZE, seed=1)
    whole = TorchLearner(algorithm, batch_size=SIZE, seed=1)
    assert divided.updates.parts == (5, 4)
    for _ in range(3):
        batch = {
            column: rng.integers(0, algorithm.action_size, shape)
            if dtype is torch.int64
            else rng.random(shape, np.float32)
            for column, (shape, dtype) in algorithm.columns(SIZE).items()
        }
        weights = batch.pop("weight")
        mine, theirs = (made.step(batch, weights) for made in (divided, whole))
        np.testing.assert_allclose(mine.td_errors, theirs.td_errors, rtol=1e-3, atol=1e-4)
        for loss, value in theirs.losses.items():
            assert mine.losses[loss] == pytest.approx(value, rel=1e-3, abs=1e-4)
    for key, value in whole.parameters().items():
        np.testing.assert_allclose(divided.parameters()[key], value, rtol=1e-2, atol=2e-3)
    divided.close()


@needs_opencl
def test_closing_a_training_ends_the_threads_of_its_streams(short):
    training = replay_training(
        short("cartpole-dqn"), Mapping.parse("opencl-native-cpu"), schedule=Schedule(streams=2)
    )
    training.fill()
    training.take(1)
    threads = training.learner.updates._threads._threads
    assert threads
    training.close()
    assert not any(thread.is_alive() for thread in threads)


class Stream:
    """Returns the mean of its part's numbers as a gradient, and records what it was asked."""

    def __init__(self):
        self.asked = []

    def gradients(self, variant, number, state, batch, draws):
        self.asked.append((variant, number, state, len(draws["noise"])))
        mean = batch["x"].mean()
        return {"slope": mean}, mean, ()


def test_each_stream_has_its_part_and_the_step_s_next_gradient():
    streams = [Stream(), Stream(), Stream()]
    updates = StreamedUpdates(streams)
    updates.parts = (3, 2, 2)
    batch = {"x": torch.arange(7.0)}
    updates.begin("full", "state", batch, {"noise": torch.zeros(7)})
    for _ in range(2):
        gradients, value, _ = updates.gradients(None, {}, batch)
        assert gradients["slope"].item() == value.item() == pytest.approx(3.0)  # the mean of 0 to 6
    updates.begin("online", "next", batch, {"noise": torch.zeros(7)})
    updates.gradients(None, {}, batch)
    for stream, size in zip(streams, updates.parts, strict=True):
        assert stream.asked == [
            ("full", 0, "state", size),
            ("full", 1, "state", size),
            ("online", 0, "next", size),
        ]
    updates.close()


@pytest.mark.parametrize("streams", [1, 10])
def test_a_number_of_streams_that_is_none_or_more_than_samples_is_refused(streams, monkeypatch):
    monkeypatch.setattr(streamed, "PartGradients", lambda *_: pytest.fail("made before the check"))
    algorithm = algorithm_of(workloads.load("cartpole-dqn"))
    with pytest.raises(ValueError, match=f"streams: found {streams}; allowed: 2 to the batch size, 9"):
        StreamedLearner(algorithm, streams, batch_size=SIZE)
