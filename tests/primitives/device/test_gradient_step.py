"""How often the host waits for the device, and allocates there, in a gradient step with prioritised replay."""

import numpy as np
import pytest

from placerl.primitives import algorithms
from placerl.primitives.device import Device
from placerl.primitives.learner.device.executable import DeviceExecutable
from placerl.primitives.learner.graph_learner import GraphLearner
from placerl.primitives.replay import FieldSpec, PrioritizedReplay, transition_fields
from placerl.primitives.replay.device import DeviceStorage
from placerl.primitives.sum_tree.gpu.device_tree import DeviceSumTree
from tests.primitives.device.kinds import device_of
from tests.primitives.device.recording import Counts, RecordingDevice
from tests.primitives.replay.batches import numbered_batch

CAPACITY, BATCH_SIZE = 5000, 32


class Resident:
    """Sum tree, rows and learner of CartPole's size on one device."""

    def __init__(self, device: Device) -> None:
        algorithm = algorithms.create("dqn", observation_shape=(4,), action_size=2)
        fields = transition_fields(FieldSpec((4,), np.float32), FieldSpec((), np.int64))
        storage = DeviceStorage(CAPACITY, fields, device)
        self.replay = PrioritizedReplay(storage, DeviceSumTree(CAPACITY, 16, np.float32, device))
        self.replay.insert(numbered_batch(storage, np.arange(CAPACITY) % 2))
        self.learner = GraphLearner(
            algorithm,
            lambda graphs: DeviceExecutable(graphs, device),
            backend="opencl",
            device="cpu",
            batch_size=BATCH_SIZE,
            seed=0,
        )
        self.sample = self.replay.allocate(BATCH_SIZE)
        self.rng = np.random.default_rng(0)

    def step(self) -> np.ndarray:
        sample = self.replay.sample(BATCH_SIZE, self.rng, out=self.sample)
        outcome = self.learner.step(sample.batch, sample.weights)
        self.replay.update_priorities(sample.indices, outcome.td_errors)
        return outcome.td_errors


def counted(kind: str) -> Counts:
    device = RecordingDevice(device_of(kind))
    resident = Resident(device)
    for _ in range(2):
        resident.step()
    device.counts.reset()
    resident.step()
    return device.counts


@pytest.mark.parametrize("kind", ["host", "opencl"])
def test_round_trips_and_allocations_of_a_step(kind: str) -> None:
    """What a loop that stays on the device has to bring to 0; a change of a number here is to be meant.

    Uploads: prefixes and what their rounding took, indices (for the weights, the gather, the update), priorities,
    weights. Downloads: the total three times, indices, priorities, TD errors, two losses, what kernels noted.
    The host waits once for the gather that read the indices before.
    """
    counts = counted(kind)
    assert counts == Counts(allocations=7, uploads=7, downloads=9, waits=1, launches=10, replays=1)
    assert counts.round_trips == 17


def test_training_on_opencl_agrees_with_host_cpp() -> None:
    first, second = Resident(device_of("host")), Resident(device_of("opencl"))
    for _ in range(20):
        np.testing.assert_allclose(first.step(), second.step(), rtol=1e-5, atol=1e-5)
        assert first.sample.indices.tolist() == second.sample.indices.tolist()
