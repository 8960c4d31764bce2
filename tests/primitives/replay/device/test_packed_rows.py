import numpy as np
import pytest

from placerl.primitives.replay.device.packed_rows import BYTES, FLAGS, WORDS, PackedRows, Place
from placerl.primitives.replay.storage import FieldSpec

FIELDS = {"a": FieldSpec((3,), np.uint8), "b": FieldSpec((), np.bool_), "c": FieldSpec((2,), np.float32)}


def test_columns_begin_at_words_and_rows_at_double_words() -> None:
    rows = PackedRows(FIELDS)
    assert [rows.dtype.fields[name][1] for name in FIELDS] == [0, 4, 8]
    assert rows.row_bytes == 16
    assert PackedRows({"a": FieldSpec((), np.int8)}).row_bytes == 8


def test_unpacking_gives_what_was_packed() -> None:
    rows = PackedRows(FIELDS)
    arrays = {
        "a": np.arange(6, dtype=np.uint8).reshape(2, 3),
        "b": np.array([True, False]),
        "c": np.arange(4, dtype=np.float32).reshape(2, 2),
    }
    packed = rows.pack(arrays)
    assert (packed.shape, packed.dtype) == ((2, 16), np.uint8)
    for name, array in rows.unpack(packed).items():
        assert array.dtype == arrays[name].dtype
        np.testing.assert_array_equal(array, arrays[name])


def test_the_table_of_a_gather() -> None:
    own = {name: np.dtype(field.dtype) for name, field in FIELDS.items()}
    table = PackedRows(FIELDS).table(
        {"c": Place(64, own["c"]), "b": Place(0, np.dtype(np.float32)), "a": Place(128, own["a"], 12)}
    )
    # first unit, byte in the row, bytes before the column and for each item, bytes of an item, kind
    assert table.values.tolist() == [
        [0, 8, 64, 0, 8, WORDS],
        [2, 4, 0, 0, 4, FLAGS],
        [3, 0, 128, 12, 3, BYTES],
    ]
    assert table.units == 2 + 1 + 3


def test_refuses_a_place_of_another_dtype() -> None:
    with pytest.raises(TypeError, match="c: found dtype float32; allowed: float64"):
        PackedRows(FIELDS).table({"c": Place(0, np.dtype(np.float64))})
