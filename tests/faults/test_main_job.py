"""The main job under faults: the failure is named, what finished is kept, and a restart completes the rest."""

import json
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from placerl.harness.core.progress import silent
from placerl.harness.plan import execution
from placerl.harness.store.crash_marker import MAX_CRASHES
from placerl.harness.store.store import Store
from tests.faults import main_job
from tests.limits import LIMIT_S

pytestmark = pytest.mark.timeout(900)
PROGRAM = Path(main_job.__file__)


def start(folder, *words, **popen):
    command = [sys.executable, str(PROGRAM), str(folder), *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, **popen)


def ends(folder, *words, **popen):
    """Runs the job to its end; its exit status."""
    process = start(folder, *words, **popen)
    process.communicate(timeout=LIMIT_S)
    return process.returncode


def rows(folder):
    """The newest row of each cell."""
    with Store.open(folder / "store.sqlite", read_only=True) as store:
        (run,) = store.runs()
        return {name: store.measurements(run=run.id, cell=name)[0] for name in store.cells(run.id)}


def done(folder):
    return (folder / "done").read_text().split()


def assert_clean(folder):
    """Nothing lies about beside the store."""
    assert {path.name for path in folder.iterdir()} <= {"store.sqlite", "done"}


@pytest.mark.slow
def test_a_killed_job_goes_on_where_it_was(tmp_path):
    process = start(tmp_path, "a", "b=hang", "c")
    while process.stdout.readline() != "begun b\n":
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert set(rows(tmp_path)) == {"a"}
    assert ends(tmp_path, "a", "b", "c") == 0
    assert {name: row.status for name, row in rows(tmp_path).items()} == dict.fromkeys("abc", "ok")
    assert done(tmp_path) == ["a", "b", "c"], "a was not measured again"
    assert_clean(tmp_path)


@pytest.mark.slow
def test_a_cell_that_kills_the_job_each_time_costs_no_other_cell(tmp_path):
    for _ in range(MAX_CRASHES):
        assert ends(tmp_path, "a", "b=killed", "c") == -signal.SIGKILL
    assert ends(tmp_path, "a", "b=killed", "c") == 0
    stored = rows(tmp_path)
    assert stored["b"].status == "failed"
    assert f"the process died in it {MAX_CRASHES} times" in stored["b"].reason
    assert stored["c"].status == "ok"
    assert done(tmp_path) == ["a", "c"]
    assert ends(tmp_path, "a", "b", "c") == 0
    assert rows(tmp_path)["b#2"].status == "ok"
    assert_clean(tmp_path)


def test_a_cell_that_runs_out_of_memory_is_named_and_the_others_go_on(tmp_path):
    assert ends(tmp_path, "a", "b=memory", "c") == 0
    stored = rows(tmp_path)
    assert stored["b"].status == "failed"
    assert stored["b"].reason.startswith("MemoryError")
    assert stored["a"].status == stored["c"].status == "ok"
    assert_clean(tmp_path)


ON_A_SMALL_DISK = """
    import json, os, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[1])
    import main_job
    from placerl.harness.plan import execution
    from placerl.harness.core.errors import UserError
    from placerl.harness.core.progress import silent
    from placerl.harness.store.store import Store

    folder = Path(sys.argv[2])
    ballast = folder / "ballast"
    assert os.statvfs(folder).f_blocks * os.statvfs(folder).f_frsize < 2_000_000, "not the small disk"
    said = {}
    with Store.open(folder / "store.sqlite") as store:
        run = store.begin_run("quick", "r", main_job.MACHINE)
        execution.execute(run, main_job.cells(folder, ["a"]), silent)
        with ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError as error:
                said["errno"] = error.errno
        try:
            execution.execute(run, main_job.cells(folder, ["a", "b=large", "c"]), silent)
        except UserError as error:
            said["error"] = str(error)
        said["kept"] = store.cells(run.record.id)
    ballast.unlink()
    with Store.open(folder / "store.sqlite") as store:
        run = store.begin_run("quick", "r", main_job.MACHINE)
        execution.execute(run, main_job.cells(folder, ["a", "b=large", "c"]), silent)
        said["after"] = store.cells(run.record.id)
    said["left"] = sorted(path.name for path in folder.iterdir())
    print(json.dumps(said))
"""


def test_a_full_disk_is_named_and_loses_nothing(tmp_path):
    """A disk of a megabyte, in a mount namespace of its own, filled to its last byte between two cells."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    if not shutil.which("unshare") or subprocess.run([*mounted, f"mount -t tmpfs tmpfs {disk}"]).returncode:
        pytest.skip("needs the right to mount a file system in a namespace")
    script = f'mount -t tmpfs -o size=1m tmpfs {disk} && exec "$@"'
    command = [*mounted, script, "sh", sys.executable, "-c", textwrap.dedent(ON_A_SMALL_DISK)]
    found = subprocess.run(
        [*command, str(PROGRAM.parent), str(disk)], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert found.returncode == 0, found.stderr
    said = json.loads(found.stdout.splitlines()[-1])
    assert said["errno"] == 28  # ENOSPC
    assert "store.sqlite: store: found" in said["error"]
    assert "full" in said["error"] or "No space" in said["error"]
    assert said["kept"] == ["a"]
    assert said["after"] == ["a", "b", "c"]
    assert said["left"] == ["done", "store.sqlite"]


HOLDER = """
    import sys, time
    from placerl.harness.store.store import Store
    store = Store.open(sys.argv[1])
    store.begin_run("quick", "r", {"fingerprint": "other"})
    print("ready", flush=True)
    time.sleep(3600)
"""


@pytest.mark.slow
def test_a_store_that_another_process_writes_to_is_left_alone(tmp_path):
    assert ends(tmp_path, "a") == 0
    store = tmp_path / "store.sqlite"
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "ready\n"
            refused = start(tmp_path, "a", "b")
            _, errors = refused.communicate(timeout=LIMIT_S)
            assert refused.returncode != 0
            assert "locked by another process that writes to it; allowed: one writer at a time" in errors
        finally:
            holder.kill()
    assert done(tmp_path) == ["a"]
    assert ends(tmp_path, "a", "b") == 0
    assert done(tmp_path) == ["a", "b"]
    assert_clean(tmp_path)


def test_a_clock_that_jumps_changes_nothing(tmp_path, monkeypatch):
    """Years forwards and backwards with every look at it."""
    begin_s, looks = time.time(), 0  # noqa: TID251
    true_gmtime = time.gmtime

    def jumping():
        nonlocal looks
        looks += 1
        return begin_s + (-1) ** looks * 1e8 * looks

    monkeypatch.setattr(time, "time", jumping)
    monkeypatch.setattr(
        time, "gmtime", lambda seconds=None: true_gmtime(jumping() if seconds is None else seconds)
    )
    for words in (["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d=memory"]):
        with Store.open(tmp_path / "store.sqlite") as store:
            run = store.begin_run("quick", "r", main_job.MACHINE)
            assert run.record.id == 1, "the same run goes on"
            execution.execute(run, main_job.cells(tmp_path, words), silent)
            assert store.cells(1) == [word.partition("=")[0] for word in words]
            assert len(store.frame()) == len(words)
    assert looks > 4
    assert done(tmp_path) == ["a", "b", "c"]
    assert_clean(tmp_path)
