import json
import stat
import sys

import pytest

from placerl.harness.measure import control_groups
from placerl.harness.platforms import this_machine
from placerl.harness.platforms.machine import Cache, Machine, PowerMeter
from placerl.primitives.backend import BackendStatus
from tests.harness.measure import trees


@pytest.fixture(scope="module")
def here():
    return this_machine.describe()


def test_this_machine(here):
    assert here.cpu.logical_cores >= here.cpu.usable_cores >= 1
    assert here.cpu.memory_bytes > 2**28
    assert here.cpu.simd_level in ("avx512", "avx2", "portable")
    backends = {(b.primitive, b.name): b.available for b in here.backends}
    assert backends["sum_tree", "native"]
    assert backends["learner", "torch"]
    assert backends["environments", "classic"]
    memory = next(link for link in here.links if (link.source, link.target) == ("cpu", "cpu"))
    assert 0 < memory.bytes_per_s < 1e13  # no memory is faster: what is slow may only be busy


def test_no_probe_fails(monkeypatch):
    """Without GPUs, as a machine may have an `nvidia-smi` that does not work."""
    for name in ("_cuda_devices", "_gpu_meters"):
        monkeypatch.setattr(this_machine, name, lambda: [])
    assert this_machine.describe(measure_links=False).problems == ()


def test_it_is_json(here):
    assert Machine.model_validate_json(json.dumps(here.to_json())) == here


def test_the_fingerprint_does_not_change_from_look_to_look(here):
    assert this_machine.fingerprint() == here.fingerprint
    assert len(here.fingerprint) == 16


def test_the_fingerprint_tells_machines_apart(here):
    other = here.cpu.model_copy(update={"logical_cores": 99})
    change = {"usable_cores": 1, "highest_mhz": 1.0, "memory_bytes": here.cpu.memory_bytes - 4096}
    busier = here.cpu.model_copy(update=change)
    assert this_machine._fingerprint(other, []) != this_machine._fingerprint(here.cpu, [])
    assert this_machine._fingerprint(busier, []) == this_machine._fingerprint(here.cpu, [])


def under_quota(root, monkeypatch, text):
    trees.proc(root, "0::/", trees.V2)
    trees.write(root, **{"sys/fs/cgroup/cpu.max": text})
    monkeypatch.setattr(control_groups, "ROOT", root)
    return this_machine.describe(measure_links=False)


def test_a_quota_is_described_and_makes_it_another_machine(here, tmp_path, monkeypatch):
    assert here.cpu.quota_cores is None
    found = under_quota(tmp_path, monkeypatch, "50000 100000")
    assert (found.cpu.quota_cores, found.cpu.usable_cores) == (0.5, 1)
    assert found.cpu.quota_file == str(tmp_path / "sys/fs/cgroup/cpu.max")
    other = under_quota(tmp_path, monkeypatch, "60000 100000")
    assert len({here.fingerprint, found.fingerprint, other.fingerprint}) == 3


@pytest.mark.parametrize("quota", ["max", "10000000000"])
def test_a_quota_that_takes_nothing_away_leaves_the_machine_the_same(here, tmp_path, monkeypatch, quota):
    assert under_quota(tmp_path, monkeypatch, f"{quota} 100000").fingerprint == here.fingerprint


def test_a_quota_that_cannot_be_read_is_a_problem(tmp_path, monkeypatch):
    found = under_quota(tmp_path, monkeypatch, "half a core")
    assert found.cpu.quota_cores is None
    (problem,) = (one for one in found.problems if one.startswith("CPU quota"))
    assert "cpu.max: found 'half'" in problem


def test_only_a_whole_description_has_the_noise(here):
    assert here.noise.score >= 1
    assert this_machine.describe(measure_links=False).noise is None


def test_whatever_fails_is_said_and_fatal_to_nothing(monkeypatch):
    def broken(*_):
        raise OSError("driver on fire")

    for name in ("_cpu_info", "_caches", "_cuda_devices", "_opencl_devices", "_memory_links", "_rapl_meters"):
        monkeypatch.setattr(this_machine, name, broken)
    monkeypatch.setattr(this_machine, "_statuses", broken)
    monkeypatch.setattr(this_machine, "_simd_level", broken)
    machine = this_machine.describe()
    assert machine.cpu.simd_level == "unknown"
    assert machine.backends == machine.links == ()
    assert len(machine.problems) == 10
    assert all("driver on fire" in problem for problem in machine.problems)


def test_unavailable_backends_keep_their_reason(monkeypatch):
    monkeypatch.setattr(
        this_machine, "_statuses", lambda _: [BackendStatus("cuda", False, "no [cuda] driver")]
    )
    machine = this_machine.describe(measure_links=False)
    assert {(b.name, b.available, b.reason) for b in machine.backends} == {
        ("cuda", False, "no [cuda] driver")
    }


def test_caches_of_sys(tmp_path):
    folder = tmp_path / "devices/system/cpu/cpu0/cache/index2"
    folder.mkdir(parents=True)
    facts = {
        "level": "2",
        "type": "Unified",
        "size": "1024K",
        "coherency_line_size": "64",
        "shared_cpu_list": "0-3,8",
    }
    for name, value in facts.items():
        (folder / name).write_text(f"{value}\n")
    assert this_machine._caches(tmp_path) == [
        Cache(level=2, kind="unified", size_bytes=2**20, line_bytes=64, shared_by_cores=5)
    ]
    assert this_machine._caches(tmp_path / "none") == []


def test_rapl_meters(tmp_path):
    zone = tmp_path / "class/powercap/intel-rapl:0"
    zone.mkdir(parents=True)
    (zone / "name").write_text("package-0\n")
    (zone / "energy_uj").write_text("123\n")
    broken = tmp_path / "class/powercap/intel-rapl:1"
    broken.mkdir()
    first, second = this_machine._rapl_meters(tmp_path)
    assert first == PowerMeter(name="RAPL package-0", readable=True, reason="")
    assert not second.readable
    assert "No such file" in second.reason
    (none,) = this_machine._rapl_meters(tmp_path / "none")
    assert not none.readable


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """A program of that name, which prints what the test says."""

    def install(output, status=0):
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!{sys.executable}\nprint({output!r})\nraise SystemExit({status})\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return install


def test_gpu_that_this_pytorch_cannot_use_is_listed_with_the_reason(nvidia_smi, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    nvidia_smi("NVIDIA H200, 143771")
    (gpu,) = this_machine._cuda_devices()
    assert (gpu.device, gpu.name, gpu.memory_bytes) == ("cuda:0", "NVIDIA H200", 143771 * 2**20)
    assert not gpu.usable
    assert "PyTorch" in gpu.reason


@pytest.mark.parametrize(("watts", "readable"), [("75.31", True), ("[N/A]", False)])
def test_gpu_power(nvidia_smi, watts, readable):
    nvidia_smi(f"NVIDIA H200, {watts}")
    (meter,) = this_machine._gpu_meters()
    assert meter.readable == readable
    assert bool(meter.reason) != readable


def test_a_driver_that_fails_is_a_problem(nvidia_smi):
    nvidia_smi("no devices were found", status=9)
    machine = this_machine.describe(measure_links=False)
    assert any(problem.startswith("GPU power: CalledProcessError") for problem in machine.problems)
