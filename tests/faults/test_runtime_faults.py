"""Whatever happens to a run, nothing of it is left: no process, no thread, no memory with a name."""

import os
import signal
import subprocess
import sys
import threading

import psutil
import pytest

from harness import workloads
from harness.core.errors import UserError
from harness.mapping import Mapping
from harness.runtime import memory
from harness.runtime.options import Options
from harness.runtime.training import Training
from harness.runtime.units.unit import UnitError

pytestmark = pytest.mark.timeout(900)
NATIVE = Mapping.parse("native-native-cpu")
PROGRAM = """
import signal

from harness import workloads as workload
from harness.mapping import Mapping
from harness.runtime.options import Options
from harness.runtime.training import Training

signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
item = workload.override(workload.load("cartpole-dqn"), "training.actors", 2, "test")
training = Training(item, Mapping.parse("torch-native-cpu"), options=Options(processes=2, overlap=8))
try:
    training.warm_up()
    print(*training._acting.pids, flush=True)
    training.advance(10**9)
finally:
    training.close()
    print("closed", flush=True)
"""
LIMIT_S = 800  # only so that a broken run ends some day: a busy machine starts three processes in minutes


def gone(pid):
    """Whether a process has ended, or does so within the limit."""
    try:
        psutil.Process(pid).wait(LIMIT_S)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ending_a_run_ends_its_actors(number):
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=pipe, stderr=pipe, text=True) as run:
        try:
            pids = [int(pid) for pid in run.stdout.readline().split()]
            assert len(pids) == 2
            run.send_signal(number)
            output, errors = run.communicate(timeout=LIMIT_S)
        finally:
            run.kill()
    assert all(gone(pid) for pid in pids)
    if number == signal.SIGINT:
        assert output == "closed\n"
        assert errors.rstrip().endswith("KeyboardInterrupt")
        assert "UnitError" not in errors
    else:
        assert run.returncode == -signal.SIGKILL


WAITS_ON_A_CLOCK = """
import atexit
import subprocess
from unittest import mock

from harness.runtime.units import process as process_unit

wait, now_s = subprocess.Popen.wait, 0.0


def waited(process, timeout=None):
    global now_s
    if timeout is None:  # it was killed
        return wait(process)
    now_s += timeout  # it is stopped, and would not end
    raise subprocess.TimeoutExpired(process.args, timeout)


mock.patch.object(process_unit, "monotonic", lambda: now_s).start()
mock.patch.object(subprocess.Popen, "wait", waited).start()
atexit.register(lambda: print(now_s / process_unit._CLOSE_GRACE_S))
"""


@pytest.mark.slow
def test_ctrl_c_does_not_wait_for_one_busy_actor_after_the_other():
    """On a clock that only waiting for a process moves, so that no machine is too slow: they share one grace."""
    number = 4
    program = PROGRAM.replace('"training.actors", 2', f'"training.actors", {number}')
    program = WAITS_ON_A_CLOCK + program.replace("processes=2", f"processes={number}")
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdout=pipe, stderr=pipe, text=True) as run:
        pids = [int(pid) for pid in run.stdout.readline().split()]
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)  # busy for good: no request to end reaches it
            run.send_signal(signal.SIGINT)
            output, _ = run.communicate(timeout=LIMIT_S)
        finally:
            run.kill()
    assert len(pids) == number
    assert output == "closed\n1.0\n", "one after the other take four times that"
    assert all(gone(pid) for pid in pids)


def test_an_actor_that_dies_stops_the_run_by_name_and_nothing_is_left():
    threads = set(threading.enumerate())
    item = workloads.override(workloads.load("cartpole-dqn"), "training.actors", 2, "test")
    training = Training(item, NATIVE, options=Options(processes=2, overlap=8))
    training.warm_up()
    pids = training._acting.pids
    descriptors = [arrays.descriptor for arrays in training._acting._shared]
    os.kill(pids[0], signal.SIGKILL)
    with pytest.raises(UnitError, match="actor 0: its process was ended by SIGKILL"):
        training.advance(10**9)
    training.close()
    training.close()
    assert all(gone(pid) for pid in pids)
    assert set(threading.enumerate()) <= threads
    assert all(arrays.descriptor == -1 for arrays in training._acting._shared)
    assert min(descriptors) > 2


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"mapping": "nothing-native-cpu"}, "learner: found nothing"),
        ({"mapping": "native-nothing-cpu"}, "rmm: found nothing"),
        ({"mapping": "native-native-moon"}, "storage: found moon"),
        ({"mapping": "torch:cuda:99-native-cpu"}, "learner: found torch:cuda:99"),
        ({"presampled_batches": 10**6}, "presampled_batches: found 1000000; allowed: 0 to"),
        ({"presampled_batches": -1}, "presampled_batches: found -1; allowed: 0 to"),
        ({"processes": 2}, "actor processes: found 2; allowed: 0 to training.actors, 1"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(arguments, field):
    children = set(psutil.Process().children())
    mapping = Mapping.parse(arguments.pop("mapping", "native-native-cpu"))
    with pytest.raises(UserError) as refused:
        Training(workloads.load("cartpole-dqn"), mapping, options=Options(**arguments))
    assert field in str(refused.value)
    assert set(psutil.Process().children()) <= children


def test_more_than_the_memory_holds_is_refused(monkeypatch):
    item = workloads.override(workloads.load("cartpole-dqn"), "training.actors", 64, "test")
    storage_bytes = memory.needed_bytes(item, 32, 0, 0)
    free = type("Free", (), {"available": storage_bytes + 3 * memory.PROCESS_BYTES})
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    memory.check(item, 32, 0, processes=3)
    with pytest.raises(UserError, match="actor processes: found 4; allowed: at most 3"):
        memory.check(item, 32, 0, processes=4)
    free.available = storage_bytes - 1
    with pytest.raises(UserError, match=r"replay\.capacity: found .* GB of free memory"):
        Training(item, NATIVE, options=Options(processes=1))
