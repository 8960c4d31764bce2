"""Sum trees: leaves hold priorities, inner nodes hold sums, so that a leaf is drawn in proportion to its
priority.

    >>> import numpy as np
    >>> import placerl
    >>> tree = placerl.sum_tree.create(1000, backend="reference")
    >>> tree.update(np.arange(3), np.array([1.0, 0.0, 2.0]))
    >>> tree.total
    3.0
    >>> tree.find(np.array([0.5, 1.0])).tolist()
    [0, 2]

Source: MAP IV-C and IV-D, PAL IV-C.
"""

from placerl.primitives import backend as _backend
from placerl.primitives.backend import BackendStatus
from placerl.primitives.sum_tree.base import SumTree


def backends() -> list[BackendStatus]:
    """Return the status of each backend: its name, whether it can be used on this machine, and if not, why."""
    return _backend.statuses(__name__)


def check(*, backend: str, device: str | int | None = None) -> None:
    """Check that `create` has a backend and a device here, without creating anything.

    Raises:
        ValueError: there is no such backend or device.
        BackendUnavailableError: the backend cannot be used on this machine.
        TypeError: the backend takes no device.
    """
    _backend.check(__name__, backend, device)


def create(capacity: int, *, backend: str = "native", fanout: int = 16, **options: object) -> SumTree:
    """Create a sum tree whose priorities are all 0.

    Args:
        capacity: number of leaves, at least 1; it need not be a power of `fanout`.
        backend: one of `backends()`.
        fanout: children of a node (K), 2 to 256.
        **options: options of the backend, documented in its module: `dtype`, `device`, ...

    Raises:
        ValueError: `capacity`, `backend`, `fanout` or an option's value is not allowed.
        TypeError: an argument's type is wrong, or the backend has no such option.
        BackendUnavailableError: the backend cannot be used on this machine.
    """
    module = _backend.load(__name__, backend)
    _backend.check_options(module.create, backend, options, positional=2)
    tree: SumTree = module.create(capacity, fanout, **options)
    return tree


__all__ = ["BackendStatus", "SumTree", "backends", "check", "create"]
