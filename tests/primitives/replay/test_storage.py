import tracemalloc

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placerl.primitives.replay import FieldSpec, Storage, transition_fields
from tests.primitives.replay.batches import numbered_batch


@given(capacity=st.integers(1, 20), sizes=st.lists(st.integers(1, 20), max_size=12))
def test_holds_the_newest_items_like_a_bounded_deque(capacity: int, sizes: list[int]) -> None:
    storage = Storage(capacity, {"x": FieldSpec((2,), np.int32)})
    rows: dict[int, int] = {}
    inserted = 0
    for n in (min(size, capacity) for size in sizes):
        numbers = np.arange(inserted, inserted + n)
        indices = storage.insert(numbered_batch(storage, numbers))
        assert indices.dtype == np.int64
        rows.update(zip(indices.tolist(), numbers.tolist(), strict=True))
        inserted += n
    assert len(storage) == min(capacity, inserted)
    assert sorted(rows.values()) == list(range(max(0, inserted - capacity), inserted))
    got = storage.gather(np.array(list(rows), np.int64))
    np.testing.assert_array_equal(got["x"], np.repeat(list(rows.values()), 2).reshape(-1, 2))


def test_transition_columns_have_their_dtypes() -> None:
    fields = transition_fields(FieldSpec((4, 84, 84), np.uint8), FieldSpec((2,), np.float32), discount=True)
    storage = Storage(4, fields)
    assert {name: column.dtype for name, column in storage.columns.items()} == {
        "observation": np.uint8,
        "action": np.float32,
        "reward": np.float32,
        "next_observation": np.uint8,
        "terminated": np.bool_,
        "discount": np.float32,
    }
    batch = storage.gather(storage.insert(numbered_batch(storage, [200, 3])))
    assert batch["observation"].dtype == np.uint8
    assert (batch["observation"][0] == 200).all()


def test_takes_at_most_a_tenth_more_than_the_raw_data() -> None:
    capacity, n = 100_000, 10_000
    fields = transition_fields(FieldSpec((64,), np.uint8), FieldSpec((), np.int64))
    raw_bytes = capacity * (64 + 8 + 4 + 64 + 1)
    tracemalloc.start()
    try:
        storage = Storage(capacity, fields)
        for first in range(0, capacity, n):
            storage.insert(numbered_batch(storage, np.arange(first, first + n)))
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert storage.nbytes == raw_bytes
    assert raw_bytes <= held_bytes <= 1.1 * raw_bytes


def test_takes_physical_memory_only_as_it_fills() -> None:
    process = psutil.Process()
    before_bytes = process.memory_info().rss
    storage = Storage(1_000_000, {"frame": FieldSpec((1024,), np.uint8)})
    storage.insert(numbered_batch(storage, np.arange(10)))
    assert storage.nbytes == 1_024_000_000
    assert process.memory_info().rss - before_bytes < 100_000_000


def test_gather_fills_the_arrays_given(storage: Storage) -> None:
    storage.insert(numbered_batch(storage, np.arange(5)))
    out = storage.allocate(3)
    got = storage.gather([4, 0, 4], out)
    assert got["observation"] is out["observation"]
    np.testing.assert_array_equal(out["action"], [4, 0, 4])


@pytest.mark.parametrize(
    ("indices", "error"),
    [([5], ValueError), ([-1], ValueError), ([0.0], TypeError), ([[0]], ValueError)],
)
def test_gather_refuses_wrong_indices(storage: Storage, indices: list, error: type[Exception]) -> None:
    storage.insert(numbered_batch(storage, np.arange(5)))
    with pytest.raises(error, match="indices"):
        storage.gather(indices)


def test_gather_refuses_an_out_of_another_shape_dtype_or_name(storage: Storage) -> None:
    storage.insert(numbered_batch(storage, np.arange(5)))
    with pytest.raises(ValueError, match="out"):
        storage.gather([1], {"observation": np.empty((1, 3), np.float32)})
    with pytest.raises(ValueError, match="shape"):
        storage.gather([1], storage.allocate(2))
    out = storage.allocate(1)
    out["reward"] = np.empty(1, np.float64)
    with pytest.raises(TypeError):
        storage.gather([1], out)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"observation": np.zeros((2, 4), np.float32)}, ValueError),
        ({"reward": np.zeros((3,), np.float32)}, ValueError),
        ({"action": np.array([0.5, 1.0])}, TypeError),
        ({"reward": np.array([1j, 0])}, TypeError),
        ({"extra": np.zeros(2)}, ValueError),
    ],
)
def test_insert_refuses_a_batch_that_does_not_fit(
    storage: Storage, change: dict, error: type[Exception]
) -> None:
    batch = numbered_batch(storage, np.arange(2)) | change
    with pytest.raises(error, match="batch"):
        storage.insert(batch)
    assert len(storage) == 0
    assert not any(column.any() for column in storage.columns.values())


@pytest.mark.parametrize("n", [0, 9])
def test_insert_refuses_no_items_and_more_than_fit(storage: Storage, n: int) -> None:
    with pytest.raises(ValueError, match="allowed: 1 to 8"):
        storage.insert(numbered_batch(storage, np.arange(n)))


def test_insert_refuses_a_missing_column(storage: Storage) -> None:
    batch = numbered_batch(storage, np.arange(2))
    del batch["terminated"]
    with pytest.raises(ValueError, match="terminated"):
        storage.insert(batch)


def test_refuses_bad_capacity_and_fields() -> None:
    with pytest.raises(ValueError, match="capacity"):
        Storage(0, {"x": FieldSpec((), np.int8)})
    with pytest.raises(ValueError, match="fields"):
        Storage(1, {})
    with pytest.raises(TypeError, match="object"):
        Storage(1, {"x": FieldSpec((), object)})
