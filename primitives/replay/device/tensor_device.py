"""PyTorch's devices and streams as this project's (`primitives.device`)."""

import torch

from placerl.primitives import backend, device
from placerl.primitives.device import Device, Stream

KINDS = {"cuda": "cuda", "cpu": "host"}
"""Kinds of devices (`primitives.device`) by PyTorch's types of devices."""


def opened(where: torch.device) -> tuple[torch.device, Device]:
    """Return PyTorch's device with its number, and the same device for kernels; "cpu" is the device "host".

    Raises:
        ValueError: a device of another type than "cuda" and "cpu".
        BackendUnavailableError: the device cannot be used here.
    """
    if where.type not in KINDS:
        raise ValueError(f"device: found {where}; allowed: {', '.join(KINDS)}")
    kind = KINDS[where.type]
    if reason := device.unavailable_reason(kind):
        raise backend.BackendUnavailableError(f"device {where} is not available: {reason}")
    if where.type == "cuda" and where.index is None:
        where = torch.device("cuda", torch.cuda.current_device())
    return where, device.create(kind, where.index or 0)


def current_stream(where: torch.device) -> int:
    """Return the address of PyTorch's current stream on a device; 0 for the default one, and on the host."""
    return int(torch.cuda.current_stream(where).cuda_stream) if where.type == "cuda" else 0


def stream_at(on: Device, address: int) -> Stream:
    """Return PyTorch's stream with an address, as of `current_stream`."""
    return on.stream_at(address) if address else on.usual_stream()
