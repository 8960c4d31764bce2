"""Whatever happens to a run, nothing of it is left: no process, no thread, no memory with a name."""

import os
import signal
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import STRICT, Fusion, Loop, Schedule
from placerl.harness.mapping import Mapping
from tests.faults.training_soak import Reading, not_flat, readings
from tests.harness.runtime.trainings import replay_training
from tests.limits import LIMIT_S
from tests.processes import ends

pytestmark = pytest.mark.timeout(900)
NATIVE = Mapping.parse("native-native-cpu")
PROGRAM = """
import signal

from placerl.harness import workloads as workload
from placerl.harness.loop.schedule import Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.measured_run import start
from placerl.harness.runtime.resolve import resolve

signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
item = workload.override(workload.load("cartpole-dqn"), "training.actors", 2, "test")
training = start(resolve(Schedule(processes=2, overlap=8), item, Mapping.parse("torch-native-cpu")))
try:
    training.warm_up()
    print(*training._acting.pids, flush=True)
    training.advance(10**9)
finally:
    training.close()
    print("closed", flush=True)
"""


FREE = PROGRAM.replace(
    'Schedule(processes=2, overlap=8), item, Mapping.parse("torch-native-cpu")',
    'Schedule(), item, Mapping.parse("native-native-cpu"), loop="concurrent"',
).replace("*training._acting.pids, ", "")
"""The same with actors, replay manager and learner as threads that run free."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize(("program", "processes"), [(PROGRAM, 2), (FREE, 0)], ids=["processes", "concurrent"])
def test_ending_a_run_ends_its_actors(program, processes, number):
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdout=pipe, stderr=pipe, text=True) as run:
        try:
            pids = [int(pid) for pid in run.stdout.readline().split()]
            assert len(pids) == processes
            run.send_signal(number)
            output, errors = run.communicate(timeout=LIMIT_S)
        finally:
            run.kill()
    assert all(ends(pid) for pid in pids)
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

from placerl.harness.runtime.units import process as process_unit

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
    assert all(ends(pid) for pid in pids)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"presampled_batches": 10**6}, "presampled_batches: found 1000000; allowed: 0 to"),
        ({"presampled_batches": -1}, "presampled_batches: found -1; allowed: 0 to"),
        ({"processes": 2}, "actor processes: found 2; allowed: 0 to training.actors, 1"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(options, field):
    children = set(psutil.Process().children())
    with pytest.raises(UserError) as refused:
        replay_training(workloads.load("cartpole-dqn"), NATIVE, schedule=Schedule(**options))
    assert field in str(refused.value)
    assert set(psutil.Process().children()) <= children


FLAT = [Reading(100.0 + k % 3, 10**9 + 1000 * (k % 5), 12, 4) for k in range(80)]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("", lambda r, k: r),
        ("memory", lambda r, k: replace(r, resident_bytes=r.resident_bytes + 500_000 * k)),
        ("descriptors", lambda r, k: replace(r, descriptors=12 + k // 60)),
        ("threads", lambda r, k: replace(r, threads=4 + k // 60)),
        ("pace", lambda r, k: replace(r, gradient_steps_per_processor_s=100.0 - 0.3 * k)),
    ],
)
def test_each_leak_is_named(name, change):
    assert "".join(not_flat([change(reading, k) for k, reading in enumerate(FLAT)])) == name


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("schedule", "loop"),
    [
        *((Schedule(fusion=one), None) for one in (Fusion.ROUND, Fusion.STEP, Fusion.NONE)),
        (STRICT, Loop.CONCURRENT),
    ],
    ids=str,
)
def test_a_long_training_leaks_nothing_and_keeps_its_pace(schedule, loop):
    assert not_flat(list(readings(schedule, loop, 1200))) == {}
