"""Arrays in shared memory: nothing overlaps, and a second mapping sees the same elements."""

import gc
import os

import numpy as np
import pytest

from placerl.harness.runtime.units.shared_arrays import SharedArrays
from placerl.primitives.replay import FieldSpec

FIELDS = {
    "flag": FieldSpec((), np.bool_),
    "line": FieldSpec((64,), np.uint8),
    "more": FieldSpec((65,), np.uint8),
    "matrix": FieldSpec((3, 5), np.float32),
    "none": FieldSpec((0, 4), np.float64),
    "last": FieldSpec((2,), np.int64),
}


def filled(arrays):
    for number, array in enumerate(arrays.values(), start=1):
        array[...] = number
    return arrays


def test_arrays_have_their_shapes_and_types_and_start_with_zeros():
    arrays = SharedArrays(FIELDS)
    assert list(arrays) == list(FIELDS)
    assert len(arrays) == 6
    for name, field in FIELDS.items():
        assert (arrays[name].shape, arrays[name].dtype) == (field.shape, np.dtype(field.dtype))
        assert not arrays[name].any()


def test_no_two_arrays_share_an_element_or_a_cache_line():
    arrays = filled(SharedArrays(FIELDS))
    for number, array in enumerate(arrays.values(), start=1):
        assert (array == (array.dtype.type(number))).all()
    starts = [array.__array_interface__["data"][0] for array in arrays.values()]
    assert all(start % 64 == 0 for start in starts)
    # A line for the flag, one for 64 bytes, two for 65, one for 60, none for none.
    assert [start - starts[0] for start in starts] == [0, 64, 128, 256, 320, 320]
    assert os.fstat(arrays.descriptor).st_size == 384


def test_another_mapping_of_the_memory_sees_the_elements_and_writes_them():
    first = filled(SharedArrays(FIELDS))
    second = SharedArrays(FIELDS, os.dup(first.descriptor))
    np.testing.assert_array_equal(second["last"], [6, 6])
    second["matrix"][1, 2] = 9
    assert first["matrix"][1, 2] == 9


def test_arrays_like_others_are_copies():
    made = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([True, False])}
    arrays = SharedArrays.like(made)
    for name, array in made.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
    made["a"][0] = 7
    assert arrays["a"][0, 0] == 0
    arrays.fill(made)
    assert arrays["a"][0, 0] == 7


@pytest.mark.parametrize("fields", [{}, {"none": FieldSpec((0,), np.int8)}])
def test_arrays_without_elements_have_memory_too(fields):
    arrays = SharedArrays(fields)
    assert len(arrays) == len(fields)
    arrays.close()


def test_closing_closes_the_file_once_and_arrays_stay():
    arrays = filled(SharedArrays(FIELDS))
    descriptor = arrays.descriptor
    arrays.close()
    assert arrays.descriptor == -1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    taken = os.open("/dev/null", os.O_RDONLY)  # whoever has the number now keeps it
    arrays.close()
    del arrays
    os.close(taken)


def test_a_child_does_not_inherit_the_file_unless_it_is_handed_to_it():
    assert not os.get_inheritable(SharedArrays(FIELDS).descriptor)


def test_arrays_that_could_not_be_made_close_nothing(monkeypatch):
    gc.collect()  # what other tests left behind closes its own files, and is not counted
    closed = []
    monkeypatch.setattr(os, "close", closed.append)
    with pytest.raises(AttributeError):
        SharedArrays({"no field": None})
    gc.collect()
    assert closed == []


def test_0_is_a_descriptor_as_any_other(monkeypatch):
    """Where standard input was closed, the memory may get its number."""
    closed = []
    arrays = SharedArrays(FIELDS)
    descriptor, arrays.descriptor = arrays.descriptor, 0
    with monkeypatch.context() as patch:
        patch.setattr(os, "close", closed.append)
        arrays.close()
    os.close(descriptor)
    assert closed == [0]
