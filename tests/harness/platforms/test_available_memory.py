"""How much memory a measurement may take: of the machine, of containers, and of its own process."""

import ctypes
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from placerl.harness.platforms import available_memory
from placerl.harness.platforms.available_memory import (
    NotEnoughMemory,
    available_bytes,
    measurement_bytes,
    refusal,
    require,
)
from tests.harness.measure.trees import V2, proc, v1, write

GB = 10**9


@pytest.fixture
def machine_of(monkeypatch: pytest.MonkeyPatch):
    """Fakes what the machine has available and what this process holds, in bytes."""

    def fake(available: int, held: int = 0, mapped: int = 0) -> None:
        monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=available))
        process = SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=held + mapped, shared=mapped))
        monkeypatch.setattr(psutil, "Process", lambda: process)

    return fake


def group(root: Path, folder: str, **files: object) -> None:
    write(root, **{f"{folder}/{name.replace('__', '.')}": str(value) for name, value in files.items()})


V1 = v1("memory")


def test_without_control_groups_it_is_what_the_system_states(tmp_path: Path, machine_of) -> None:
    machine_of(6 * GB)
    assert available_bytes(tmp_path) == 6 * GB


def test_the_tightest_group_of_version_2_counts(tmp_path: Path, machine_of) -> None:
    machine_of(20 * GB)
    proc(tmp_path, "0::/a/b", V2)
    group(tmp_path, "sys/fs/cgroup/a/b", memory__max="max", memory__high="max", memory__current=GB)
    assert available_bytes(tmp_path) == 20 * GB
    group(tmp_path, "sys/fs", memory__max=2, memory__current=1)
    assert available_bytes(tmp_path) == 20 * GB, "above the mount there is no group"
    group(tmp_path, "sys/fs/cgroup/a", memory__max=4 * GB, memory__current=3 * GB)
    assert available_bytes(tmp_path) == GB, "of the group around it"
    group(tmp_path, "sys/fs/cgroup/a", memory__stat=f"anon {2 * GB}\ninactive_file {GB // 2}\nother 7")
    assert available_bytes(tmp_path) == 3 * GB // 2, "the kernel can drop cached files"
    group(tmp_path, "sys/fs/cgroup/a/b", memory__high=GB + 5)
    assert available_bytes(tmp_path) == 5, "its own, which slows it down"
    group(tmp_path, "sys/fs/cgroup/a/b", memory__current=2 * GB)
    assert available_bytes(tmp_path) == 0


def test_a_group_of_version_1(tmp_path: Path, machine_of) -> None:
    machine_of(20 * GB)
    others = ("31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw", V1.replace("memory", "cpu"))
    mounts = "\n".join((others[0], V1, others[1]))
    proc(tmp_path, "9:name=systemd:/\n4:memory:/one\n1:cpu:/\n0::/", mounts)
    unlimited = 9223372036854771712
    here = "sys/fs/cgroup/memory"
    group(tmp_path, here, memory__limit_in_bytes=unlimited, memory__usage_in_bytes=5 * GB)
    group(tmp_path, f"{here}/one", memory__limit_in_bytes=2 * GB, memory__usage_in_bytes=GB)
    group(tmp_path, f"{here}/one", memory__stat=f"inactive_file 3\ntotal_inactive_file {GB // 4}")
    assert available_bytes(tmp_path) == GB + GB // 4
    group(tmp_path, f"{here}/one", memory__limit_in_bytes=unlimited)
    assert available_bytes(tmp_path) == 20 * GB


@pytest.mark.parametrize("named", ["/docker/c0ffee", "/docker/c0ffee/inner"])
def test_in_a_container_only_its_own_subtree_is_mounted(tmp_path: Path, machine_of, named: str) -> None:
    machine_of(20 * GB)
    proc(tmp_path, f"4:memory:{named}", V1.replace("0:32 /", "0:32 /docker/c0ffee"))
    limit = {"memory__limit_in_bytes": 3 * GB, "memory__usage_in_bytes": GB}
    group(tmp_path, "sys/fs/cgroup/memory", **limit)
    assert available_bytes(tmp_path) == 2 * GB


def test_a_group_that_is_named_from_outside_is_looked_up_at_the_mount(tmp_path: Path, machine_of) -> None:
    machine_of(20 * GB)
    proc(tmp_path, "4:memory:/kubepods/pod1", V1.replace("0:32 /", "0:32 /elsewhere"))
    group(tmp_path, "sys/fs/cgroup/memory", memory__limit_in_bytes=GB, memory__usage_in_bytes=0)
    assert available_bytes(tmp_path) == GB


def test_the_libraries_that_a_process_maps_are_not_its_own(tmp_path: Path, machine_of) -> None:
    """Such as CUDA's, which a process maps before it measures anything."""
    machine_of(100 * GB, held=GB, mapped=2 * GB)
    assert measurement_bytes(tmp_path) == 3 * GB // 2


@pytest.mark.parametrize(
    ("available", "held", "expected"),
    [
        (40 * GB, GB // 2, 2 * GB),  # what the process leaves of 2.5 GB
        (4 * GB, GB // 2, GB),  # a quarter
        (40 * GB, 3 * GB, 0),
    ],
)
def test_a_measurement_takes_a_quarter_and_what_its_process_leaves(
    tmp_path: Path, machine_of, available: int, held: int, expected: int
) -> None:
    machine_of(available, held)
    assert measurement_bytes(tmp_path) == expected


def test_what_needs_more_than_that_is_refused_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(GB, GB) == ""
    assert refusal(GB + 1, GB).startswith("needs 1.00 GB of memory; allowed: 1.00 GB")
    monkeypatch.setattr(available_memory, "measurement_bytes", lambda: GB)
    require(GB)
    with pytest.raises(NotEnoughMemory, match=r"needs 3\.00 GB of memory; allowed: 1\.00 GB"):
        require(3 * GB)


def test_this_machine_has_memory_available() -> None:
    assert 0 < available_bytes() <= psutil.virtual_memory().total


def held_bytes() -> int:
    """The memory of this process, also what the system has swapped out."""
    used = psutil.Process().memory_full_info()
    return int(used.rss + getattr(used, "swap", 0))


def test_freed_memory_goes_back_to_the_system() -> None:
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("this C library keeps no freed memory that it could be asked for")
    blocks = [np.ones(64 * 1024, np.uint8) for _ in range(2000)]  # so small that they come from the heap
    last = blocks[-1]  # holds the heap's end
    filled = held_bytes()
    del blocks
    available_memory.release()
    assert held_bytes() < filled - 100_000_000
    assert last.all()


def test_a_limit_of_address_space_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource", reason="POSIX only")
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=6 * GB))
    process = SimpleNamespace(memory_info=lambda: SimpleNamespace(vms=GB))
    monkeypatch.setattr(psutil, "Process", lambda: process)
    for limit_bytes, left_bytes in ((resource.RLIM_INFINITY, 6 * GB), (3 * GB, 2 * GB), (GB // 2, 0)):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, limit=limit_bytes: (limit, limit))
        assert available_bytes(tmp_path) == left_bytes
