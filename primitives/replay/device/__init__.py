"""Data storage in a device's memory, so that a learner on the device reads samples without the host (MAP Table V).

    storage = DeviceStorage(100_000, fields, device.memory("opencl"))
    replay = PrioritizedReplay(storage, sum_tree.create(100_000))

`primitives.replay.Storage` is the reference: a `DeviceStorage` returns the same items.
"""

from placerl.primitives import backend as _backend
from placerl.primitives.backend import BackendStatus
from placerl.primitives.device import Device
from placerl.primitives.replay.device.device_storage import DeviceBatch, DeviceStorage

__all__ = ["BackendStatus", "DeviceBatch", "DeviceStorage", "backends", "check", "memory"]


def backends() -> list[BackendStatus]:
    """Return the status of each kind of device memory: its name, whether it can be used here, and if not, why."""
    return _backend.statuses(__name__)


def check(*, backend: str, device: str | int | None = None) -> None:
    """Check that `memory` finds a backend and a device here, without creating anything.

    Raises:
        ValueError: there is no such backend or device.
        BackendUnavailableError: the backend cannot be used on this machine.
        TypeError: the backend takes no device.
    """
    _backend.check(__name__, backend, device)


def memory(backend: str, *, device: str | int | None = None) -> Device:
    """Return a device that keeps a replay's rows in its memory, for `DeviceStorage`.

    Args:
        backend: name of one of `backends()`.
        device: number or name of the device, as the backend's `create` takes it; by default the device that a learner
            of this backend uses by default.
    """
    module = _backend.load(__name__, backend)
    opened: Device = module.create() if device is None else module.create(device)
    return opened
