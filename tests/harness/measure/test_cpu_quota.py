"""The quota of a process is the smallest of the groups around it, in both versions of control groups."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placerl.harness.measure.cpu_quota import CpuQuota, cpu_quota
from tests.harness.measure import trees

Levels = list[tuple[int, int] | None]
LEVELS = st.lists(
    st.none() | st.tuples(st.integers(1_000, 10**9), st.integers(1_000, 10**6)), min_size=1, max_size=5
)


def write_v2(root: Path, folder: str, limit: tuple[int, int] | None) -> None:
    quota = "max 100000" if limit is None else f"{limit[0]} {limit[1]}"
    trees.write(root, **{f"sys/fs/cgroup{folder}/cpu.max": quota})


def write_v1(root: Path, folder: str, limit: tuple[int, int] | None) -> None:
    quota_us, period_us = limit or (-1, 100_000)
    here = f"sys/fs/cgroup/cpu{folder}"
    trees.write(
        root, **{f"{here}/cpu.cfs_quota_us": str(quota_us), f"{here}/cpu.cfs_period_us": str(period_us)}
    )


def nested(root: Path, levels: Levels, *, version_1: bool) -> CpuQuota:
    """The quota with a group in another, the outermost first."""
    names = [f"/{'/'.join('abcde'[: depth + 1])}" for depth in range(len(levels))]
    trees.proc(
        root,
        f"1:cpu:{names[-1]}" if version_1 else f"0::{names[-1]}",
        trees.v1("cpu") if version_1 else trees.V2,
    )
    for name, limit in zip(names, levels, strict=True):
        (write_v1 if version_1 else write_v2)(root, name, limit)
    return cpu_quota(root)


@given(LEVELS, st.booleans())
def test_the_smallest_of_nested_groups_counts(
    tmp_path_factory: pytest.TempPathFactory, levels: Levels, version_1: bool
) -> None:
    found = nested(tmp_path_factory.mktemp("root"), levels, version_1=version_1)
    expected = min((quota_us / period_us for quota_us, period_us in filter(None, levels)), default=None)
    assert found.cores == expected
    assert bool(found.file) == (expected is not None)
    assert found.unreadable == ()


def test_in_version_1_half_a_core(tmp_path: Path) -> None:
    trees.proc(tmp_path, "1:cpu,cpuacct:/docker/c0", trees.v1("cpu", "cpuacct", shown="/docker/c0"))
    here = "sys/fs/cgroup/cpu,cpuacct"
    trees.write(tmp_path, **{f"{here}/cpu.cfs_quota_us": "50000", f"{here}/cpu.cfs_period_us": "100000"})
    assert cpu_quota(tmp_path) == CpuQuota(0.5, str(tmp_path / here / "cpu.cfs_quota_us"))


def test_a_hybrid_machine_has_its_quota_in_version_1(tmp_path: Path) -> None:
    trees.proc(tmp_path, "1:cpu:/a\n0::/a", trees.v1("cpu"), trees.UNIFIED)
    write_v1(tmp_path, "/a", (150_000, 100_000))
    assert cpu_quota(tmp_path).cores == 1.5


def test_a_group_without_the_controller_states_nothing(tmp_path: Path) -> None:
    trees.proc(tmp_path, "0::/a/b", trees.V2)
    assert cpu_quota(tmp_path) == CpuQuota()
    write_v2(tmp_path, "/a", (200_000, 100_000))
    assert cpu_quota(tmp_path).cores == 2


def test_where_no_period_is_stated_it_is_the_kernel_s(tmp_path: Path) -> None:
    trees.proc(tmp_path, "0::/", trees.V2)
    trees.write(tmp_path, **{"sys/fs/cgroup/cpu.max": "50000"})
    assert cpu_quota(tmp_path).cores == 0.5


def test_without_control_groups_there_is_none(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) == CpuQuota()


@pytest.mark.parametrize(
    "text", ["", "half", "0 100000", "-2 100000", "50000 0", "50000 x", "1e4 100000", f"{'9' * 400} 1"]
)
def test_what_cannot_be_understood_is_said_and_hides_no_other_quota(tmp_path: Path, text: str) -> None:
    trees.proc(tmp_path, "0::/a", trees.V2)
    write_v2(tmp_path, "", (150_000, 100_000))
    trees.write(tmp_path, **{"sys/fs/cgroup/a/cpu.max": text})
    found = cpu_quota(tmp_path)
    assert found.cores == 1.5
    (line,) = found.unreadable
    assert line.startswith(f"{tmp_path}/sys/fs/cgroup/a/cpu.max: found ")


@given(st.text(max_size=30))
def test_any_text_gives_a_positive_quota_or_none(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    root = tmp_path_factory.mktemp("root")
    trees.proc(root, "0::/", trees.V2)
    (root / "sys/fs/cgroup").mkdir(parents=True)
    (root / "sys/fs/cgroup/cpu.max").write_text(text, errors="replace")
    found = cpu_quota(root)
    assert found.cores is None or found.cores > 0


@pytest.mark.parametrize(
    ("cores", "usable", "whole", "warns"),
    [
        (None, 4, 4, False), (0.5, 2, 1, True), (1.5, 2, 1, True),
        (2.0, 2, 2, False), (2.7, 8, 2, True), (64.0, 8, 8, False),
    ],
)  # fmt: skip
def test_threads_get_whole_cores_and_what_is_taken_away_is_said(
    cores: float | None, usable: int, whole: int, warns: bool
) -> None:
    quota = CpuQuota(cores, "cpu.max" if cores else "")
    assert quota.whole_cores(usable) == whole
    meant = "are multiplied by 0.5" if cores == 0.5 else "assume whole cores"
    expected = f"machine: found a quota of {cores:g} cores (cpu.max); predictions {meant}" if warns else ""
    assert quota.warning(usable) == expected
