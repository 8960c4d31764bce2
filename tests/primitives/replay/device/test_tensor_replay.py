"""Prioritised replay whose batches are PyTorch tensors on the device, which the host neither copies nor waits for."""

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="a tensor needs PyTorch")

import torch

from placerl.primitives import device
from placerl.primitives.device import host
from placerl.primitives.replay import FieldSpec, LinearSchedule, transition_fields
from placerl.primitives.replay.device import tensor_replay
from placerl.primitives.replay.device.tensor_replay import TensorReplay
from placerl.primitives.replay.prioritized import importance_weights, item_priorities
from tests.primitives.device.kinds import device_of
from tests.primitives.device.recording import Counts, RecordingDevice
from tests.primitives.replay.batches import numbered_batch

CAPACITY = 100
FIELDS = transition_fields(FieldSpec((3, 5), np.uint8), FieldSpec((), np.int64))


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def where(request: pytest.FixtureRequest) -> Iterator[str]:
    device_of({"cpu": "host", "cuda": "cuda"}[request.param])
    return request.param


def filled(where: str, items: int = CAPACITY, **options: Any) -> TensorReplay:
    """A replay whose item k holds k, with priorities of their own."""
    replay = TensorReplay(CAPACITY, FIELDS, where, seed=3, **options)
    replay.insert(numbered_batch(replay.storage, np.arange(items)))
    for _ in range(10):
        indices = replay.sample(32).indices
        replay.update_priorities(1.0 + indices)
    return replay


def test_items_weights_and_priorities(where: str) -> None:
    beta = LinearSchedule(0.4, 1.0, 20)
    replay = filled(where, alpha=0.5, beta=beta, epsilon=0.25)
    for step, batch_size in enumerate((32, 7, 7, 1), 10):
        assert (replay.samples_drawn, replay.beta) == (step, beta(step))
        sample = replay.sample(batch_size)
        indices = sample.indices.cpu().numpy()
        expected = numbered_batch(replay.storage, indices)
        assert {name: tensor.device.type for name, tensor in sample.batch.items()} == dict.fromkeys(
            FIELDS, where
        )
        for name, column in sample.batch.items():
            np.testing.assert_array_equal(column.cpu(), expected[name], name)
            assert column.cpu().numpy().dtype == expected[name].dtype
        weights = importance_weights(replay.priorities(indices), 1.0, CAPACITY, beta(step))
        np.testing.assert_allclose(sample.weights.cpu(), weights, rtol=1e-6)
        td_errors = torch.linspace(-4, 4, batch_size, device=where)
        replay.update_priorities(td_errors)
        last = dict(zip(indices.tolist(), td_errors.cpu().numpy().astype(np.float64), strict=True))
        set_to = item_priorities(np.array([*last.values()]), 0.5, 0.25)
        np.testing.assert_allclose(replay.priorities([*last]), set_to, rtol=1e-6)


def test_draws_follow_the_priorities(where: str) -> None:
    replay = filled(where)
    draws, shares = 40_000, replay.priorities(np.arange(CAPACITY)).astype(float)
    shares /= shares.sum()
    counts = np.bincount(replay.sample(draws).indices.cpu().numpy(), minlength=CAPACITY)
    assert (np.abs(counts - draws * shares) < 5 * np.sqrt(draws * shares)).all()


def test_rows_are_gathered_by_tensors_and_arrays(where: str) -> None:
    replay = filled(where, 10)
    rows = np.array([7, 0, 7])
    expected = numbered_batch(replay.storage, rows)
    for indices in (rows, torch.from_numpy(rows).int(), torch.from_numpy(rows).to(where)):
        found = replay.gather(indices, "reward", "observation")
        assert [*found] == ["reward", "observation"]
        for name, column in found.items():
            np.testing.assert_array_equal(column.cpu(), expected[name])
    assert {name: len(column) for name, column in replay.gather(rows[:0]).items()} == dict.fromkeys(FIELDS, 0)
    with pytest.raises(ValueError, match="indices: found 10 to 10; allowed: 0 to 9"):
        replay.gather(np.array([10]))


def test_columns_of_every_size_are_where_pytorch_can_read_them(where: str) -> None:
    """A kernel that copies words, and a tensor's dtype, each want a multiple of their bytes."""
    fields = {
        "flags": FieldSpec((4,), np.bool_),
        "odd": FieldSpec((3,), np.int16),
        "flag": FieldSpec((), np.bool_),
        "even": FieldSpec((2,), np.int16),
        "nothing": FieldSpec((0,), np.float64),
        "double": FieldSpec((3,), np.float64),
        "word": FieldSpec((), np.float32),
    }
    replay = TensorReplay(CAPACITY, fields, where)
    replay.insert(numbered_batch(replay.storage, np.arange(CAPACITY)))
    for count in (*range(1, 9), 33):
        sample = replay.sample(count)
        indices = sample.indices.cpu().numpy()
        expected = numbered_batch(replay.storage, indices)
        for found in (sample.batch, replay.gather(sample.indices)):
            assert [*found] == [*fields]
            for name, column in found.items():
                np.testing.assert_array_equal(column.cpu(), expected[name], name)
        assert sample.weights.tolist() == [1.0] * count


def test_the_host_copies_nothing_and_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = RecordingDevice(device_of("host"))
    monkeypatch.setattr(device, "create", lambda kind, number: recording)
    replay = filled("cpu")
    for _ in range(2):  # the first use of a size allocates, and that of columns uploads where they are
        recording.counts.reset()
        sample = replay.sample(32)
        replay.update_priorities(sample.weights)
        replay.gather(sample.indices, "reward")
    assert recording.counts == Counts(launches=recording.counts.launches)
    assert len({one.untyped_storage().data_ptr() for one in (sample.weights, *sample.batch.values())}) == 1


def test_a_new_size_is_no_reason_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = RecordingDevice(device_of("host"))
    monkeypatch.setattr(device, "create", lambda kind, number: recording)
    replay = filled("cpu")
    replay.gather(np.arange(3), "reward")
    tables = len(replay.storage._tables)
    recording.counts.reset()
    for batch_size in range(1, 30):
        replay.gather(replay.sample(batch_size).indices, "reward")
    assert recording.counts.round_trips == 0
    assert len(replay.storage._tables) == tables


def test_memory_of_a_tensor_is_used_without_a_copy() -> None:
    tensor = torch.arange(5)
    assert host.create().adopted(tensor).ctypes.data == tensor.data_ptr()


def test_copies_continue(where: str) -> None:
    replay = filled(where, 70, beta=LinearSchedule(0.0, 1.0, 100))
    replay.insert(numbered_batch(replay.storage, np.arange(70, 120)))  # over the end of the ring
    replay.sample(8)
    for copied in (pickle.loads(pickle.dumps(replay)), copy.deepcopy(replay)):
        with pytest.raises(RuntimeError, match="update_priorities: found no sample; allowed: after `sample`"):
            copied.update_priorities(torch.ones(8))
        original = copy.deepcopy(replay)
        for step in range(3):
            samples = [one.sample(16) for one in (original, copied)]
            for name in ("indices", "weights"):
                assert torch.equal(*(getattr(sample, name) for sample in samples))
            assert torch.equal(*(sample.batch["observation"] for sample in samples))
            for one, sample in zip((original, copied), samples, strict=True):
                one.update_priorities(sample.weights + step)
                one.insert(numbered_batch(one.storage, np.arange(9) + step))
        assert (original.max_priority, original.beta) == (copied.max_priority, copied.beta)
        every = np.arange(CAPACITY)
        np.testing.assert_array_equal(original.priorities(every), copied.priorities(every))
    assert replay.to(where) is replay
    with pytest.raises(TypeError, match=r"copy\.copy: found TensorReplay"):
        copy.copy(replay)


def test_an_item_that_was_replaced_keeps_its_priority(where: str) -> None:
    replay = filled(where)
    indices = replay.sample(64).indices.cpu().numpy()
    replay.insert(numbered_batch(replay.storage, np.arange(60)))
    new = replay.max_priority
    replay.update_priorities(torch.full((64,), 1e-3, device=where))
    assert (replay.priorities(np.arange(60)) == np.float32(new)).all()
    assert (replay.priorities(indices[indices >= 60]) < 0.1).all()


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_td_error_that_is_not_finite_changes_nothing_and_is_told(where: str, wrong: float) -> None:
    replay = filled(where, 10)
    before, largest = replay.priorities(np.arange(10)), replay.max_priority
    replay.sample(4)
    replay.update_priorities(torch.tensor([1.0, wrong, 2.0, 3.0]))
    with pytest.raises(ValueError, match="td_errors: found one that is NaN"):
        replay.insert(numbered_batch(replay.storage, np.arange(1)))
    np.testing.assert_array_equal(replay.priorities(np.arange(10)), before)
    assert len(replay) == 10
    replay.insert(numbered_batch(replay.storage, np.arange(1)))
    assert (len(replay), replay.max_priority) == (11, largest)


def test_clear_removes_the_items_and_keeps_the_schedule(where: str) -> None:
    replay = filled(where, beta=LinearSchedule(0.0, 1.0, 100))
    replay.clear()
    assert (len(replay), replay.max_priority, replay.beta) == (0, 1.0, 0.1)
    with pytest.raises(ValueError, match="sample: found no item to draw"):
        replay.sample(1)
    replay.insert(numbered_batch(replay.storage, np.arange(3)))
    sample = replay.sample(50)
    assert set(sample.batch["reward"].tolist()) == {0.0, 1.0, 2.0}
    assert sample.weights.tolist() == [1.0] * 50


def test_another_stream_of_pytorchs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    device_of("host")
    replay = filled("cpu")
    monkeypatch.setattr(tensor_replay, "current_stream", lambda where: 0xABC)
    with pytest.raises(RuntimeError, match="stream: found PyTorch's current stream 0xabc; allowed: 0x0"):
        replay.sample(3)


@pytest.mark.gpu
def test_on_cuda_the_current_stream_orders_the_work() -> None:
    device_of("cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        replay = filled("cuda")
        for _ in range(20):
            sample = replay.sample(512)
            torch.testing.assert_close(sample.batch["reward"], sample.indices.float())
            replay.update_priorities(sample.weights)
    with pytest.raises(RuntimeError, match="stream: found PyTorch's current stream"):
        replay.sample(3)


def test_what_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    device_of("host")
    with pytest.raises(TypeError, match=r"fields\['name'\]: found dtype <U3; allowed: PyTorch's"):
        TensorReplay(3, {"name": FieldSpec((), "<U3")}, "cpu")
    with pytest.raises(ValueError, match="seed: found -1"):
        TensorReplay(3, FIELDS, "cpu", seed=-1)
    replay = filled("cpu")
    with pytest.raises(ValueError, match="batch_size: found 0"):
        replay.sample(0)
    replay.sample(4)
    with pytest.raises(ValueError, match=r"td_errors: found shape \(3,\); allowed: \(4,\)"):
        replay.update_priorities(torch.ones(3))
    monkeypatch.setattr(device, "unavailable_reason", lambda kind: f"no {kind}")
    with pytest.raises(device.base.BackendUnavailableError, match="device cuda is not available: no cuda"):
        TensorReplay(3, FIELDS, "cuda")
