"""Finds how much a number of a platform would have to change before another mapping is chosen."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from placerl.harness.core.errors import UserError
from placerl.harness.mapping import absent_platforms
from placerl.harness.platforms import PlatformFile, SourcedCount, what_if
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

    def choice(name: str, factor: float) -> str:
        value = numbers[name]
        assert value is not None
        whole = isinstance(value, SourcedCount)
        number = round(value.value * factor) if whole else value.value * factor
        return absent_platforms.choice(item, batch_size, what_if.with_number(platform, name, number))

    own = absent_platforms.choice(item, batch_size, platform)
    points: list[TurningPoint] = []
    for name, number in numbers.items():
        if number is None:
            continue
        for largest in (LARGEST, 1 / LARGEST):
            with suppress(UserError):  # out of a number's range, or of what holds the networks
                points += _between(name, number.value, largest, own, choice)
    return sorted(points, key=lambda point: max(point.factor, 1 / point.factor))


def _between(
    name: str, stated: float, largest: float, own: str, choice: Callable[[str, float], str]
) -> list[TurningPoint]:
    """Return the turning point of a number between factor 1, with the choice `own`, and the largest one, if any."""
    other = choice(name, largest)
    if other == own:
        return []
    low, high = 0.0, 1.0  # shares of the largest factor's logarithm
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = choice(name, largest**middle)
        low, high, other = (middle, high, other) if found == own else (low, middle, found)
    return [TurningPoint(name, stated, largest**high, other)]
