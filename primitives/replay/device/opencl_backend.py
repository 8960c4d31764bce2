"""Keep a replay's rows in an OpenCL device's memory, where a learner of backend "opencl" reads them."""

from placerl.primitives.device import Device, opencl


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    return opencl.unavailable_reason()


check_device = opencl.check_device


def create(device: str | int = "cpu") -> Device:
    """Return the device that keeps the rows.

    Args:
        device: a position in `opencl_runtime.devices()`, a part of a device's name, or "cpu" for the first CPU.

    Raises:
        ValueError: there is no such device.
    """
    return opencl.create(device)
