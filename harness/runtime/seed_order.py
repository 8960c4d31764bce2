"""In which order training runs that are compared are made, and what of a run its score is."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def interleaved(seeds: Iterable[int], sides: Sequence[T]) -> Iterator[tuple[int, T]]:
    """Each seed with each side: an interruption leaves whole groups, and the machine's drift favours no side."""
    for seed in seeds:
        for side in sides:
            yield seed, side


def first_fifth(values: Sequence[T]) -> Sequence[T]:
    """What a run began with: its first fifth, at least one."""
    return values[: max(1, len(values) // 5)]


def last_fifth(values: Sequence[T]) -> Sequence[T]:
    """What a run's score is the mean of: its last fifth, at least one."""
    return values[-max(1, len(values) // 5) :]
