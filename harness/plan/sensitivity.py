"""Finds how much a number of a platform would have to change before another mapping is chosen."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

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


def turning_points(item: Workload, batch_size: int, platform: PlatformFile) -> list[TurningPoint]:
    """Return the turning points of a platform's numbers up to a factor of `LARGEST`, the nearest first."""

    numbers = what_if.numbers(platform)

    def choice(name: str, value: float) -> str:
        return absent_platforms.choice(item, batch_size, what_if.with_number(platform, name, value))

    own = absent_platforms.choice(item, batch_size, platform)
    points: list[TurningPoint] = []
    for name, number in numbers.items():
        if number is None:
            continue
        for largest in (LARGEST, 1 / LARGEST):
            with suppress(UserError):  # out of a number's range, or of what holds the networks
                points += _between(name, number, largest, own, choice)
    return sorted(points, key=lambda point: max(point.factor, 1 / point.factor))


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
