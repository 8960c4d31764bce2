"""The performance table: seconds per call of each primitive on each target, and where they are from."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.mapping.target import Target

Cell = tuple[str, Target]
"""A primitive and the target (backend and device) that runs it: the key of an entry of the performance table."""


@dataclass(frozen=True)
class Entry:
    """One entry of the performance table: the time of one call of a primitive on a target.

    Attributes:
        primitive: name of the timed operation: `learner.step`, `sum_tree.sample`, `sum_tree.update`,
            `storage.gather`, ...
        batch_size: items per call.
        time_s: median seconds per call.
        low_s, high_s: bounds of its 95% interval; both equal `time_s` if there is none.
        provenance: origin of the time, such as measured or published.
    """

    primitive: str
    target: Target
    batch_size: int
    time_s: float
    low_s: float
    high_s: float
    provenance: Provenance


class PerformanceTable:
    """The performance table (MAP VI-A3): seconds per call of each primitive on each backend and device.

    All times are for one batch size. A pair of a primitive and a target (backend and device) is `in` the table if it
    was timed.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = {(entry.primitive, entry.target): entry for entry in entries}

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def targets(self, primitive: str) -> list[Target]:
        """Return the targets (backends and devices) on which a primitive was timed, sorted by name."""
        return sorted(target for name, target in self._entries if name == primitive)

    def entry(self, primitive: str, target: Target) -> Entry:
        """Return the entry of one primitive on one target (backend and device).

        Raises:
            KeyError: the primitive was not timed there.
        """
        return self._entries[primitive, target]

    def __contains__(self, cell: object) -> bool:
        return cell in self._entries

    def time_s(self, primitive: str, target: Target) -> float:
        """Return the median seconds per call of a primitive on a target.

        Args:
            primitive: name of the primitive, such as "sum_tree.sample".
        """
        return self.entry(primitive, target).time_s


def inputs_provenance(table: PerformanceTable, cells: Iterable[Cell]) -> Provenance:
    """Return the weakest provenance among some entries of the performance table; "measured" is the strongest.

    Args:
        cells: the entries, each given by its primitive and its target (backend and device).
    """
    return weakest(*(table.entry(primitive, target).provenance for primitive, target in cells))
