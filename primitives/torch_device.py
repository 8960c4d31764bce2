"""PyTorch's devices by name, for the backends that compute with PyTorch."""

from typing import TYPE_CHECKING

from placerl.primitives.interrupts import whole_imports

if TYPE_CHECKING:
    import torch

_KINDS = "cpu, cuda, cuda:<number>"


def torch_device(name: str) -> "torch.device":
    """Return the device of this machine that PyTorch calls "cpu", "cuda" or "cuda:<number>".

    Raises:
        ValueError: there is no such device.
    """
    with whole_imports():
        import torch

    try:
        if not isinstance(name, str):  # PyTorch takes a number as one of an accelerator
            raise RuntimeError
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device: found {name!r}; allowed: {_KINDS}") from None
    if device.type not in ("cpu", "cuda") or (device.type == "cpu" and device.index is not None):
        raise ValueError(f"device: found {name!r}; allowed: {_KINDS}")
    if device.type == "cuda" and (device.index or 0) >= (count := torch.cuda.device_count()):
        here = f"cpu, or a CUDA device of this machine, which has {count}"
        raise ValueError(f"device: found {name!r}; allowed: {here}")
    return device
