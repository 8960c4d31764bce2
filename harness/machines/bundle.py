"""A bundle: what people send of a machine, its card and the times of primitives that a run measured there.

The schema is committed as `bundle.schema.json`, next to this file. `harness.machines.checking` says what is refused.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import ClassVar, Literal

from pydantic import Field

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.core.toml_models import TomlTable
from placerl.harness.machines.card import Card, Facts
from placerl.harness.machines.sent_file import SentFile, content_hash
from placerl.harness.store.rows import PieceTime

Name = Field(min_length=1, max_length=120)


class RunRow(TomlTable):
    """The time of one primitive on one target, in a run.

    Attributes:
        workload: a shipped workload's name.
        workload_hash: hash of the workload's fields (`workload_hash`).
        batch_size: transitions of a batch.
        primitive: the primitive, such as "sum_tree.sample".
        target: backend and device, such as "torch:cuda".
        backend, device: the same apart, as the store has them.
        items_per_call: items of a call; None if the row states none.
        status: "ok", or "too_noisy" for a wide interval.
        checked: whether the output was compared with a reference before it was timed.
        time_s: seconds of a call, the median of `samples`.
        low_s, high_s: its 95% interval; None without one.
        samples: seconds of a call, in each round.
    """

    workload: str = Name
    workload_hash: str = Field(pattern="^[0-9a-f]{64}$")
    batch_size: int = Field(ge=1)
    primitive: str = Name
    target: str = Name
    backend: str = Name
    device: str = Name
    items_per_call: int | None = Field(default=None, ge=1)
    status: Literal["ok", "too_noisy"] = "ok"
    checked: bool
    time_s: float = Field(gt=0)
    low_s: float | None = Field(default=None, gt=0)
    high_s: float | None = Field(default=None, gt=0)
    samples: tuple[float, ...] = Field(min_length=1, max_length=1000)

    @property
    def key(self) -> tuple[str, int, str, str]:
        """What tells the row from others of a machine: workload, batch size, primitive and target."""
        return self.workload, self.batch_size, self.primitive, self.target


class Bundle(SentFile):
    """A card with rows of a run on the same machine."""

    card: Card
    rows: tuple[RunRow, ...] = Field(min_length=1, max_length=20_000)

    FORMAT: ClassVar[str] = "placerl-bundle-1"
    LARGEST_BYTES: ClassVar[int] = 16 * 2**20

    def has(self, workload: str, batch_size: int) -> bool:
        """Return whether there are times of a workload at a batch size."""
        return any((row.workload, row.batch_size) == (workload, batch_size) for row in self.rows)


@lru_cache(maxsize=256)
def workload_hash(name: str) -> str:
    """Return the hash of a shipped workload's fields.

    Raises:
        UserError: there is no such workload.
    """
    if name not in workloads.names():
        raise UserError("bundle", "workload", repr(name), ", ".join(workloads.names()))
    return content_hash(workloads.load(name).tables())


def bundle(card: Card, rows: Iterable[PieceTime]) -> Bundle:
    """Return the bundle of a card and of the rows of a run; rows without a time, or not of the machine, are left out.

    The protocol times nothing whose output was not just found correct, so that every row with a time is `checked`.

    Args:
        rows: rows of suite `profile`; of those of one piece the last counts.

    Raises:
        UserError: no row is left.
    """
    shipped = set(workloads.names())
    found = {
        row.key: row
        for row in map(_run_row, (one for one in rows if one.workload in shipped and _is_timed(one)))
    }
    if not found:
        raise UserError("bundle", "rows", "none of a shipped workload", "a run with rows of suite profile")
    return Bundle(format=Bundle.FORMAT, card=card, rows=tuple(found.values())).sealed()


def _is_timed(row: PieceTime) -> bool:
    of_machine = row.suite == Suite.PROFILE and row.provenance is Provenance.MEASURED
    return (
        of_machine and row.value is not None and row.value > 0 and bool(row.samples) and min(row.samples) > 0
    )


def _run_row(row: PieceTime) -> RunRow:
    assert row.value is not None
    assert row.batch_size is not None
    return RunRow(
        workload=row.workload,
        workload_hash=workload_hash(row.workload),
        batch_size=row.batch_size,
        primitive=row.primitive,
        target=row.target or row.device,
        backend=row.backend,
        device=row.device,
        items_per_call=row.items_per_call,
        status="ok" if row.status == "ok" else "too_noisy",
        checked=True,
        time_s=row.value,
        low_s=row.low if row.low and row.low > 0 else None,
        high_s=row.high if row.low and row.low > 0 else None,
        samples=row.samples,
    )


def differences(card: Facts, run: Facts) -> Sequence[str]:
    """Return what contradicts that a card and a run are of the same machine: the names of the fields that differ."""
    names = ("cpu", "architecture", "logical_cores", "quota_cores", "simd_level", "memory_gib")
    return [name for name in names if getattr(card, name) != getattr(run, name)]
