"""Finds how much a number of a platform would have to change before another mapping is chosen."""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

from placerl.harness.core.errors import UserError
from placerl.harness.mapping import absent_platforms
from placerl.harness.platforms import PlatformFile, SourcedCount, SourcedNumber, what_if
from placerl.harness.workloads import Workload

LARGEST = 16.0
"""Largest factor, up and down, that is tried."""
_HALVINGS = 6  # of the factor's logarithm: the answer is exact within 16^(1/64), 4%


@dataclass(frozen=True)
class TurningPoint:
    """The factor of one number of a platform from which on another mapping is chosen.

    Attributes:
        name: the number, such as "link.cpu-gpu.gb_s".
        stated: its value.
        factor: what it is multiplied by; below 1 for a smaller number.
        mapping: the mapping that is chosen then.
    """

    name: str
    stated: float
    factor: float
    mapping: str

    def __str__(self) -> str:
        value = self.stated * self.factor
        return f"With {self.name}={value:.3g}, {self.factor:.2g} times as large, it would be {self.mapping}."


@dataclass(frozen=True)
class Limit:
    """How far a number of a platform was tried that could not be tried up to `LARGEST`.

    Attributes:
        name: the number, such as "device.fpga.last_level_cache_mb".
        factor: the furthest factor that was tried; below 1 for a smaller number, 1 if none.
        reason: why a larger change was refused.
    """

    name: str
    factor: float
    reason: str

    def __str__(self) -> str:
        how = "not tried" if self.factor == 1 else f"tried up to {self.factor:.2g} times"
        return f"{self.name} was {how}, as a larger change is refused: {self.reason}"


def turning_points(
    item: Workload, batch_size: int, platform: PlatformFile
) -> tuple[list[TurningPoint], list[Limit]]:
    """Find the turning points of a platform's numbers up to a factor of `LARGEST`.

    Returns:
        The turning points, the nearest first, and the numbers that could be tried less far in a direction, because a
        number so large or small is out of its range, or cannot hold the networks.
    """

    numbers = what_if.numbers(platform)

    def choice(name: str, value: float) -> str:
        return absent_platforms.choice(item, batch_size, what_if.with_number(platform, name, value))

    own = absent_platforms.choice(item, batch_size, platform)
    points: list[TurningPoint] = []
    limits: list[Limit] = []
    for name, number in numbers.items():
        if number is None:
            continue
        for largest in (LARGEST, 1 / LARGEST):
            found, limit = _as_far_as_allowed(name, number, largest, own, choice)
            points += found
            limits += limit
    return sorted(points, key=lambda point: max(point.factor, 1 / point.factor)), limits


def _as_far_as_allowed(
    name: str, number: SourcedNumber, largest: float, own: str, choice: Callable[[str, float], str]
) -> tuple[list[TurningPoint], list[Limit]]:
    """Return the turning point of a number in a direction, if any, and how far it was tried if not up to `largest`.

    A factor that is refused is replaced by its square root, until one is accepted.
    """
    factor, reason = largest, ""
    for _ in range(_HALVINGS + 1):
        try:
            found = _between(name, number, factor, own, choice)
        except UserError as error:
            factor, reason = sqrt(factor), str(error)
        else:
            return found, [Limit(name, factor, reason)] if reason else []
    return [], [Limit(name, 1.0, reason)]


def _times(number: SourcedNumber, factor: float) -> float:
    """Return a number times a factor; of a count, which no platform has a part of, the nearest one, at least 1."""
    value = number.value * factor
    return max(1, round(value)) if isinstance(number, SourcedCount) else value


def _between(
    name: str, number: SourcedNumber, largest: float, own: str, choice: Callable[[str, float], str]
) -> list[TurningPoint]:
    """Return the turning point of a number between factor 1, with the choice `own`, and the largest one, if any.

    Args:
        choice: returns the mapping that is chosen where the number of a name has another value.
    """
    other = choice(name, _times(number, largest))
    if other == own:
        return []
    low, high = 0.0, 1.0  # shares of the largest factor's logarithm
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = choice(name, _times(number, largest**middle))
        low, high, other = (middle, high, other) if found == own else (low, middle, found)
    return [TurningPoint(name, number.value, _times(number, largest**high) / number.value, other)]
