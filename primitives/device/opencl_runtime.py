"""Find the OpenCL platforms, including those of Intel's runtime wheels (`pip install 'placerl[opencl]'`).

The wheels put the CPU runtime into the virtual environment's `lib` folder, but their .icd file names another place.
The loader reads OCL_ICD_VENDORS once, when the first platform is requested. Therefore all code here that uses pyopencl
gets it from `load`.
"""

import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

from placerl.primitives import disk_cache
from placerl.primitives.interrupts import whole_imports

SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
INTEL_CPU = Path(sys.prefix) / "lib" / "libintelocl.so"


def _vendors_folder() -> str | None:
    """Return a folder with an .icd file for Intel's wheel and the system's; None if the wheel is not
    installed.
    """
    if not INTEL_CPU.exists():
        return str(SYSTEM_VENDORS) if SYSTEM_VENDORS.is_dir() else None
    icds = {path.name: path.read_text() for path in sorted(SYSTEM_VENDORS.glob("*.icd"))}
    icds["intel_cpu.icd"] = f"{INTEL_CPU}\n"

    def make(folder: Path) -> None:
        folder.mkdir()
        for name, text in icds.items():
            (folder / name).write_text(text)

    # A temporary folder would stay behind whenever a process is killed.
    return str(disk_cache.made(f"opencl-{disk_cache.key(*icds, *icds.values())}", make))


@cache
def load() -> Any:
    """Return the module `pyopencl` after making every platform of this machine visible to its loader.

    Raises:
        ImportError: pyopencl is not installed, or it was loaded before Intel's runtime could be announced to
            it.
    """
    with whole_imports():
        import pyopencl

    if "OCL_ICD_VENDORS" not in os.environ:
        try:
            folder = _vendors_folder()
        except OSError as error:
            raise ImportError(
                f"{error}; {disk_cache.CACHE_VARIABLE} may name a folder that can be written"
            ) from error
        if folder:
            os.environ["OCL_ICD_VENDORS"] = folder
    return pyopencl


@cache
def devices() -> tuple[Any, ...]:
    """Return every OpenCL device of this machine, GPUs first; empty if there is none.

    Raises:
        ImportError: pyopencl is not installed.
    """
    opencl = load()
    try:
        available = [device for platform in opencl.get_platforms() for device in platform.get_devices()]
    except opencl.LogicError:  # the loader raises this when it knows no platform
        return ()
    return tuple(sorted(available, key=lambda device: not device.type & opencl.device_type.GPU))


def unavailable_reason() -> str:
    """Return why OpenCL cannot be used here; empty if it can."""
    try:
        available = devices()
    except ModuleNotFoundError:
        return "pyopencl is not installed: pip install 'placerl[opencl]'"
    except ImportError as error:
        return str(error)
    return (
        ""
        if available
        else "no OpenCL device: install a driver, or the wheels intel-opencl-rt, intel-cmplr-lib-rt"
    )


def choose(device: str | int) -> Any:
    """Return the OpenCL device at a position of `devices()`, or else the first device whose name contains `device`.

    A position may be an integer or a string of digits; "" is the first device.

    Raises:
        ValueError: there is no such device.
    """
    available = devices()
    if isinstance(device, str) and device.isdecimal():
        device = int(device)
    if isinstance(device, int) and not isinstance(device, bool) and 0 <= device < len(available):
        return available[device]
    if isinstance(device, str):
        for candidate in available:
            if device.lower() in candidate.name.lower():
                return candidate
    names = ", ".join(f"{position}: {candidate.name}" for position, candidate in enumerate(available))
    raise ValueError(f"device: found {device!r}; allowed: {names}")


@cache
def context(device: Any) -> Any:
    """Return the OpenCL context of a device, always the same one, so that a learner and a replay share buffers."""
    return load().Context([device])


def choose_for_learner(device: str | int = "cpu") -> Any:
    """Return the OpenCL device that a learner's `device` argument names.

    Args:
        device: "cpu" for the first CPU, whatever its name; otherwise a position of `devices()` or a part of a name.
    """
    if device == "cpu":
        for candidate in devices():
            if is_cpu(candidate):
                return candidate
    return choose(device)


def is_cpu(device: Any) -> bool:
    """Return whether an OpenCL device is this machine's CPU."""
    return bool(device.type & load().device_type.CPU)
