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

from harness.store import Store

pytest.importorskip("ray", reason="needs the extra 'cluster'")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
LIMIT_S = 800  # only so that a broken run ends some day
HERE = Path(__file__).parent

CELLS = """
    import sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[1])
    import main_job
    from harness import tiers
    from harness.cluster import cells
    from harness.cluster.connection import connected
    from harness.progress import silent
    from harness.store import Store

    folder = Path(sys.argv[2])
    def told(done, total, what):
        print("told", what, flush=True)
    import cloudpickle
    cloudpickle.register_pickle_by_value(main_job)
    with connected("local"), Store.open(folder / "store.sqlite") as store:
        failed = cells.execute(store, tiers.tier("quick"), main_job.cells(folder, sys.argv[3:]), told)
    sys.exit(len(failed))
"""
TRAINING = """
    from harness import workload
    from harness.cluster.connection import connected
    from harness.cluster.training import ClusterTraining, Size
    from harness.mapping import Mapping

    with connected("local"):
        training = ClusterTraining(workload.load("cartpole-dqn"), Mapping.parse("native-native-cpu"), Size())
        training.warm_up()
        print("told a", flush=True)
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
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def kill_when_told(process, line):
    """SIGKILL once it has said a line; all that it had started."""
    for said in process.stdout:
        if said == line:
            break
    else:
        raise AssertionError(f"ended without {line!r}")
    below = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return below


def wait_gone(processes, folder):
    """Ray's processes notice by themselves that the driver is gone; the folder goes when they are."""
    deadline_s = time.monotonic() + LIMIT_S
    while any(
        each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in _there(processes)
    ) or any(folder.iterdir()):
        assert time.monotonic() < deadline_s, (list(_there(processes)), list(folder.iterdir()))
        time.sleep(0.1)


def _there(processes):
    return [each for each in processes if psutil.pid_exists(each.pid)]


def test_a_killed_driver_of_cells_leaves_nothing_and_a_restart_completes(tmp_path, temporary):
    shared = set(os.listdir("/dev/shm"))
    process = start(CELLS, HERE, tmp_path, "a", "c", "b=hang")
    try:
        below = kill_when_told(process, "told c\n")  # "b" hangs by then, or is about to
    finally:
        process.kill()
    assert len(below) > 3
    wait_gone(below, temporary)
    assert set(os.listdir("/dev/shm")) <= shared
    with Store.open(tmp_path / "store.sqlite") as store:
        kept = store.cells(1)
    assert "c" in kept
    assert "b" not in kept
    again = start(CELLS, HERE, tmp_path, "a", "b", "c")
    again.communicate(timeout=LIMIT_S)
    assert again.returncode == 0
    with Store.open(tmp_path / "store.sqlite", read_only=True) as store:
        assert set(store.cells(1)) == {"a", "b", "c"}
        assert len(store.runs()) == 1
    assert sorted((tmp_path / "done").read_text().split()) == ["a", "b", "c"], "none was measured twice"
    assert list(temporary.iterdir()) == []
    assert set(os.listdir("/dev/shm")) <= shared


def test_a_killed_driver_of_a_training_leaves_nothing(temporary):
    shared = set(os.listdir("/dev/shm"))
    process = start(TRAINING)
    try:
        below = kill_when_told(process, "told a\n")
    finally:
        process.kill()
    wait_gone(below, temporary)
    assert set(os.listdir("/dev/shm")) <= shared
