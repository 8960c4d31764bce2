"""Describes the machine on which numbers are measured: devices, backends, links, and whether power can be read.

A device or driver that is missing is no error: each probe that fails adds a line to `Machine.problems`.
"""

import hashlib
import json
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import psutil

from placerl.harness.measure.conditions import usable_cores, versions
from placerl.harness.measure.cpu_quota import CpuQuota, cpu_quota
from placerl.harness.measure.noise import measure_noise
from placerl.harness.platforms.energy import rapl_zones
from placerl.harness.platforms.machine import Accelerator, Backend, Cache, Cpu, Link, Machine, PowerMeter
from placerl.primitives.backend import BackendStatus
from placerl.primitives.device import create, opencl_runtime

_SYS = Path("/sys")
_PACKAGES_WITH_BACKENDS = (
    "placerl.primitives.sum_tree",
    "placerl.primitives.learner",
    "placerl.primitives.environments",
)
_LINK_BYTES = 64 * 1024 * 1024  # stated with every link; a cache of hundreds of MiB may hold it
_LINK_REPEATS = 5
_T = TypeVar("_T")


class _Probes:
    """Runs probes and records their failures."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def one(self, name: str, probe: Callable[[], _T], default: _T) -> _T:
        """Return the result of a probe, or the default if it fails."""
        try:
            return probe()
        except Exception as error:  # drivers raise anything; a failure must not hide the other probes
            self.problems.append(f"{name}: {type(error).__name__}: {error}")
            return default

    def many(self, name: str, probe: Callable[[], Iterable[_T]]) -> list[_T]:
        """Return the list that a probe gives, or an empty list if it fails."""
        none: list[_T] = []
        return self.one(name, lambda: list(probe()), none)


def describe(*, measure_links: bool = True) -> Machine:
    """Describe this machine, in about two seconds.

    Args:
        measure_links: whether to measure bandwidths, which copies memory, and before them the noise; otherwise
            `Machine.links` is empty, and `Machine.noise` None.
    """
    probe = _Probes()
    noise = probe.one("noise", lambda: measure_noise(usable_cores()), None) if measure_links else None
    cpu = _cpu(probe)
    accelerators = [*probe.many("CUDA", _cuda_devices), *probe.many("OpenCL", _opencl_devices)]
    links: list[Link] = []
    if measure_links:
        links += probe.many("memory bandwidth", _memory_links)
        for accelerator in accelerators:
            if accelerator.usable:
                measured = _cuda_links if accelerator.kind == "cuda" else _opencl_links
                links += probe.many(f"links of {accelerator.device}", partial(measured, accelerator))
    return Machine(
        fingerprint=_fingerprint(cpu, accelerators),
        cpu=cpu,
        accelerators=tuple(accelerators),
        backends=tuple(_backends(probe)),
        links=tuple(links),
        noise=noise,
        power=(*probe.many("RAPL", _rapl_meters), *probe.many("GPU power", _gpu_meters)),
        system=platform.platform(),
        versions=versions(),
        problems=tuple(probe.problems),
    )


def fingerprint() -> str:
    """Return this machine's fingerprint, a hash of its processor, memory and accelerators (`Machine.fingerprint`)."""
    return describe(measure_links=False).fingerprint


def _fingerprint(cpu: Cpu, accelerators: Sequence[Accelerator]) -> str:
    # Values that a restart, other load or an upgrade of a library may change are left out.
    gibibytes = round(cpu.memory_bytes / 2**30)
    parts = [cpu.model, cpu.architecture, cpu.logical_cores, cpu.simd_level, gibibytes]
    parts += sorted(f"{a.kind} {a.name}" for a in accelerators)
    if cpu.quota_cores is not None and cpu.quota_cores < cpu.logical_cores:
        parts.append(f"quota of {cpu.quota_cores:g} cores")  # speeds under another quota must not be mixed
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


# The processor


def _cpu(probe: _Probes) -> Cpu:
    unknown: dict[str, Any] = {}
    quota = probe.one("CPU quota", cpu_quota, CpuQuota())
    probe.problems += [f"CPU quota: {line}" for line in quota.unreadable]
    info = probe.one("processor", _cpu_info, unknown)
    vectors = ("sse", "avx", "fma", "neon", "asimd", "sve")
    return Cpu(
        model=str(info.get("brand_raw") or platform.processor() or "unknown"),
        architecture=platform.machine(),
        physical_cores=psutil.cpu_count(logical=False),
        logical_cores=psutil.cpu_count() or 1,
        usable_cores=len(usable_cores()),
        quota_cores=quota.cores,
        quota_file=quota.file,
        simd_level=probe.one("SIMD level", _simd_level, "unknown"),
        vector_flags=tuple(flag for flag in info.get("flags", []) if flag.startswith(vectors)),
        highest_mhz=probe.one("frequency", _highest_mhz, None),
        caches=tuple(probe.many("caches", _caches)),
        memory_bytes=psutil.virtual_memory().total,
    )


def _simd_level() -> str:
    return str(import_module("placerl.primitives._native").simd_level())


def _highest_mhz() -> float | None:
    frequency = psutil.cpu_freq()
    return (frequency.max or frequency.current or None) if frequency else None


@lru_cache(maxsize=1)
def _cpu_info() -> dict[str, Any]:
    import cpuinfo

    return dict(cpuinfo.get_cpu_info())


def _caches(root: Path = _SYS) -> list[Cache]:
    folders = sorted((root / "devices/system/cpu/cpu0/cache").glob("index*"))
    return [
        _cache({f.name: f.read_text().strip() for f in folder.iterdir() if f.is_file()}) for folder in folders
    ]


def _cache(facts: dict[str, str]) -> Cache:
    return Cache(
        level=int(facts["level"]),
        kind=facts["type"].lower(),
        size_bytes=_bytes(facts["size"]),
        line_bytes=int(facts["coherency_line_size"]),
        shared_by_cores=_count_of_list(facts["shared_cpu_list"]),
    )


def _bytes(text: str) -> int:
    """Convert a size as /sys writes it: "512K" to 524288."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def _count_of_list(text: str) -> int:
    """Count the cores of a list as /sys writes it: "0-3,8" to 5."""
    ends = [part.split("-") for part in text.split(",")]
    return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)


# Accelerators


def _nvidia_smi(fields: str) -> list[list[str]]:
    """Return rows of `nvidia-smi`, which creates no CUDA context; no rows if the program is missing."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    output = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    return [[value.strip() for value in line.split(",")] for line in output.splitlines() if line.strip()]


def _cuda_devices() -> list[Accelerator]:
    import torch

    if torch.cuda.is_available():
        devices = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
        return [
            Accelerator(
                kind="cuda",
                device=f"cuda:{number}",
                name=properties.name,
                memory_bytes=properties.total_memory,
                compute_units=properties.multi_processor_count,
                usable=True,
                reason="",
            )
            for number, properties in enumerate(devices)
        ]
    reason = (
        "PyTorch finds no usable CUDA driver" if torch.version.cuda else "this PyTorch is built without CUDA"
    )
    return [
        Accelerator(
            kind="cuda",
            device=f"cuda:{number}",
            name=name,
            memory_bytes=int(float(memory) * 2**20),
            compute_units=None,
            usable=False,
            reason=reason,
        )
        for number, (name, memory) in enumerate(_nvidia_smi("name,memory.total"))
    ]


def _opencl_devices() -> list[Accelerator]:
    try:
        devices = opencl_runtime.devices()
    except ImportError:
        return []
    return [
        Accelerator(
            kind="opencl",
            device=f"opencl:{number}",
            name=device.name.strip(),
            memory_bytes=device.global_mem_size,
            compute_units=device.max_compute_units,
            usable=True,
            reason="",
        )
        for number, device in enumerate(devices)
    ]


def _statuses(package: str) -> list[BackendStatus]:
    return list(import_module(package).backends())


def _backends(probe: _Probes) -> Iterable[Backend]:
    for package in _PACKAGES_WITH_BACKENDS:
        primitive = package.removeprefix("placerl.primitives.")
        for status in probe.many(f"backends of {primitive}", partial(_statuses, package)):
            yield Backend(
                primitive=primitive, name=status.name, available=status.available, reason=status.reason
            )


# Links


def _bytes_per_s(copy: Callable[[], object]) -> float:
    copy()
    times_s = []
    for _ in range(_LINK_REPEATS):
        start_s = time.perf_counter()
        copy()
        times_s.append(time.perf_counter() - start_s)
    return _LINK_BYTES / float(np.median(times_s))


def _memory_links() -> list[Link]:
    source, target = np.ones(_LINK_BYTES, np.uint8), np.zeros(_LINK_BYTES, np.uint8)
    return [Link(source="cpu", target="cpu", bytes_per_s=_bytes_per_s(lambda: np.copyto(target, source)))]


def _cuda_links(accelerator: Accelerator) -> list[Link]:
    import torch

    host = torch.ones(_LINK_BYTES, dtype=torch.uint8).pin_memory()
    there = torch.empty(_LINK_BYTES, dtype=torch.uint8, device=accelerator.device)
    other = torch.empty_like(there)

    def speed(target: torch.Tensor, source: torch.Tensor) -> float:
        def copy() -> None:
            target.copy_(source)
            torch.cuda.synchronize(accelerator.device)

        return _bytes_per_s(copy)

    return [
        Link(source="cpu", target=accelerator.device, bytes_per_s=speed(there, host)),
        Link(source=accelerator.device, target="cpu", bytes_per_s=speed(host, there)),
        Link(source=accelerator.device, target=accelerator.device, bytes_per_s=speed(other, there)),
    ]


def _opencl_links(accelerator: Accelerator) -> list[Link]:
    device = create("opencl", accelerator.device.removeprefix("opencl:"))
    stream = device.stream()
    host = np.ones(_LINK_BYTES, np.uint8)
    there, other = device.allocate(_LINK_BYTES), device.allocate(_LINK_BYTES)

    def copy() -> None:
        stream.copy(other, there, _LINK_BYTES)
        stream.finish()

    to_device = _bytes_per_s(lambda: stream.upload(there, host))
    to_host = _bytes_per_s(lambda: stream.download(there, _LINK_BYTES, np.uint8))
    within = _bytes_per_s(copy)
    return [
        Link(source=accelerator.device, target=accelerator.device, bytes_per_s=within),
        Link(source="cpu", target=accelerator.device, bytes_per_s=to_device),
        Link(source=accelerator.device, target="cpu", bytes_per_s=to_host),
    ]


# Power


def _rapl_meters(root: Path = _SYS) -> list[PowerMeter]:
    try:
        zones = rapl_zones(root)
    except OSError as error:
        return [PowerMeter(name="RAPL", readable=False, reason=str(error))]
    return [_rapl_meter(zone) for zone in zones]


def _rapl_meter(zone: Path) -> PowerMeter:
    try:
        name = f"RAPL {(zone / 'name').read_text().strip()}"
        int((zone / "energy_uj").read_text())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return PowerMeter(name=f"RAPL {zone.name}", readable=False, reason=f"{zone / 'energy_uj'}: {reason}")
    return PowerMeter(name=name, readable=True, reason="")


def _gpu_meters() -> list[PowerMeter]:
    meters = []
    for number, (name, watts) in enumerate(_nvidia_smi("name,power.draw")):
        readable = watts.replace(".", "", 1).isdigit()
        reason = "" if readable else f"nvidia-smi says {watts!r}"
        meters.append(PowerMeter(name=f"cuda:{number} {name}", readable=readable, reason=reason))
    return meters
