"""Cuts trainings of hours into cells (pieces of the plan) of minutes, each stored when it ends.

A leg is a part of a training. It begins with the snapshot that the leg before left next to the store
(`harness.runtime.snapshot`), so that a process that is killed loses the leg in hand alone. The files of a snapshot are
removed when the next leg is stored.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.measure.sequential import look_of
from placerl.harness.runtime import snapshot
from placerl.harness.runtime.snapshot import Snapshot, seed_of
from placerl.harness.runtime.training import Training
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run

PIECE_S = 1200.0
"""Longest expected time of a leg, seconds."""
SO_FAR = "return_so_far"
"""Quantity of the row of a leg that is not the last: the mean return of its training up to then."""


@dataclass(frozen=True)
class Leg:
    """A leg of a training.

    Attributes:
        number: its number, from 0.
        files: path of the snapshots without the number of the leg; needed if there are several legs.
    """

    number: int = 0
    count: int = 1
    files: Path = Path()

    @property
    def is_last(self) -> bool:
        """Return whether the training ends with this leg."""
        return self.number == self.count - 1

    def until(self, steps: int) -> int:
        """Return how many of a training's steps are taken when the leg ends."""
        return steps * (self.number + 1) // self.count

    def seed(self, seed: int) -> int:
        """Return the seed of the leg's random streams in a training of this seed."""
        return seed_of(seed, self.number)

    def begun(self) -> Snapshot | None:
        """Return the snapshot with which the leg begins; None for the first leg.

        Raises:
            UserError: there is none, or it is damaged.
        """
        if not self.number:
            return None
        path = self._path(self.number - 1)
        try:
            return Snapshot.read(path)
        except (OSError, ValueError) as error:
            allowed = "the snapshot of the leg before; with --fresh the training begins again"
            raise UserError(path, "snapshot", error, allowed) from error

    def save(self, training: Training, notes: Mapping[str, Any]) -> None:
        """Write the snapshot with which the next leg begins.

        Args:
            notes: what the next leg needs to know of the training, values that JSON has.
        """
        self.files.parent.mkdir(parents=True, exist_ok=True)
        training.write_snapshot(self._path(self.number), notes)

    def remove_begun(self) -> None:
        """Remove the snapshot with which the leg began, if there is one."""
        snapshot.remove(self._path(self.number - 1))

    def _path(self, number: int) -> Path:
        return self.files.with_name(f"{self.files.name}.{number + 1}")


WHOLE = Leg()
"""The only leg of a training that is not cut."""


def legs_of(seconds: float, divides: int) -> int:
    """Return the fewest legs of at most `PIECE_S` for a training of so many seconds, a divisor of `divides`."""
    return next(
        (legs for legs in range(1, divides) if divides % legs == 0 and seconds / legs <= PIECE_S), divides
    )


def cells(
    key: str,
    legs: int,
    estimate_s: float,
    train: Callable[[Leg, Report], Row],
    *,
    position: int,
    moot: Callable[[Run], bool],
    one_thread: bool = True,
) -> list[Cell]:
    """Return the cells of a training's legs, each of which needs the one before.

    Args:
        key: key of the last leg's cell, without "claim/".
        position: position of the training's seed among those of its sequential test, from 0.
        moot: returns whether a run's rows decide what the training would help to decide.
        one_thread: whether it computes in one thread (`Cell.one_thread`).
    """
    keys = [f"claim/{key}" + (f"/leg{n}of{legs}" if n < legs else "") for n in range(1, legs + 1)]

    def leg(run: Run, number: int) -> Leg:
        return Leg(number, legs, run.path.parent / "trainings" / run.record.key / key.replace("/", "-"))

    def measure(number: int, run: Run, report: Report) -> Sequence[Row]:
        return [train(leg(run, number), report)]

    def stored(number: int, run: Run) -> None:
        leg(run, number).remove_begun()

    return [
        Cell(
            name,
            estimate_s / legs,
            partial(measure, number),
            f"claim/{key}",
            needs=(before,) if before else (),
            look=look_of(position),
            moot=moot,
            one_thread=one_thread,
            stored=partial(stored, number),
        )
        for number, (name, before) in enumerate(zip(keys, ("", *keys), strict=False))
    ]
