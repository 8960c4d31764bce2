"""The groups of a process are found in every way in which they are mounted and named."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placerl.harness.measure import control_groups
from placerl.harness.measure.control_groups import V1, V2, groups
from tests.harness.measure import trees

CGROUP = "sys/fs/cgroup"


def folders(root: Path, controller: str = "cpu") -> list[tuple[str, str]]:
    return [(one.version, str(one.folder.relative_to(root))) for one in groups(controller, root)]


def test_version_2_gives_every_group_up_to_the_mount(tmp_path: Path) -> None:
    trees.proc(tmp_path, "0::/a/b", trees.V2)
    assert folders(tmp_path) == [(V2, f"{CGROUP}/a/b"), (V2, f"{CGROUP}/a"), (V2, CGROUP)]
    assert folders(tmp_path, "memory") == folders(tmp_path), "which has one hierarchy for all"


def test_version_1_has_a_hierarchy_for_each_controller(tmp_path: Path) -> None:
    trees.proc(
        tmp_path, "3:cpu,cpuacct:/one\n2:cpuset:/two\n1:name=systemd:/", trees.v1("cpu", "cpuacct"), trees.v1("cpuset")
    )  # fmt: skip
    assert folders(tmp_path) == [(V1, f"{CGROUP}/cpu,cpuacct/one"), (V1, f"{CGROUP}/cpu,cpuacct")]
    assert folders(tmp_path, "cpuset") == [(V1, f"{CGROUP}/cpuset/two"), (V1, f"{CGROUP}/cpuset")]
    assert folders(tmp_path, "memory") == []


def test_both_versions_side_by_side(tmp_path: Path) -> None:
    trees.proc(tmp_path, "1:cpu:/one\n0::/s", trees.v1("cpu"), trees.UNIFIED)
    assert folders(tmp_path) == [
        (V1, f"{CGROUP}/cpu/one"), (V1, f"{CGROUP}/cpu"), (V2, f"{CGROUP}/unified/s"), (V2, f"{CGROUP}/unified"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("named", "below"), [("/docker/c0", ""), ("/docker/c0/in", "/in"), ("/elsewhere", ""), ("/../x", "")]
)
def test_in_a_container_only_its_own_subtree_is_mounted(tmp_path: Path, named: str, below: str) -> None:
    trees.proc(tmp_path, f"1:cpu:{named}", trees.v1("cpu", shown="/docker/c0"))
    assert folders(tmp_path)[0] == (V1, f"{CGROUP}/cpu{below}")
    assert folders(tmp_path)[-1] == (V1, f"{CGROUP}/cpu")


@pytest.mark.parametrize("named", ["/../outside", "outside", "outside/..", ""])
def test_a_group_outside_of_the_namespace_is_the_mount_itself(tmp_path: Path, named: str) -> None:
    trees.proc(tmp_path, f"0::{named}", trees.V2)
    assert folders(tmp_path) == [(V2, CGROUP)]


def test_a_second_mount_of_another_subtree_is_not_this_process_s_group(tmp_path: Path) -> None:
    other = trees.v1("cpu", shown="/other").replace("/sys/fs/cgroup/cpu", "/mnt/other")
    trees.proc(tmp_path, "1:cpu:/mine", other, trees.v1("cpu"))
    assert folders(tmp_path) == [(V1, f"{CGROUP}/cpu/mine"), (V1, f"{CGROUP}/cpu")]


def test_blanks_in_a_mount_point_are_octal_numbers(tmp_path: Path) -> None:
    trees.proc(tmp_path, "0::/", trees.V2.replace("/sys/fs/cgroup", r"/sys/my\040groups\134x"))
    assert folders(tmp_path) == [(V2, r"sys/my groups\x")]


def test_a_name_with_a_colon_is_whole(tmp_path: Path) -> None:
    trees.proc(tmp_path, "0::/a:b:c", trees.V2)
    assert folders(tmp_path)[0] == (V2, f"{CGROUP}/a:b:c")


def test_without_control_groups_there_are_none(tmp_path: Path) -> None:
    assert folders(tmp_path) == []
    trees.proc(tmp_path, "0::/a")
    assert folders(tmp_path) == [], "not mounted"


def test_a_mount_needs_its_place_and_its_source_but_no_options_of_its_own(tmp_path: Path) -> None:
    short = "30 20 0:26 / /sys/fs/cgroup - cgroup2 cgroup2 rw"
    trees.proc(tmp_path, "0::/", short)
    assert folders(tmp_path) == [(V2, CGROUP)]
    for cut in ("30 20 0:26 / - cgroup2 cgroup2 rw", "30 20 0:26 / /sys/fs/cgroup - cgroup2 cgroup2"):
        trees.proc(tmp_path, "0::/", cut)
        assert folders(tmp_path) == []


@given(st.text(max_size=60), st.text(max_size=90))
def test_text_that_no_kernel_writes_raises_nothing_and_stays_at_the_mounts(
    tmp_path_factory: pytest.TempPathFactory, cgroup: str, mountinfo: str
) -> None:
    root = tmp_path_factory.mktemp("root")
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"0::/{cgroup}\n{cgroup}", errors="replace")
    (root / "proc/self/mountinfo").write_text(f"{trees.V2}\n{mountinfo}", errors="replace")
    folders = {one.folder for one in groups("cpu", root)}
    assert all(folder.is_relative_to(root) and ".." not in folder.parts for folder in folders)


def test_by_default_they_are_this_machine_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees.proc(tmp_path, "0::/", trees.V2)
    monkeypatch.setattr(control_groups, "ROOT", tmp_path)
    assert [one.folder for one in groups("cpu")] == [tmp_path / CGROUP]
