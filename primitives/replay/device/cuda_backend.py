"""Keep a replay's rows in a CUDA device's memory, where a PyTorch learner reads them without the host."""

from placerl.primitives.device import Device, cuda


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    return cuda.unavailable_reason()


check_device = cuda.check_device


def create(device: str | int = 0) -> Device:
    """Return the device that keeps the rows."""
    return cuda.create(device)
