"""The energy that a mapping's devices draw: of the processor's packages from RAPL, of NVIDIA GPUs from NVML.

A counter counts what its whole device draws, idle parts and other users' work included. Nothing is estimated: where one
of the devices has no counter that can be read, there is no energy, and a reason.
"""

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from primitives import opencl_runtime

SYS = Path("/sys")
_OPENCL_CPU = 1 << 1  # CL_DEVICE_TYPE_CPU


@dataclass(frozen=True)
class Counter:
    """Counts energy up.

    Attributes:
        name: of what it counts.
        read: the count; OSError where it cannot be read.
        unit_j: joules of one.
        wraps_at: the count after which it begins at 0 again; 0 where it never does.
    """

    name: str
    read: Callable[[], int]
    unit_j: float
    wraps_at: int = 0


@dataclass
class EnergyMeter:
    """Joules over stretches of time.

    Attributes:
        counters: of every device; none where one of them has none.
        reason: why there is no energy; empty where there is.
    """

    counters: Sequence[Counter] = ()
    reason: str = ""
    _begun: list[int] = field(default_factory=list)

    def begin(self) -> None:
        """Begin a stretch."""
        self._begun = self._read()

    def spent_j(self) -> float | None:
        """Joules since its beginning; None where they cannot be read. No stretch may take a counter's whole range."""
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
        except (OSError, ValueError) as error:  # the run is worth more than its energy
            self.reason = _said(error)
            return []


def meter_of(devices: Iterable[str], *, simulated: bool, root: Path = SYS) -> EnergyMeter:
    """Return what counts the energy of devices, the processor among them always.

    Args:
        devices: by the names of mappings, such as `cpu`, `cuda:0` and `opencl`.
        simulated: whether one of them is simulated.
        root: where the kernel shows its devices.
    """
    if simulated:
        return EnergyMeter(reason="a part of the mapping is simulated")
    try:
        counters = _packages(root)
        for device in sorted(set(devices)):
            kind, _, which = device.partition(":")
            if kind == "cuda":
                counters.append(_gpu(int(which or 0)))
            elif kind == "opencl" and not opencl_runtime.choose(which).type & _OPENCL_CPU:
                raise OSError(f"{device}: of OpenCL's devices the processor alone has a counter")
        for counter in counters:
            counter.read()
    except (OSError, ValueError, AttributeError) as error:  # the last: a driver too old for the call
        return EnergyMeter(reason=_said(error))
    return EnergyMeter(counters)


def rapl_zones(root: Path = SYS) -> list[Path]:
    """The folders of the processor's energy counters.

    Raises:
        OSError: the kernel offers none.
    """
    zones = sorted((root / "class/powercap").glob("*rapl:[0-9]*"))
    if not zones:
        raise OSError("this kernel offers no /sys/class/powercap/*rapl*")
    return zones


def _packages(root: Path) -> list[Counter]:
    """Of the processor's packages: what else RAPL counts is a part of one, or holds them."""
    found = []
    for zone in rapl_zones(root):
        name = (zone / "name").read_text().strip()
        if name.startswith("package"):
            range_uj = int((zone / "max_energy_range_uj").read_text())
            found.append(Counter(f"RAPL {name}", _file(zone / "energy_uj"), 1e-6, range_uj))
    if not found:
        raise OSError("RAPL counts no package of the processor")
    return found


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
