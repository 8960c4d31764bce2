"""A job on a local Ray cluster that is killed with -9: nothing of the cluster is left, and a restart goes on."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from placerl.harness.store.store import Store
from tests.faults.named_memory import held_by
from tests.limits import LIMIT_S

pytest.importorskip("ray", reason="needs the extra 'cluster'")

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1800)]
HERE = Path(__file__).parent

CELLS = """
    import sys
    from pathlib import Path

    import main_job
    from placerl.harness.plan import tiers
    from placerl.harness.cluster import cells
    from placerl.harness.cluster.connection import connected
    from placerl.harness.store.store import Store

    def told(done, total, what):
        print("told", what, flush=True)

    folder = Path(sys.argv[1])
    with connected("local"), Store.open(folder / "store.sqlite") as store:
        failed = cells.execute(store, tiers.tier("quick"), main_job.cells(folder, sys.argv[2:]), told)
    sys.exit(len(failed))
"""
TRAINING = """
    from placerl.harness import workloads as workload
    from placerl.harness.cluster.connection import connected
    from placerl.harness.cluster.training import ClusterTraining, Size
    from placerl.harness.mapping import Mapping

    with connected("local"):
        training = ClusterTraining(workload.load("cartpole-dqn"), Mapping.parse("native-native-cpu"), Size())
        training.warm_up()
        print("told", "warm", flush=True)
        training.advance(10**9)
"""


@pytest.fixture
def temporary(monkeypatch):
    """The folder of temporary files, of this test alone; its path is short, as Ray's sockets need it."""
    folder = Path(tempfile.mkdtemp(prefix="f", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def start(code, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(HERE)}  # of Ray's workers, too: for `main_job`
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def below_when_told(process, line):
    """All that it has started by the time that it says a line."""
    for said in process.stdout:
        if said == line:
            return psutil.Process(process.pid).children(recursive=True)
    raise AssertionError(f"ended without {line!r}")


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


def alive(processes):
    found = []
    for each in processes:
        try:
            if each.is_running() and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
        except psutil.NoSuchProcess:
            continue
    return found


def wait_until(true, explain):
    deadline_s = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline_s, explain()
        time.sleep(0.1)


def wait_gone(processes, files, folder):
    """Ray's processes notice by themselves that the driver is gone; the folder goes when they are."""

    def left():
        there = [path for path in folder.iterdir() if not path.name.startswith("torchinductor_")]  # a cache
        return alive(processes), there + [path for path in files if path.exists()]

    wait_until(lambda: not any(left()), left)


def test_a_killed_driver_of_cells_leaves_nothing_and_a_restart_completes(tmp_path, temporary):
    process = start(CELLS, tmp_path, "a", "c", "b=baseline")
    try:
        below_when_told(process, "told c\n")

        def baseline():
            return [
                each for each in psutil.Process(process.pid).children(recursive=True) if is_baseline(each)
            ]

        wait_until(lambda: process.poll() is not None or len(baseline()) >= 16, baseline)
        assert process.returncode is None
        below = psutil.Process(process.pid).children(recursive=True)
        files = held_by(below) | {Path(each.environ()["TMPDIR"]) for each in baseline()}
    finally:
        kill(process)
    wait_gone(below, files, temporary)
    with Store.open(tmp_path / "store.sqlite") as store:
        assert store.cells(1) == ["a", "c"]
    again = start(CELLS, tmp_path, "a", "b", "c")
    again.communicate(timeout=LIMIT_S)
    assert again.returncode == 0
    with Store.open(tmp_path / "store.sqlite", read_only=True) as store:
        assert set(store.cells(1)) == {"a", "b", "c"}
        assert len(store.runs()) == 1
    assert sorted((tmp_path / "done").read_text().split()) == ["a", "b", "c"], "none was measured twice"
    wait_gone([], set(), temporary)


def is_baseline(process):
    try:
        return "forks" in process.cmdline()
    except psutil.Error:
        return False


def test_a_killed_driver_of_a_training_leaves_nothing(temporary):
    process = start(TRAINING)
    try:
        below = below_when_told(process, "told warm\n")
        files = held_by(below)
    finally:
        kill(process)
    assert below
    wait_gone(below, files, temporary)
