"""A unit in a process answers as one in a thread does; when it ends, nothing of it is left."""

import os
import signal
import sys
import time

import cloudpickle
import numpy as np
import psutil
import pytest

from harness.runtime import process_unit
from harness.runtime.process_unit import ProcessUnit, close_all
from harness.runtime.shared_arrays import SharedArrays
from harness.runtime.unit import UnitError
from primitives.replay import FieldSpec

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def doubler():
    return lambda x: (2 * x, os.getpid())


def adder(arrays):
    def work(amount):
        arrays["sum"][...] += amount

    return work


def breaker():
    def work(x):
        raise FloatingPointError(f"pole {x} fell")

    return work


def sleeper():
    return lambda seconds: time.sleep(seconds)


def unmade():
    raise OSError("the simulator is gone")


def gone(pid):
    """Whether a process ends within a minute."""
    try:
        psutil.Process(pid).wait(60)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def test_answers_come_in_order_from_another_process():
    unit = ProcessUnit("doubler", doubler)
    for x in range(3):
        unit.submit(x)
    answers = [unit.result() for _ in range(3)]
    assert answers == [(0, unit.pid), (2, unit.pid), (4, unit.pid)]
    assert unit.pid != os.getpid()
    unit.close()
    assert gone(unit.pid)
    with pytest.raises(UnitError, match="doubler: closed"):
        unit.submit(3)
    unit.close()


def test_both_sides_see_the_same_arrays():
    arrays = SharedArrays({"other": FieldSpec((3,), np.uint8), "sum": FieldSpec((2, 2), np.float32)})
    unit = ProcessUnit("adder", adder, arrays)
    arrays["sum"][0] = 1
    unit.submit(2.5)
    unit.result()
    unit.close()
    np.testing.assert_array_equal(arrays["sum"], [[3.5, 3.5], [2.5, 2.5]])
    np.testing.assert_array_equal(arrays["other"], 0)


def test_an_error_in_its_work_is_told_by_name():
    unit = ProcessUnit("actor", breaker)
    unit.submit(7)
    for _ in range(2):
        with pytest.raises(UnitError, match="actor: FloatingPointError: pole 7 fell"):
            unit.result()
    unit.close()


def test_work_that_cannot_be_made_is_told_by_name():
    unit = ProcessUnit("actor", unmade)
    with pytest.raises(UnitError, match="actor: OSError: the simulator is gone"):
        unit.wait_until_ready()
    unit.close()


def test_a_process_that_is_killed_is_told_by_name():
    unit = ProcessUnit("learner 1", sleeper)
    unit.submit(1000)
    os.kill(unit.pid, signal.SIGKILL)
    with pytest.raises(UnitError, match="learner 1: its process was ended by SIGKILL"):
        unit.result()
    with pytest.raises(UnitError, match="learner 1: its process was ended by SIGKILL"):
        unit.submit(1)
    unit.close()


def test_one_that_stalls_is_told_by_name_and_killed():
    unit = ProcessUnit("learner", sleeper)
    unit.submit(1000)
    with pytest.raises(UnitError, match="learner: stalled: no answer for"):
        unit.result(limit_s=0.01)
    unit.close()
    assert gone(unit.pid)


def test_busy_ones_are_ended_together_not_one_after_the_other(monkeypatch):
    grace_s, number = 2.0, 6
    monkeypatch.setattr(process_unit, "_CLOSE_GRACE_S", grace_s)
    units = [ProcessUnit(f"actor {i}", sleeper) for i in range(number)]
    for unit in units:
        unit.submit(1000)
    begin_s = time.monotonic()
    close_all(units)
    # One after the other, they take at least this, on any machine; together, one grace and what killing takes.
    assert time.monotonic() - begin_s < number * grace_s
    assert not any(psutil.pid_exists(unit.pid) for unit in units)
    close_all(units)


def test_the_memory_has_no_name():
    arrays = SharedArrays({"x": FieldSpec((1000,), np.float64)})
    assert os.readlink(f"/proc/self/fd/{arrays.descriptor}") == "/memfd:placerl (deleted)"
    arrays.close()
    arrays.close()
    assert arrays["x"].sum() == 0  # what is in use stays
