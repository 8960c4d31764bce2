import os
import subprocess
import sys
import threading
import time

import pytest

from placerl.harness.measure import pace
from placerl.harness.measure.pace import Bracket, Pace, Piece, Readings
from tests.limits import LIMIT_S


def bracket(readings=(), switches=None, waited=None):
    """A bracket whose kernel takes these times; of each reading two runs are made."""
    now, times = [0.0], iter(readings)
    counts, waits = iter(switches or ()), iter(waited or ())

    def kernel():
        now[0] += next(times, 1.0)

    return Bracket(lambda: now[0], kernel, lambda: next(counts, 0), lambda: next(waits, 0.0))


def test_a_reading_is_the_faster_of_two_runs_and_stands_before_the_next_piece_too():
    made = bracket(readings=[1.0, 5.0, 3.0, 2.0, 4.0, 4.0])
    made.open()
    assert made.close() == Pace(1.5)
    assert made.close() == Pace(3.0)


def test_a_piece_that_the_scheduler_interrupted_is_marked():
    made = bracket(switches=[0, 1, 1, 1, 1])
    made.open()
    assert made.close().interrupted
    assert not made.close().interrupted


def test_what_a_thread_waited_for_a_core_belongs_to_the_piece_in_which_it_waited():
    made = bracket(waited=[1.0, 1.5, 1.75, 1.75, 1.75])
    made.open()
    assert made.close().waited_s == 0.5
    assert made.close().waited_s == 0.0


def test_what_was_waited_between_two_pieces_belongs_to_neither():
    made = bracket(readings=[1.0, 1.0, 3.0, 3.0], switches=[0, 1, 1, 1], waited=[1.0, 3.0, 3.5, 3.5])
    made.open()
    made.skip()
    assert made.close() == Pace(2.0, False, 0.5)


@pytest.mark.skipif(
    not os.path.exists("/proc/thread-self/schedstat"), reason="no scheduler's statistics here"
)
def test_a_thread_waits_while_another_process_has_its_core():
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # the process inherits it
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        before_s, start_s = pace.waited_s(), time.monotonic()
        while pace.waited_s() == before_s and time.monotonic() - start_s < LIMIT_S:
            pass
        assert pace.waited_s() > before_s
    finally:
        busy.kill()
        busy.wait()
        os.sched_setaffinity(0, cores)


def test_the_time_waited_is_the_second_number_in_nanoseconds(monkeypatch):
    monkeypatch.setattr(pace, "_THREAD", threading.local())
    monkeypatch.setattr(os, "open", lambda *_: 7)
    monkeypatch.setattr(os, "pread", lambda *at: {(7, 64, 0): b"9000000000 2500000000 3\n"}[at])
    assert pace.waited_s() == 2.5


@pytest.mark.parametrize(
    ("clock", "told"), [(time.perf_counter, Pace(0.0, True, 0.5)), (lambda: 0.0, Pace())]
)
def test_the_scheduler_counts_on_the_wall_s_clock_alone(clock, told, monkeypatch):
    switches, waits = iter([0, 1, 1]), iter([1.0, 1.5, 1.5])
    monkeypatch.setattr(pace, "_switches", lambda: next(switches))
    monkeypatch.setattr(pace, "waited_s", lambda: next(waits))
    made = Bracket(clock)
    made.open()
    assert made.close()[1:] == told[1:]


def test_without_the_scheduler_s_statistics_nothing_is_known_to_have_waited(monkeypatch):
    def missing(*_):
        raise OSError

    monkeypatch.setattr(pace, "_THREAD", threading.local())
    monkeypatch.setattr(os, "open", missing)
    assert pace.waited_s() == 0.0


def test_the_reading_at_full_speed_is_the_fastest_tenth_of_a_run_s():
    readings = Readings()
    assert readings.full_s == 0
    readings.add([Piece(1.0, 1, Pace(1.0))] * 20 + [Piece(1.0, 1, Pace(1.7))] * 80 + [Piece(1.0, 1)] * 50)
    assert len(readings.seconds) == 100
    assert readings.full_s == pytest.approx(1.0)


def test_full_speed_of_earlier_runs_is_remembered_where_enough_was_read():
    full_s = {}
    few = Readings([1.0] * (pace.FEWEST_READINGS - 1))
    few.remember(full_s, None)
    assert full_s == {}
    Readings([2.0] * pace.FEWEST_READINGS).remember(full_s, (0,))
    assert full_s == {(0,): 2.0}
    later = Readings([3.0] * pace.FEWEST_READINGS, earlier_s=2.0)
    assert later.full_s == 2.0
    stepped = 2.0 * (pace.AT_FULL_SPEED - 0.01)  # a step of the clock frequency is no slow core
    assert Readings([stepped] * pace.FEWEST_READINGS, earlier_s=2.0).full_s == stepped
    later.remember(full_s, (0,))
    assert full_s == {(0,): 2.0}
    Readings([1.5] * pace.FEWEST_READINGS, earlier_s=2.0).remember(full_s, (0,))
    assert full_s == {(0,): 1.5}
    assert Readings(earlier_s=2.0).full_s == 0.0


def test_brackets_on_the_wall_s_clock_share_what_they_remember():
    assert Bracket().full_s is Bracket().full_s
    assert Bracket(lambda: 0.0).full_s is not Bracket(lambda: 0.0).full_s
