"""Storage on every device answers as the storage of the host does."""

import gc
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.primitives.device import Buffer, Event
from placerl.primitives.replay import FieldSpec, PrioritizedReplay, Storage, UniformReplay, transition_fields
from placerl.primitives.replay.device import DeviceBatch, DeviceStorage
from placerl.primitives.replay.device.packed_rows import Place
from tests.primitives.device.kinds import device_of
from tests.primitives.device.recording import Counts, RecordingDevice, RecordingEvent, RecordingStream
from tests.primitives.replay.batches import numbered_batch
from tests.primitives.replay.device.memories import every_memory, memory
from tests.primitives.replay.fake_tree import FakeTree

FIELDS = {
    "word": FieldSpec((3,), np.float32),
    "odd": FieldSpec((5,), np.uint8),
    "flag": FieldSpec((), np.bool_),
    "whole": FieldSpec((), np.int64),
    "short": FieldSpec((3,), np.int16),
    "double": FieldSpec((2, 2), np.float64),
    "nothing": FieldSpec((0,), np.float64),
}


def pair(kind: str, capacity: int = 8) -> tuple[Storage, DeviceStorage]:
    """The reference and the storage on a device."""
    return Storage(capacity, FIELDS), DeviceStorage(capacity, FIELDS, memory(kind))


def assert_equal(found: dict, expected: dict) -> None:
    assert list(found) == list(expected)
    for name, column in expected.items():
        assert found[name].dtype == column.dtype
        np.testing.assert_array_equal(found[name], column, err_msg=name)


@every_memory
@settings(max_examples=25, deadline=None)
@given(capacity=st.integers(1, 20), sizes=st.lists(st.integers(1, 20), max_size=8), seed=st.integers(0, 99))
def test_holds_and_gathers_what_the_reference_does(
    kind: str, capacity: int, sizes: list[int], seed: int
) -> None:
    reference, storage = pair(kind, capacity)
    rng, inserted, out = np.random.default_rng(seed), 0, storage.allocate(7)
    earlier: list[tuple[dict, DeviceBatch]] = []
    for n in (min(size, capacity) for size in sizes):
        numbers = np.arange(inserted, inserted + n)
        rows = [made.insert(numbered_batch(made, numbers)) for made in (reference, storage)]
        np.testing.assert_array_equal(*rows)
        inserted += n
        assert (len(storage), storage.cursor) == (len(reference), reference.cursor)
        indices = rng.integers(0, len(reference), 7)
        expected = reference.gather(indices)
        assert_equal(storage.gather(indices, storage.allocate(7)), expected)
        assert_equal(storage.gather(indices, out), expected)
        earlier.append((expected, storage.gather(indices)))
    assert_equal(storage.columns, reference.columns)
    assert storage.nbytes == reference.nbytes
    for expected, batch in earlier:  # whose rows may have been overwritten since
        assert_equal(batch, expected)


@every_memory
def test_a_batch_keeps_its_items_when_they_are_overwritten(kind: str) -> None:
    _, storage = pair(kind)
    storage.insert(numbered_batch(storage, np.arange(8)))
    read, unread = storage.gather([1, 2, 1]), storage.gather([0, 7, 3])
    assert read["whole"].tolist() == [1, 2, 1]
    storage.insert(numbered_batch(storage, np.arange(8, 16)))
    assert unread["whole"].tolist() == [0, 7, 3]
    assert read["whole"].tolist() == [1, 2, 1]
    assert storage.gather([1, 2, 1], read)["whole"].tolist() == [9, 10, 9]


@every_memory
def test_a_batch_that_nobody_holds_is_not_kept(kind: str) -> None:
    _, storage = pair(kind)
    storage.insert(numbered_batch(storage, np.arange(8)))
    storage.gather([0])
    held = storage.gather([1])
    gc.collect()
    assert list(storage._pending) == [held]


@every_memory
def test_a_batch_that_was_released_is_not_kept_and_cannot_be_read(kind: str) -> None:
    _, storage = pair(kind)
    storage.insert(numbered_batch(storage, np.arange(8)))
    trained_on, waiting = storage.gather([0, 1]), storage.gather([2, 3])
    storage.release(trained_on)
    storage.insert(numbered_batch(storage, np.arange(8, 16)))
    assert (trained_on._is_kept, waiting._is_kept) == (False, True)
    with pytest.raises(ValueError, match="nothing gathered"):
        trained_on["whole"]
    assert waiting["whole"].tolist() == [2, 3]
    assert storage.gather([4, 5], trained_on)["whole"].tolist() == [12, 13]
    storage.release(pair(kind)[0].allocate(2))  # arrays on the host


@every_memory
def test_gather_fills_arrays_of_the_host(kind: str) -> None:
    reference, storage = pair(kind)
    storage.insert(numbered_batch(storage, np.arange(5)))
    out = reference.allocate(3)
    got = storage.gather([4, 0, 4], out)
    assert got["word"] is out["word"]
    assert out["whole"].tolist() == [4, 0, 4]
    with pytest.raises(ValueError, match="shape"):
        storage.gather([1], out)
    with pytest.raises(ValueError, match="allowed: 1 items of this storage"):
        storage.gather([1], storage.allocate(2))
    with pytest.raises(ValueError, match="of this storage"):
        storage.gather([1], pair(kind)[1].allocate(1))


@every_memory
def test_a_batch_into_which_nothing_was_gathered(kind: str) -> None:
    _, storage = pair(kind)
    with pytest.raises(ValueError, match="nothing gathered"):
        storage.allocate(1)["whole"]
    with pytest.raises(ValueError, match="nothing gathered"):
        storage.allocate(1).read_into(None, {})
    with pytest.raises(KeyError):
        storage.allocate(1)["unknown"]
    assert len(storage.allocate(1)) == len(FIELDS)


@every_memory
@pytest.mark.parametrize(
    ("indices", "error"),
    [([5], ValueError), ([-1], ValueError), ([0.0], TypeError), ([[0]], ValueError)],
)
def test_gather_refuses_wrong_indices(kind: str, indices: list, error: type[Exception]) -> None:
    _, storage = pair(kind)
    storage.insert(numbered_batch(storage, np.arange(5)))
    with pytest.raises(error, match="indices"):
        storage.gather(indices)


@every_memory
def test_insert_refuses_what_does_not_fit_and_changes_nothing(kind: str) -> None:
    _, storage = pair(kind)
    storage.insert(numbered_batch(storage, [3]))
    for change in ({"odd": np.zeros((2, 5))}, {"flag": np.zeros(3, bool)}, {"more": np.zeros(2)}):
        with pytest.raises((TypeError, ValueError), match="batch"):
            storage.insert(numbered_batch(storage, [1, 2]) | change)
    assert (len(storage), storage.cursor) == (1, 1)
    assert storage.columns["whole"].tolist() == [3, *7 * [0]]


@every_memory
def test_too_large_for_the_device(kind: str) -> None:
    memory(kind)
    with pytest.raises(MemoryError):
        DeviceStorage(2**40, FIELDS, memory(kind))


@every_memory
def test_bounds_of_everything_inserted(kind: str) -> None:
    _, storage = pair(kind)
    for numbers in ([3, 4], np.arange(5, 13), [4]):
        storage.insert(numbered_batch(storage, numbers))
    assert storage.gather([0]).bounds("whole") == (3, 12)  # also of what is gone
    storage.insert(numbered_batch(storage, [1]) | {"word": np.full((1, 3), np.nan, np.float32)})
    storage.insert(numbered_batch(storage, [1]))
    assert np.isnan(storage.bounds["word"]).all()
    assert storage.bounds["double"] == (1, 12)


@every_memory
@pytest.mark.parametrize("make", [UniformReplay, lambda storage: PrioritizedReplay(storage, FakeTree(8))])
@pytest.mark.parametrize("items", [0, 5, 21])
def test_a_snapshot_is_the_hosts_and_goes_both_ways(kind: str, make, items: int, tmp_path: Path) -> None:
    replays = [make(storage) for storage in pair(kind)]
    for number in range(items):
        for replay in replays:
            replay.insert(numbered_batch(replay.storage, [number]))
    for position, replay in enumerate(replays):
        replay.save(tmp_path / str(position))
    assert (tmp_path / "0").stat().st_size == (tmp_path / "1").stat().st_size
    crossed = [make(storage) for storage in pair(kind)]
    for position, replay in enumerate(crossed):
        replay.insert(numbered_batch(replay.storage, np.arange(50, 58)))
        replay.load(tmp_path / str(1 - position))
    expected = replays[0].storage.columns
    held = {name: column[: min(items, 8)] for name, column in expected.items()}
    for replay in crossed:
        assert (len(replay), replay.storage.cursor) == (min(items, 8), items % 8)
        assert_equal({name: column[: min(items, 8)] for name, column in replay.storage.columns.items()}, held)
        replay.insert(numbered_batch(replay.storage, [70]))
        assert replay.storage.gather([items % 8])["whole"].tolist() == [70]


@every_memory
@pytest.mark.parametrize("prioritized", [False, True])
def test_a_replay_draws_the_same_items(kind: str, prioritized: bool) -> None:
    made = [
        PrioritizedReplay(storage, FakeTree(8)) if prioritized else UniformReplay(storage)
        for storage in pair(kind)
    ]
    for number in range(12):
        samples = []
        for replay in made:
            rng = np.random.default_rng(number)
            replay.insert(numbered_batch(replay.storage, [number]))
            samples.append(replay.sample(6, rng))
            replay.update_priorities(samples[-1].indices, rng.normal(size=6))
        np.testing.assert_array_equal(samples[0].indices, samples[1].indices)
        np.testing.assert_array_equal(samples[0].weights, samples[1].weights)
        assert_equal(samples[1].batch, samples[0].batch)


@every_memory
def test_one_thread_inserts_while_another_reads(kind: str) -> None:
    """Every item's columns hold its number, so that a torn item shows."""
    fields = transition_fields(FieldSpec((64,), np.float32), FieldSpec((), np.int64))
    storage = DeviceStorage(64, fields, memory(kind))
    storage.insert(numbered_batch(storage, np.arange(64)))

    def insert() -> None:
        for first in range(64, 64 + 16 * 60, 16):
            storage.insert(numbered_batch(storage, np.arange(first, first + 16)))

    thread = threading.Thread(target=insert)
    thread.start()
    rng, torn = np.random.default_rng(0), 0
    while True:
        batch = storage.gather(rng.integers(0, 64, 32))
        torn += int((batch["observation"] != batch["action"][:, None]).sum())
        torn += int((batch["next_observation"] != batch["reward"][:, None]).sum())
        if not thread.is_alive():
            break
    thread.join()
    assert torn == 0


@every_memory
def test_a_copy_on_the_device_keeps_the_items(kind: str) -> None:
    _, storage = pair(kind)
    storage.insert(numbered_batch(storage, np.arange(8)))
    batch = storage.gather([1, 6])
    batch.copy()
    assert not storage._pending, "nothing is left to do when the rows are overwritten"
    storage.insert(numbered_batch(storage, np.arange(8, 16)))
    assert batch["whole"].tolist() == [1, 6]
    with pytest.raises(ValueError, match="nothing gathered"):
        storage.allocate(1).copy()


class NotedEvent(RecordingEvent):
    """An event whose waits are noted with the stream's name."""

    def __init__(self, event: Event, name: object, noted: list[tuple[str, object]]) -> None:
        super().__init__(event, Counts())
        self._name, self._noted = name, noted

    def wait(self) -> None:
        self._noted.append(("wait", self._name))


class NotedStream(RecordingStream):
    """A stream whose uploads and waits are noted."""

    def __init__(self, device: "Noted", name: object) -> None:
        super().__init__(device, device_of("stand-in").stream())
        self._name, self._noted = name, device.noted

    def event(self) -> Event:
        return NotedEvent(super().event(), self._name, self._noted)

    def upload(self, buffer: Buffer, values: np.ndarray, offset_bytes: int = 0) -> None:
        super().upload(buffer, values, offset_bytes)
        self._noted.append(("upload", self._name))


class Noted(RecordingDevice):
    """Notes, in order, the streams whose gathers are waited for, and uploads."""

    def __init__(self) -> None:
        super().__init__(device_of("stand-in"))
        self.noted: list[tuple[str, object]] = []

    def stream(self) -> NotedStream:
        return NotedStream(self, None)

    def stream_at(self, address: int) -> NotedStream:
        return NotedStream(self, address)


def test_a_batch_is_filled_again_when_every_stream_has_read_it() -> None:
    """The indices that a gather reads are overwritten: also where a copy was made since."""
    rows = Noted()
    storage = DeviceStorage(8, FIELDS, rows)
    storage.insert(numbered_batch(storage, np.arange(8)))
    batch, target = storage.gather([1, 2]), rows.allocate(64)
    places = {"whole": Place(0, np.dtype(np.int64))}
    batch.read_into(target, places, stream=7)
    batch.read_into(target, places, stream=rows.stream_at(9))
    batch.copy()
    rows.noted.clear()
    storage.gather([3, 4], batch)
    assert set(rows.noted[:-1]) >= {("wait", 7), ("wait", 9)}
    assert rows.noted[-1] == ("upload", None)
    rows.noted.clear()
    storage.gather([5, 6], batch)
    assert rows.noted == [("upload", None)]


def test_a_stream_of_another_library_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = DeviceStorage(8, FIELDS, rows := Noted())
    storage.insert(numbered_batch(storage, np.arange(8)))
    opened: list[int] = []
    open_stream = rows.stream_at
    monkeypatch.setattr(rows, "stream_at", lambda address: (opened.append(address), open_stream(address))[1])
    for address in (7, 7, 9, 7):
        storage.gather([1]).read_into(rows.allocate(8), {"whole": Place(0, np.dtype(np.int64))}, address)
    assert opened == [7, 9]


@pytest.mark.parametrize("kind", ["host", "opencl"])
def test_an_address_names_no_stream_of_this_device(kind: str) -> None:
    _, storage = pair(kind)
    storage.insert(numbered_batch(storage, np.arange(8)))
    with pytest.raises(TypeError, match="stream: found 7; allowed on"):
        storage.gather([1]).read_into(None, {"whole": Place(0, np.dtype(np.int64))}, 7)
