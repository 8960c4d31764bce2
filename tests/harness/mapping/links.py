"""A platform that is only its links, for models and trainings in virtual time."""

from collections.abc import Callable
from dataclasses import dataclass


def _any_speed(source: str, target: str) -> float:
    return 1e300


def _no_latency(source: str, target: str) -> float:
    return 0.0


@dataclass(eq=False)
class Links:
    """A platform with the given links; by default no transfer takes time.

    Attributes:
        bytes_per_s: returns the bandwidth from one device to another, by their names, bytes/s.
        latency_s: returns the latency of such a transfer, seconds.
        cpu_cores: number of the host's cores.
        name: the platform's name.
    """

    bytes_per_s: Callable[[str, str], float] = _any_speed
    latency_s: Callable[[str, str], float] = _no_latency
    cpu_cores: int = 8
    name: str = "made"
