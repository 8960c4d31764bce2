"""Find the backends of a primitive. Each backend is one module, found by its file name.

The module `<name>_backend.py` is stored in the primitive's folder (`primitives/sum_tree`) or in a subfolder
(`primitives/learner/native`). It defines `unavailable_reason() -> str`, which is empty when the backend can
be used here. It sets `SIMULATED = True` if it simulates hardware, and `MODELLED = True` if a formula gives
some of the simulated cycles. It must import on every machine, so optional libraries are imported inside
functions. (The suffix keeps a `torch.py` or `cuda.py` from shadowing the library of that name when its folder
is on `sys.path`.)
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType

_SUFFIX = "_backend"


class BackendUnavailableError(RuntimeError):
    """Raised if a backend exists but cannot be used on this machine; the message says why."""


@dataclass(frozen=True)
class BackendStatus:
    """Says whether one backend of a primitive can be used on this machine.

    Attributes:
        name: the backend's name, as passed to `create`.
        available: whether it can be used here.
        reason: why it cannot be used; empty if it can.
        simulated: whether the backend simulates hardware. Its time is then counted in clock cycles of that hardware;
            the wall time of a call says nothing about it.
        modelled: whether a formula, instead of the simulation, gives some of those cycles.
    """

    name: str
    available: bool
    reason: str
    simulated: bool = False
    modelled: bool = False


@cache
def _modules(package: str) -> dict[str, str]:
    """Return the module name of each backend of a package: the reference backend first, then alphabetically."""
    modules: dict[str, str] = {}
    for folder in map(Path, import_module(package).__path__):
        for path in (*folder.glob(f"*{_SUFFIX}.py"), *folder.glob(f"*/*{_SUFFIX}.py")):
            name = path.stem.removesuffix(_SUFFIX)
            module = ".".join((package, *path.relative_to(folder).with_suffix("").parts))
            if modules.setdefault(name, module) != module:
                raise RuntimeError(f"{package}: two backends are called {name}: {modules[name]} and {module}")
    return dict(sorted(modules.items(), key=lambda item: (item[0] != "reference", item[0])))


def names(package: str) -> tuple[str, ...]:
    """Return the names of a primitive's backends: the plain reference first, then in alphabetical order.

    Args:
        package: the primitive's package, such as "placerl.primitives.sum_tree".
    """
    return tuple(_modules(package))


def statuses(package: str) -> list[BackendStatus]:
    """Return the status of each backend of a primitive, in the order of `names`."""
    return [status(package, name) for name in names(package)]


def status(package: str, name: str) -> BackendStatus:
    """Return the status of one backend of a primitive.

    Raises:
        ValueError: `package` has no such backend.
    """
    module = import_module(path(package, name))
    return BackendStatus(
        name,
        not (reason := module.unavailable_reason()),
        reason,
        simulated=getattr(module, "SIMULATED", False),
        modelled=getattr(module, "MODELLED", False),
    )


def path(package: str, name: str) -> str:
    """Return the dotted path of a backend's module.

    Raises:
        ValueError: `package` has no such backend.
    """
    modules = _modules(package)
    if name not in modules:
        raise ValueError(f"backend: unknown {name!r}; allowed: {', '.join(modules)}")
    return modules[name]


def check(package: str, name: str, device: str | int | None = None) -> None:
    """Check that a backend can be used here, on a device, without creating anything there.

    A backend with several devices has a function `check_device` in its module, which raises ValueError for others.

    Args:
        device: the device, as the backend's `create` takes it; None: its default.

    Raises:
        ValueError: `package` has no such backend, or the backend no such device.
        BackendUnavailableError: the backend cannot be used on this machine.
        TypeError: the backend takes no device.
    """
    module = load(package, name)
    if device is None:
        return
    if not hasattr(module, "check_device"):
        raise TypeError(f"device: found an option that backend {name!r} lacks; allowed: no device")
    module.check_device(device)


def check_options(
    create: Callable[..., object], name: str, options: Collection[str], positional: int = 0
) -> None:
    """Check that a backend has all options that it is given.

    Args:
        positional: how many of the first parameters are no options.

    Raises:
        TypeError: there is no such option.
    """
    parameters = list(signature(create).parameters.values())[positional:]
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        return  # which the function checks itself
    known = [parameter.name for parameter in parameters]
    for option in options:
        if option not in known:
            allowed = ", ".join(known) or "no options"
            raise TypeError(f"{option}: found an option that backend {name!r} lacks; allowed: {allowed}")


def load(package: str, name: str) -> ModuleType:
    """Import the module of a backend, and return it.

    Raises:
        ValueError: `package` has no such backend.
        BackendUnavailableError: the backend cannot be used on this machine.
    """
    module = import_module(path(package, name))
    if reason := module.unavailable_reason():
        raise BackendUnavailableError(f"backend {name!r} of {package} is not available: {reason}")
    return module
