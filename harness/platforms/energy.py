"""Measures the energy that a mapping's devices draw: the processor's with RAPL, that of NVIDIA GPUs with NVML.

A counter covers its whole device, including idle parts and other users' work. Nothing is estimated: if one of the
devices has no readable counter, there is no result, and the meter states the reason.
"""

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from placerl.primitives.device import opencl_runtime

SYS = Path("/sys")
_OPENCL_CPU = 1 << 1  # CL_DEVICE_TYPE_CPU


@dataclass(frozen=True)
class Counter:
    """An energy counter of one device.

    Attributes:
        name: name of the counted device.
        read: function that returns the count; it raises OSError if the counter cannot be read.
        unit_j: joules per count.
        wraps_at: the count at which the counter returns to 0; 0 if it never does.
    """

    name: str
    read: Callable[[], int]
    unit_j: float
    wraps_at: int = 0


@dataclass
class EnergyMeter:
    """Measures energy over intervals of time, in joules.

    Attributes:
        counters: the energy counters of all devices; empty if one of the devices has none.
        reason: why no energy can be measured; empty if it can.
    """

    counters: Sequence[Counter] = ()
    reason: str = ""
    _begun: list[int] = field(default_factory=list)

    def begin(self) -> None:
        """Begin an interval: read all counters, so that `spent_j` can subtract these counts."""
        self._begun = self._read()

    def spent_j(self) -> float | None:
        """Return the joules that all devices have drawn since `begin`; None if a counter cannot be read.

        The interval must be so short that no counter runs through its whole range.
        """
        now = self._read()
        if not now or not self._begun:
            return None
        return sum(
            counter.unit_j * ((b - a) % (counter.wraps_at + 1) if counter.wraps_at else b - a)
            for counter, a, b in zip(self.counters, self._begun, now, strict=True)
        )

    def _read(self) -> list[int]:
        if self.reason:
            return []
        try:
            return [counter.read() for counter in self.counters]
        except (OSError, ValueError) as error:  # an unreadable counter must not stop the run
            self.reason = _said(error)
            return []


def meter_of(
    devices: Iterable[str], *, simulated: bool, root: Path = SYS, processor: bool = True
) -> EnergyMeter:
    """Return a meter for the given devices, and for the processor.

    If a device has no readable counter, the meter's `reason` says so.

    Args:
        devices: device names as in mappings, such as `cpu`, `cuda:0` and `opencl`.
        simulated: whether one of the devices is simulated, so that no energy can be measured.
        root: folder in which the kernel lists its devices.
        processor: whether the processor is included; if not, the meter counts what the other devices alone draw.
    """
    if simulated:
        return EnergyMeter(reason="a part of the mapping is simulated")
    try:
        counters = _packages(root) if processor else []
        gpus: set[int] = set()  # "cuda" and "cuda:0" are one
        for device in sorted(set(devices)):
            kind, _, which = device.partition(":")
            if kind == "cuda":
                gpus.add(int(which or 0))
            elif kind == "opencl" and not opencl_runtime.choose(which).type & _OPENCL_CPU:
                raise OSError(f"{device}: of OpenCL's devices the processor alone has a counter")
        counters += map(_gpu, sorted(gpus))
        for counter in counters:
            counter.read()
    except (
        OSError,
        ValueError,
        AttributeError,
    ) as error:  # AttributeError: the driver is too old for the call
        return EnergyMeter(reason=_said(error))
    return EnergyMeter(counters)


def rapl_zones(root: Path = SYS) -> list[Path]:
    """Return the folders in which the kernel offers the processor's energy counters (RAPL), sorted.

    Args:
        root: folder in which the kernel lists its devices.

    Raises:
        OSError: the kernel offers none.
    """
    zones = sorted((root / "class/powercap").glob("*rapl:[0-9]*"))
    if not zones:
        raise OSError("this kernel offers no /sys/class/powercap/*rapl*")
    return zones


def _packages(root: Path) -> list[Counter]:
    """Return the counters of the processor's packages; RAPL's other zones are parts of a package or contain them."""
    counters = []
    for zone in rapl_zones(root):
        name = (zone / "name").read_text().strip()
        if name.startswith("package"):
            range_uj = int((zone / "max_energy_range_uj").read_text())
            counters.append(Counter(f"RAPL {name}", _file(zone / "energy_uj"), 1e-6, range_uj))
    if not counters:
        raise OSError("RAPL counts no package of the processor")
    return counters


def _file(path: Path) -> Callable[[], int]:
    return lambda: int(path.read_text())


def _gpu(number: int) -> Counter:
    import torch

    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    handle = ctypes.c_void_p()
    uuid = f"GPU-{torch.cuda.get_device_properties(number).uuid}".encode()
    _nvml(nvml.nvmlInit_v2(), "nvmlInit")
    _nvml(nvml.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(handle)), "nvmlDeviceGetHandleByUUID")

    def millijoules() -> int:
        count = ctypes.c_ulonglong()
        status = nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(count))
        _nvml(status, "nvmlDeviceGetTotalEnergyConsumption")
        return count.value

    return Counter(f"NVML cuda:{number}", millijoules, 1e-3)


def _nvml(status: int, call: str) -> None:
    if status:
        raise OSError(f"NVML: {call} returned {status}")


def _said(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)
