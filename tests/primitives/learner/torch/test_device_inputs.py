"""Inputs gathered by a storage on a CUDA device; without one, by the CUDA backend on an array library of the host."""

import numpy as np
import pytest
import torch

from placerl.primitives import algorithms, learner
from placerl.primitives.learner.torch.device_inputs import DeviceInputs
from placerl.primitives.learner.torch.torch_backend import TorchLearner
from placerl.primitives.replay import FieldSpec, Storage, transition_fields
from placerl.primitives.replay.device import DeviceStorage
from tests.primitives.replay.batches import numbered_batch
from tests.primitives.replay.device.memories import memory

BATCH_SIZE = 8
FIELDS = transition_fields(FieldSpec((4,), np.float32), FieldSpec((), np.int64))


def storages(kind: str) -> tuple[Storage, DeviceStorage]:
    both = Storage(8, FIELDS), DeviceStorage(8, FIELDS, memory(kind))
    for storage in both:
        storage.insert(numbered_batch(storage, np.arange(8) % 3))
    return both


def learner_of(**options: object) -> TorchLearner:
    algorithm = algorithms.create(
        "dqn", observation_shape=(4,), action_size=3, hyperparameters={"target_interval": 2}
    )
    one = learner.create(algorithm, backend="torch", batch_size=BATCH_SIZE, **options)
    assert isinstance(one, TorchLearner)
    return one


def assert_same_steps(ours: TorchLearner, theirs: TorchLearner, kind: str, tolerance: float) -> None:
    host, resident = storages(kind)
    rng, out = np.random.default_rng(0), resident.allocate(BATCH_SIZE)
    for _ in range(4):
        indices, weights = rng.integers(0, 8, BATCH_SIZE), rng.random(BATCH_SIZE, dtype=np.float32)
        found = ours.step(resident.gather(indices, out), weights).td_errors
        expected = theirs.step(host.gather(indices), weights).td_errors
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", ["eager", "tuned"])
def test_steps_agree_on_the_stand_in(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = learner_of(mode=mode), learner_of(mode=mode)
    monkeypatch.setattr(TorchLearner, "place", ("cuda", 0))
    monkeypatch.setattr(DeviceStorage, "download", lambda *_: pytest.fail("the batch went to the host"))
    assert_same_steps(ours, theirs, "stand-in", 0.0)


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{"mode": "tuned"}, {"mode": "graph"}, {"mode": "graph", "streams": 2}])
def test_steps_agree_on_a_gpu(options: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeviceStorage, "download", lambda *_: pytest.fail("the batch went to the host"))
    assert_same_steps(learner_of(device="cuda", **options), learner_of(mode="eager"), "cuda", 1e-4)


@pytest.mark.gpu
def test_a_captured_step_takes_turns_with_batches_of_the_host() -> None:
    host, resident = storages("cuda")
    ours, theirs = learner_of(device="cuda", mode="graph"), learner_of(mode="eager")
    for step in range(6):
        indices = np.random.default_rng(step).integers(0, 8, BATCH_SIZE)
        found = ours.step((resident if step % 2 else host).gather(indices)).td_errors
        expected = theirs.step(host.gather(indices)).td_errors
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_tensors_are_views_at_aligned_bytes() -> None:
    columns = {"a": ((3,), torch.uint8), "b": ((2, 2), torch.float32), "c": ((2,), torch.int64)}
    tensors = DeviceInputs(columns, torch.device("cpu")).tensors
    assert {name: (tuple(one.shape), one.dtype) for name, one in tensors.items()} == columns
    begin = tensors["a"].data_ptr()
    assert [one.data_ptr() - begin for one in tensors.values()] == [0, 256, 512]


def test_on_the_cpu_there_is_no_place() -> None:
    assert learner_of().place is None
