"""Units answer in order, and say by name that they died or stalled."""

import sys
import threading
import time

import pytest

from placerl.harness.runtime.units.unit import Unit, UnitError
from tests.limits import LIMIT_S


def test_answers_come_in_order_from_another_thread():
    unit = Unit("doubler", lambda x: (2 * x, threading.get_ident()), depth=3)
    for x in range(3):
        unit.submit(x)
    answers = [unit.result() for _ in range(3)]
    assert [value for value, _ in answers] == [0, 2, 4]
    assert threading.get_ident() not in {thread for _, thread in answers}
    unit.close()


def test_a_unit_that_dies_says_its_name_and_error_to_everyone_after():
    def work(x):
        raise FloatingPointError(f"pole {x} fell")

    unit = Unit("actor", work)
    unit.submit(7)
    for _ in range(2):
        with pytest.raises(UnitError, match="actor: FloatingPointError: pole 7 fell") as error:
            unit.result()
    assert isinstance(error.value.__cause__, FloatingPointError)
    with pytest.raises(UnitError, match="actor: FloatingPointError"):
        unit.submit(8)
    unit.close()


def test_a_unit_that_stalls_says_so():
    go_on = threading.Event()
    unit = Unit("learner", lambda x: go_on.wait())
    unit.submit(1)
    with pytest.raises(UnitError, match="learner: stalled: no answer"):
        unit.result(limit_s=0.05)
    unit.submit(2)
    with pytest.raises(UnitError, match="learner: stalled: took no request"):
        unit.submit(3, limit_s=0.05)
    go_on.set()
    unit.close()


def test_closing_ends_the_thread_whatever_waits():
    before = set(threading.enumerate())
    busy = Unit("busy", lambda x: time.sleep(0.1), depth=2)
    busy.submit(1)
    busy.submit(2)
    idle = Unit("idle", lambda x: x)
    answered = Unit("answered", lambda x: x)
    answered.submit(1)
    answered.submit(2)  # whose answer finds the queue full
    for unit in (busy, idle, answered):
        unit.close()
        with pytest.raises(UnitError, match="closed"):
            unit.submit(3)
    assert set(threading.enumerate()) <= before


def test_a_queue_of_some_depth_takes_so_many_requests_and_no_more():
    go_on, begun = threading.Event(), threading.Event()

    def work(x):
        begun.set()
        go_on.wait()
        return x

    unit = Unit("learner", work, depth=2)
    unit.submit(0)
    assert begun.wait(LIMIT_S)
    unit.submit(1)
    unit.submit(2)
    with pytest.raises(UnitError, match=r"took no request for 0\.05 s"):
        unit.submit(3, limit_s=0.05)
    go_on.set()
    assert [unit.result() for _ in range(3)] == [0, 1, 2]
    unit.close()


def test_a_stall_is_not_a_failure():
    go_on = threading.Event()
    unit = Unit("learner", lambda x: go_on.wait() and x)
    unit.submit(7)
    with pytest.raises(UnitError, match=r"no answer for 0\.05 s"):
        unit.result(limit_s=0.05)
    go_on.set()
    assert unit.result() == 7
    unit.close()


def test_its_thread_has_its_name_and_holds_up_no_exit():
    unit = Unit("replay", lambda x: (threading.current_thread().name, threading.current_thread().daemon))
    unit.submit(1)
    assert unit.result() == ("replay", True)
    unit.close()


def test_work_that_ends_the_program_is_a_failure_and_no_stall():
    unit = Unit("actor", sys.exit)
    unit.submit("the simulator is gone")
    with pytest.raises(UnitError, match="actor: SystemExit: the simulator is gone"):
        unit.result()
    unit.close()
