"""The order of training runs that are compared, and the parts of a run that its score uses."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def interleaved(seeds: Iterable[int], sides: Sequence[T]) -> Iterator[tuple[int, T]]:
    """Yield every pair of a seed and a side (one of the things that are compared), in the order to train them.

    All sides of one seed come before the next seed. So an interruption leaves complete comparisons, and slow changes
    of the machine's speed favour no side.
    """
    for seed in seeds:
        for side in sides:
            yield seed, side


def first_fifth(values: Sequence[T]) -> Sequence[T]:
    """Return the first fifth of a run's values, at least one."""
    return values[: max(1, len(values) // 5)]


def last_fifth(values: Sequence[T]) -> Sequence[T]:
    """Return the last fifth of a run's values, at least one. Their mean is the run's score."""
    return values[-max(1, len(values) // 5) :]
