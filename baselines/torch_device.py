"""Finds the device of a job's networks, for workers whose library computes with PyTorch."""

from collections.abc import Iterable
from typing import Any

import torch
from job_loop import CPU, UnsupportedError


def device_of(job: dict[str, Any]) -> str:
    """Return the device that a job's networks are to be on, such as "cpu" or "cuda:0".

    Raises:
        UnsupportedError: PyTorch does not see the device. A library might fall back to the CPU without a word.
    """
    device, count = job.get("device", CPU), torch.cuda.device_count()
    seen = CPU, *["cuda"] * (count > 0), *(f"cuda:{number}" for number in range(count))
    if device not in seen:
        raise UnsupportedError(f"device: found {device}; PyTorch sees {', '.join(seen)}")
    return str(device)


def devices_of(parameters: Iterable[torch.nn.Parameter]) -> str:
    """Return the devices that a library's parameters are on, for a result's notes: "cuda:0" if it is one."""
    return ", ".join(sorted({str(parameter.device) for parameter in parameters}))
