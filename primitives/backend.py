"""Backends of a primitive: one module each, found by its name, which says itself whether it is available.

A primitive's package (`primitives.sum_tree`, `primitives.learner`) names its backends. The module
`<package>.<name>_backend` defines `unavailable_reason() -> str`, empty when the backend can be used here, and
`SIMULATED = True` where it simulates hardware, and `MODELLED = True` where a formula gives some of those cycles.
It must import on every machine: what may be missing is imported inside functions. (The suffix keeps a
`torch.py` or `cuda.py` from shadowing the library of that name when its folder lands on `sys.path`.)
"""

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType


class BackendUnavailableError(RuntimeError):
    """A backend exists but cannot be used on this machine; the message says why."""


@dataclass(frozen=True)
class BackendStatus:
    """Whether one backend can be used on this machine.

    Attributes:
        name: the backend's name, as `create` takes it.
        available: whether it can be used here.
        reason: why not; empty when available.
        simulated: its time is counted in clock cycles; how long a call takes here says nothing of it.
        modelled: a formula gives some of those cycles.
    """

    name: str
    available: bool
    reason: str
    simulated: bool = False
    modelled: bool = False


def _module(package: str, name: str) -> ModuleType:
    return import_module(f"{package}.{name}_backend")


def statuses(package: str, names: tuple[str, ...]) -> list[BackendStatus]:
    """The status of each named backend module of `package`, in the order given."""
    modules = {name: _module(package, name) for name in names}
    return [
        BackendStatus(
            name,
            not (reason := module.unavailable_reason()),
            reason,
            simulated=getattr(module, "SIMULATED", False),
            modelled=getattr(module, "MODELLED", False),
        )
        for name, module in modules.items()
    ]


def load(package: str, names: tuple[str, ...], name: str) -> ModuleType:
    """The module of backend `name`.

    Raises:
        ValueError: `name` is none of `names`.
        BackendUnavailableError: the backend cannot be used on this machine.
    """
    if name not in names:
        raise ValueError(f"backend: unknown {name!r}; allowed: {', '.join(names)}")
    module = _module(package, name)
    if reason := module.unavailable_reason():
        raise BackendUnavailableError(f"backend {name!r} of {package} is not available: {reason}")
    return module
