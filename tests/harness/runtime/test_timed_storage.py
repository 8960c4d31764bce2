"""Storages count the seconds of their gathers and writes, for virtual time without those lost to other processes."""

import numpy as np
import pytest

from placerl.harness.measure import full_speed
from placerl.harness.runtime import timed_storage
from placerl.harness.runtime.timed_storage import TimedStorage
from placerl.primitives.replay import FieldSpec, Storage


def test_a_storage_counts_the_seconds_of_its_gathers_and_writes(monkeypatch):
    now_s = iter([10.0, 13.0, 20.0, 24.0, 30.0, 31.0, 40.0, 47.0])
    monkeypatch.setattr(timed_storage, "perf_counter", lambda: next(now_s))
    storage = TimedStorage(4, {"item": FieldSpec((), np.int64)})
    storage.insert({"item": np.array([5, 6])})
    assert (storage.write_s, storage.gather_s) == (3.0, 0.0)
    np.testing.assert_array_equal(storage.gather([1, 0])["item"], [6, 5])
    assert (storage.write_s, storage.gather_s) == (3.0, 4.0)
    storage.gather([0])
    storage.insert({"item": np.array([7])})
    assert (storage.write_s, storage.gather_s) == (3.0 + 7.0, 4.0 + 1.0)


@pytest.mark.parametrize(("without_waiting", "expected_s"), [(True, 2.0), (False, 32.0)])
def test_what_a_storage_waited_for_a_core_is_left_out_if_asked(monkeypatch, without_waiting, expected_s):
    clock = {"now_s": 100.0, "waited_s": 0.0}
    for module in (timed_storage, full_speed):
        monkeypatch.setattr(module, "perf_counter", lambda: clock["now_s"])
    monkeypatch.setattr(full_speed, "waited_s", lambda: clock["waited_s"])

    def interrupted(call):
        def slow(*arguments):
            clock["now_s"] += 2.0 + 30.0
            clock["waited_s"] += 30.0
            return call(*arguments)

        return slow

    for name in ("gather", "write"):
        monkeypatch.setattr(Storage, name, interrupted(getattr(Storage, name)))
    storage = TimedStorage(4, {"item": FieldSpec((), np.int64)})
    storage.without_waiting = without_waiting
    storage.insert({"item": np.array([5, 6])})
    storage.gather([1, 0])
    assert (storage.write_s, storage.gather_s) == (pytest.approx(expected_s), pytest.approx(expected_s))
