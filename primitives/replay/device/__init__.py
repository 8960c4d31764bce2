"""Data storage in a device's memory, so that sampled items reach a learner there without the host (MAP Table V).

    memory = device.memory("opencl")
    storage = DeviceStorage(100_000, fields, memory)
    replay = PrioritizedReplay(storage, sum_tree.create(100_000))

The reference, which defines what is right, is `primitives.replay.Storage`.
"""

from primitives import backend as _backend
from primitives.backend import BackendStatus
from primitives.replay.device.device_storage import DeviceBatch, DeviceStorage, RowMemory

__all__ = ["BackendStatus", "DeviceBatch", "DeviceStorage", "RowMemory", "backends", "memory"]


def backends() -> list[BackendStatus]:
    """Return each kind of device, whether it can be used on this machine, and if not, why."""
    return _backend.statuses(__name__)


def memory(backend: str, *, device: str | int | None = None) -> RowMemory:
    """Return the memory of a device.

    Args:
        backend: one of `backends()`.
        device: which of its devices; None for the one that a learner of this backend has by default.

    Raises:
        ValueError: there is no such backend or device.
        BackendUnavailableError: the backend cannot be used on this machine.
    """
    module = _backend.load(__name__, backend)
    made: RowMemory = module.create() if device is None else module.create(device)
    return made
