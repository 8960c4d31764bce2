"""Finds OpenCL's platforms, those of Intel's runtime wheels (`pip install placerl[opencl]`) among them.

The wheels put the CPU runtime into the environment's `lib` folder but name another place in their .icd file. The
loader reads OCL_ICD_VENDORS once, when the first platform is asked for: so everything here that uses pyopencl
gets it from `load`.
"""

import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

from primitives import disk_cache as kept

SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
INTEL_CPU = Path(sys.prefix) / "lib" / "libintelocl.so"


def _vendors_folder() -> str | None:
    """A folder with an .icd file for Intel's wheel and the system's; None where the wheel is not installed."""
    if not INTEL_CPU.exists():
        return str(SYSTEM_VENDORS) if SYSTEM_VENDORS.is_dir() else None
    icds = {path.name: path.read_text() for path in sorted(SYSTEM_VENDORS.glob("*.icd"))}
    icds["intel_cpu.icd"] = f"{INTEL_CPU}\n"

    def make(folder: Path) -> None:
        folder.mkdir()
        for name, text in icds.items():
            (folder / name).write_text(text)

    # A temporary folder would stay behind whenever a process is killed.
    return str(kept.made(f"opencl-{kept.key(*icds, *icds.values())}", make))


@cache
def load() -> Any:
    """The module `pyopencl`, with every platform of this machine in its loader's sight.

    Raises:
        ImportError: pyopencl is not installed, or cannot be told where Intel's runtime is.
    """
    import pyopencl

    if "OCL_ICD_VENDORS" not in os.environ:
        try:
            folder = _vendors_folder()
        except OSError as error:
            raise ImportError(
                f"{error}; {kept.CACHE_VARIABLE} may name a folder that can be written"
            ) from error
        if folder:
            os.environ["OCL_ICD_VENDORS"] = folder
    return pyopencl


@cache
def devices() -> tuple[Any, ...]:
    """Every OpenCL device of this machine, GPUs first; empty where there is none.

    Raises:
        ImportError: pyopencl is not installed.
    """
    opencl = load()
    try:
        found = [device for platform in opencl.get_platforms() for device in platform.get_devices()]
    except opencl.LogicError:  # what the loader answers when it knows no platform
        return ()
    return tuple(sorted(found, key=lambda device: not device.type & opencl.device_type.GPU))


def unavailable_reason() -> str:
    """Why OpenCL cannot be used here; empty when it can."""
    try:
        found = devices()
    except ModuleNotFoundError:
        return "pyopencl is not installed: pip install placerl[opencl]"
    except ImportError as error:
        return str(error)
    return (
        ""
        if found
        else "no OpenCL device: install a driver, or the wheels intel-opencl-rt, intel-cmplr-lib-rt"
    )


def choose(device: str | int) -> Any:
    """The device at a position of `devices()`, a number or its digits; else the first whose name has `device` in it.

    "" is the first device.

    Raises:
        ValueError: there is no such device.
    """
    found = devices()
    if isinstance(device, str) and device.isdecimal():
        device = int(device)
    if isinstance(device, int) and 0 <= device < len(found):
        return found[device]
    if isinstance(device, str):
        for candidate in found:
            if device.lower() in candidate.name.lower():
                return candidate
    names = ", ".join(f"{position}: {candidate.name}" for position, candidate in enumerate(found))
    raise ValueError(f"device: found {device!r}; allowed: {names}")


def choose_for_learner(device: str | int = "cpu") -> Any:
    """The device of a position or a part of a name; the first CPU for "cpu", whatever its name.

    Raises:
        ValueError: there is no such device.
    """
    if device == "cpu":
        for candidate in devices():
            if is_cpu(candidate):
                return candidate
    return choose(device)


def is_cpu(device: Any) -> bool:
    """Whether an OpenCL device is a CPU: this machine's own."""
    return bool(device.type & load().device_type.CPU)
