"""The order of training runs that are compared, and the parts of a run that its score uses."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def interleaved(seeds: Iterable[int], sides: Sequence[T]) -> Iterator[tuple[int, T]]:
    """Yield each seed with each side: an interruption leaves whole groups, and the machine's drift favours no
    side.
    """
    for seed in seeds:
        for side in sides:
            yield seed, side


def first_fifth(values: Sequence[T]) -> Sequence[T]:
    """Return the first fifth of a run's values, at least one."""
    return values[: max(1, len(values) // 5)]


def last_fifth(values: Sequence[T]) -> Sequence[T]:
    """Return the last fifth of a run's values, at least one, whose mean is the run's score."""
    return values[-max(1, len(values) // 5) :]
