"""Energy counters: made-up folders of the kernel, and a library that answers as NVML does."""

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from placerl.harness.mapping import Mapping
from placerl.harness.platforms import energy
from placerl.harness.platforms.energy import Counter, EnergyMeter
from placerl.primitives.device import opencl_runtime

NATIVE = Mapping.parse("native-native-cpu")


def zone(root: Path, name: str, called: str, range_uj: int = 1_000_000) -> Path:
    folder = root / "class/powercap" / name
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{called}\n")
    (folder / "max_energy_range_uj").write_text(f"{range_uj}\n")
    (folder / "energy_uj").write_text("0\n")
    return folder / "energy_uj"


def test_the_processor_s_packages_are_counted_once(tmp_path: Path) -> None:
    first, second = zone(tmp_path, "intel-rapl:0", "package-0"), zone(tmp_path, "intel-rapl:1", "package-1")
    core, whole = zone(tmp_path, "intel-rapl:0:0", "core"), zone(tmp_path, "intel-rapl:2", "psys")
    meter = energy.meter_of(NATIVE.devices, simulated=False, root=tmp_path)
    meter.begin()
    for path, count in ((first, 300_000), (second, 200_000), (core, 100_000), (whole, 900_000)):
        path.write_text(f"{count}\n")
    assert meter.spent_j() == pytest.approx(0.5)
    assert [counter.name for counter in meter.counters] == ["RAPL package-0", "RAPL package-1"]


def test_a_counter_that_begins_anew_counts_on(tmp_path: Path) -> None:
    counted = zone(tmp_path, "intel-rapl:0", "package-0", range_uj=999_999)
    counted.write_text("900000")
    meter = energy.meter_of(NATIVE.devices, simulated=False, root=tmp_path)
    meter.begin()
    counted.write_text("100000")
    assert meter.spent_j() == pytest.approx(0.2)


def test_what_cannot_be_read_has_a_reason_and_no_energy(tmp_path: Path) -> None:
    def reason(root: Path, *, simulated: bool = False) -> str:
        meter = energy.meter_of(NATIVE.devices, simulated=simulated, root=root)
        meter.begin()
        assert meter.spent_j() is None
        return meter.reason

    assert "offers no" in reason(tmp_path)
    zone(tmp_path / "other", "intel-rapl:0", "psys")
    assert reason(tmp_path / "other") == "RAPL counts no package of the processor"
    gone = zone(tmp_path / "gone", "intel-rapl:0", "package-0")
    gone.unlink()
    assert reason(tmp_path / "gone") == f"{gone}: No such file or directory"
    zone(tmp_path / "fine", "intel-rapl:0", "package-0")
    assert reason(tmp_path / "fine", simulated=True) == "a part of the mapping is simulated"


def test_a_counter_that_fails_on_the_way_ends_no_run() -> None:
    counts = iter([1])

    def read() -> int:
        if (count := next(counts, None)) is None:
            raise OSError("the driver is gone")
        return count

    meter = EnergyMeter([Counter("fails", read, 1.0)])
    meter.begin()
    assert meter.spent_j() is None
    assert meter.reason == "the driver is gone"


class Nvml:
    """Answers as NVML; the GPU has drawn so many millijoules."""

    def __init__(self, status: int = 0) -> None:
        self.status, self.drawn_mj, self.asked = status, 1_000, b""

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes, handle: Any) -> int:
        self.asked = uuid
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, count: Any) -> int:
        count._obj.value = self.drawn_mj
        return self.status


def test_a_gpu_s_energy_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted, nvml = zone(tmp_path, "intel-rapl:0", "package-0"), Nvml()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: nvml)
    monkeypatch.setattr(
        "torch.cuda.get_device_properties", lambda number: SimpleNamespace(uuid=f"id-{number}")
    )
    mapping = Mapping.parse("torch:cuda-native-cpu")
    meter = energy.meter_of(mapping.devices, simulated=False, root=tmp_path)
    meter.begin()
    counted.write_text("500000")
    nvml.drawn_mj += 2_000
    assert meter.spent_j() == pytest.approx(2.5)
    assert nvml.asked == b"GPU-id-0"
    twice = energy.meter_of(["cuda", "cuda:0", "cuda:1"], simulated=False, root=tmp_path)
    assert [one.name for one in twice.counters] == ["RAPL package-0", "NVML cuda:0", "NVML cuda:1"]
    nvml.status = 3
    refused = energy.meter_of(mapping.devices, simulated=False, root=tmp_path)
    assert refused.reason == "NVML: nvmlDeviceGetTotalEnergyConsumption returned 3"


@pytest.mark.parametrize(("kind", "counts"), [(1 << 1, True), (1 << 2, False)])
def test_of_opencl_devices_the_processor_alone_is_counted(
    kind: int, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0")
    monkeypatch.setattr(opencl_runtime, "choose", lambda device: SimpleNamespace(type=kind))
    meter = energy.meter_of(Mapping.parse("opencl-native-cpu").devices, simulated=False, root=tmp_path)
    assert bool(meter.reason) != counts
