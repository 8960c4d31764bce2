"""A unit in a process answers as one in a thread does; when it ends, nothing of it is left."""

import io
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import cloudpickle
import numpy as np
import psutil
import pytest

from placerl.harness.runtime.units import process
from placerl.harness.runtime.units.process import ProcessUnit, close_all
from placerl.harness.runtime.units.shared_arrays import SharedArrays
from placerl.harness.runtime.units.unit import UnitError
from placerl.primitives.replay import FieldSpec
from tests.limits import LIMIT_S
from tests.processes import ends

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


def environment_reader():
    return lambda name: os.environ.get(name)


def printer():
    return lambda words: print(words, flush=True)


def interrupted():
    raise KeyboardInterrupt


MAKER = """
import os
from placerl.harness.runtime.units.process import ProcessUnit

def sleeper():
    import time
    return time.sleep

unit = ProcessUnit("sleeper", sleeper)
unit.submit(1000)
print(unit.pid, flush=True)
os._exit(0)  # without closing anything
"""


def unmade():
    raise OSError("the simulator is gone")


def test_answers_come_in_order_from_another_process():
    unit = ProcessUnit("doubler", doubler)
    for x in range(3):
        unit.submit(x)
    answers = [unit.result() for _ in range(3)]
    assert answers == [(0, unit.pid), (2, unit.pid), (4, unit.pid)]
    assert unit.pid != os.getpid()
    unit.close()
    assert ends(unit.pid)
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
    assert ends(unit.pid)


def test_busy_ones_are_ended_together_not_one_after_the_other(monkeypatch):
    """On a clock that only waiting for a busy unit moves."""
    units = [ProcessUnit(f"actor {i}", sleeper) for i in range(3)]
    now_s, wait_for_end = 0.0, ProcessUnit.wait_for_end

    def wait(unit, limit_s=None):
        nonlocal now_s
        if limit_s is None:  # it was killed
            wait_for_end(unit)
        else:
            now_s += limit_s

    monkeypatch.setattr(process, "monotonic", lambda: now_s)
    monkeypatch.setattr(ProcessUnit, "wait_for_end", wait)
    for unit in units:
        unit.submit(1000)
    close_all(units)
    assert now_s == process._CLOSE_GRACE_S  # one after the other, three times that
    assert not any(psutil.pid_exists(unit.pid) for unit in units)
    close_all(units)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "its process ended with status 0"),
        (3, "its process ended with status 3"),
        (-1, "its process was ended by SIGHUP"),
        (-9, "its process was ended by SIGKILL"),
    ],
)
def test_how_a_process_ended_is_told_by_its_status_or_its_signal(status, words):
    unit = object.__new__(ProcessUnit)
    unit._process = SimpleNamespace(wait=lambda limit_s: status)
    assert unit._how_it_ended() == words


def test_a_process_that_has_not_ended_has_closed_its_connection():
    def wait(limit_s):
        raise subprocess.TimeoutExpired("python", limit_s)

    unit = object.__new__(ProcessUnit)
    unit._process = SimpleNamespace(wait=wait)
    assert unit._how_it_ended() == "its process closed the connection"


@pytest.mark.parametrize(("status", "killed"), [(None, True), (0, False), (-9, False)])
def test_only_a_process_that_has_not_ended_is_killed(status, killed):
    calls = []
    unit = object.__new__(ProcessUnit)
    unit._process = SimpleNamespace(poll=lambda: status, kill=lambda: calls.append("kill"))
    unit.kill()
    assert bool(calls) == killed


@pytest.mark.parametrize(("options", "expected"), [({}, "1"), ({"threads": 3}, "3")])
def test_its_libraries_compute_with_the_threads_that_it_is_given(options, expected):
    unit = ProcessUnit("reader", environment_reader, **options)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        unit.submit(name)
        assert unit.result() == expected
    unit.submit("HOME")
    assert unit.result() == os.environ.get("HOME"), "and have all else as it is here"
    unit.close()


def test_what_its_work_prints_is_no_part_of_the_command_s_own_output(capfd):
    unit = ProcessUnit("printer", printer)
    unit.submit("a simulator's greeting")
    unit.result()
    unit.close()
    told = capfd.readouterr()
    assert (told.out, told.err) == ("", "a simulator's greeting\n")


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError, EOFError])
def test_a_connection_that_breaks_says_how_the_process_ended(error):
    """The kernel says it one way or the other, by how far the process had come."""

    def fail(*_):
        raise error

    def broken():
        unit = object.__new__(ProcessUnit)
        unit.name, unit._ready, unit._failure = "learner", True, None
        unit._connection = SimpleNamespace(send=fail, recv=fail)
        unit._readable = SimpleNamespace(poll=lambda limit_ms: [(0, 1)])
        unit._process = SimpleNamespace(wait=lambda limit_s: -9)
        return unit

    told = "learner: its process was ended by SIGKILL"
    if error is not EOFError:  # of receiving alone
        with pytest.raises(UnitError, match=told):
            broken().submit(1)
    if error is not BrokenPipeError:  # of sending alone
        with pytest.raises(UnitError, match=told):
            broken().result()


@pytest.mark.parametrize("number", [0, 1, 7])
def test_a_stream_is_a_file_where_it_has_a_number(number):
    assert process._is_file(SimpleNamespace(fileno=lambda: number))


@pytest.mark.parametrize("error", [OSError, ValueError, AttributeError])
def test_a_stream_that_refuses_to_say_its_number_is_no_file(error):
    def fileno():
        raise error

    assert not process._is_file(SimpleNamespace(fileno=fileno))


class Told:
    """A unit that notes what it is told, and takes some of the time that all have to end."""

    def __init__(self, name, calls, clock, takes_s):
        self.name, self.calls, self.clock, self.takes_s = name, calls, clock, takes_s

    def ask_to_end(self):
        self.calls.append(f"{self.name} ask")

    def wait_for_end(self, limit_s=None):
        self.calls.append(f"{self.name} wait {limit_s}")
        self.clock[0] += self.takes_s if limit_s is None else min(limit_s, self.takes_s)

    def kill(self):
        self.calls.append(f"{self.name} kill")


def test_all_are_asked_first_then_share_one_grace_and_are_killed_after_it(monkeypatch):
    calls, clock = [], [100.0]
    monkeypatch.setattr(process, "monotonic", lambda: clock[0])
    monkeypatch.setattr(process, "_CLOSE_GRACE_S", 4.0)
    close_all([Told(name, calls, clock, takes_s=3.0) for name in "abc"])
    assert calls == [
        *("a ask", "b ask", "c ask"),
        *("a wait 4.0", "b wait 1.0", "c wait 0.0"),
        *("a kill", "b kill", "c kill"),
        *("a wait None", "b wait None", "c wait None"),
    ]


def test_who_comes_after_the_grace_is_over_is_not_waited_for(monkeypatch):
    calls, clock = [], [100.0]
    monkeypatch.setattr(process, "monotonic", lambda: clock[0])
    monkeypatch.setattr(process, "_CLOSE_GRACE_S", 4.0)
    late = Told("a", calls, clock, takes_s=9.0)
    late.wait_for_end = lambda limit_s=None: clock.__setitem__(0, clock[0] + 9.0)  # past its limit
    close_all([late, Told("b", calls, clock, takes_s=3.0)])
    assert "b wait 0.0" in calls


class Ended(Exception):
    """In place of the process's end."""


@pytest.fixture
def parent(monkeypatch):
    """A parent process that ends when the pipe is closed; `os._exit` is noted, and raises in this thread."""
    ended, running = os.pipe()
    there = SimpleNamespace(
        pid=1000, exits=queue.Queue(), end=lambda: os.close(running), own=threading.get_ident()
    )

    def leave(status):
        there.exits.put(status)
        if threading.get_ident() == there.own:
            raise Ended

    monkeypatch.setattr(os, "pidfd_open", lambda pid: ended)
    monkeypatch.setattr(os, "getppid", lambda: there.pid)
    monkeypatch.setattr(os, "_exit", leave)
    yield there
    os.close(ended)


def test_a_process_ends_when_its_parent_does_and_not_before(parent):
    before = set(threading.enumerate())
    process._end_with(1000)
    (waiting,) = set(threading.enumerate()) - before
    assert waiting.daemon, "it keeps no process from ending by itself"
    assert parent.exits.empty()
    parent.end()
    waiting.join(LIMIT_S)
    assert parent.exits.get_nowait() == 1


@pytest.mark.parametrize("adopted_by", [1, 999, 1001])
def test_a_process_whose_parent_ended_before_it_looked_ends_at_once(parent, adopted_by):
    parent.pid = adopted_by
    with pytest.raises(Ended):
        process._end_with(1000)
    parent.end()


def test_a_process_whose_parent_is_not_there_any_more_ends_at_once(parent, monkeypatch):
    def gone(pid):
        raise ProcessLookupError

    monkeypatch.setattr(os, "pidfd_open", gone)
    with pytest.raises(Ended):
        process._end_with(1000)
    parent.end()


def test_a_stream_without_a_number_is_none():
    assert not process._is_file(SimpleNamespace(fileno=lambda: -1))
    assert not process._is_file(io.StringIO())
    assert not process._is_file(None)


def test_errors_of_the_work_travel_as_text_and_answers_as_they_are():
    assert process._attempt(lambda: 7) == (7, None)
    assert process._attempt(lambda: None) == (None, None)
    assert process._attempt(lambda: 1 / 0) == (None, "ZeroDivisionError: division by zero")
    with pytest.raises(KeyboardInterrupt):
        process._attempt(interrupted)


def test_a_process_ends_with_the_one_that_made_it():
    maker = subprocess.run(
        [sys.executable, "-c", MAKER], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert maker.returncode == 0, maker.stderr
    assert ends(int(maker.stdout))


def test_the_memory_has_no_name():
    arrays = SharedArrays({"x": FieldSpec((1000,), np.float64)})
    assert os.readlink(f"/proc/self/fd/{arrays.descriptor}") == "/memfd:placerl (deleted)"
    arrays.close()
    arrays.close()
    assert arrays["x"].sum() == 0  # what is in use stays


def test_what_cannot_be_sent_is_told_by_name_before_a_process_starts(monkeypatch):
    started = []
    monkeypatch.setattr(process.subprocess, "Popen", lambda *arguments, **options: started.append(arguments))
    lock = threading.Lock()
    with pytest.raises(UnitError, match=r"^actor 3: cannot be sent to its process: TypeError: cannot pickle"):
        ProcessUnit("actor 3", lambda: lock)
    assert not started
