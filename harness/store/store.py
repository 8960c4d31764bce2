"""The store: one SQLite file that keeps every measurement from the moment it is made.

A run holds the measurements of one tier (a size of the plan, such as "quick"), one revision of the code and one
machine. Beginning the same run again resumes it. A run consists of cells, the units of work that are not repeated
once they are finished. A cell and all its measurements are stored in one step, so a run killed at any moment loses at
most the current cell.

The file is never changed in place: each change replaces it by a changed copy (`harness.store.draft`). So every copy of
this one file is whole, whenever it is made, and readers need neither locks nor the right to write.

Only one process writes at a time (it holds a lock on `<store>-writer` next to the file), while any number may
read. Nothing in the file is ever executed: text columns hold plain text, numbers and JSON.
"""

import json
import sqlite3
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from placerl.harness.core import interrupts
from placerl.harness.core.errors import UserError
from placerl.harness.core.row import KINDS, RUN_COLUMNS, Row
from placerl.harness.store import migration, tables
from placerl.harness.store.draft import draft
from placerl.harness.store.file import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    check_files,
    clear_errors,
    create_if_missing,
    is_old,
    valid_content,
)
from placerl.harness.store.lock import WriterLock
from placerl.harness.store.snapshot import snapshot, state
from placerl.harness.store.tables import parsed

if TYPE_CHECKING:
    import pandas as pd

    from placerl.harness.platforms.machine import Machine

__all__ = ["APPLICATION_ID", "SCHEMA_VERSION", "Run", "RunRecord", "Store"]

_IDENTITY = ("key", "tier", "revision", "fingerprint", "machine", "started_at")
_RUN_VALUES = f"INTO run ({', '.join(_IDENTITY)}) VALUES (?, ?, ?, ?, ?, ?)"
R = TypeVar("R", bound=Row)


def _now() -> str:
    """Return the time of day, for people to read; nothing is ordered or decided by it, since clocks jump."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@dataclass(frozen=True)
class RunRecord:
    """The identity and origin of a stored run (the measurements of one plan, revision of the code and machine).

    Attributes:
        id: number within this store, increasing in the order in which runs began.
        key: identifies the run in every store that it is copied to.
        tier: "quick", "standard", "full" or another name of what was run.
        revision: revision of the code (`harness.core.revision`).
        fingerprint: hash that identifies the machine (`Machine.fingerprint`).
        started_at: when it began, in UTC, ISO 8601.
        machine: the machine's description, as JSON.
    """

    id: int
    key: str
    tier: str
    revision: str
    fingerprint: str
    started_at: str
    machine: dict[str, Any]


def _identity(record: RunRecord) -> tuple[str, ...]:
    """Return what every copy of a run has in common, as it is stored; the number in the store is not of it."""
    machine = json.dumps(record.machine)
    return record.key, record.tier, record.revision, record.fingerprint, machine, record.started_at


def as_frame(stored: Sequence[tuple[RunRecord, str, str, Row]]) -> "pd.DataFrame":
    """Return rows as a table, as `Store.frame` describes it.

    Args:
        stored: of each row its run, and the name and time of the cell (unit of work) that made it.
    """
    import pandas as pd  # takes half a second, which writing a measurement need not wait for

    kinds = dict.fromkeys([*KINDS.values(), *(type(row) for *_, row in stored)])
    own = dict.fromkeys(name for kind in kinds for name in tables.columns(kind))
    rows = [
        (
            *(run.id, run.key, run.tier, run.revision, run.fingerprint, run.started_at, cell, finished_at),
            *(row.table, row.who, row.where),
            *(values.get(name) for name in (*tables.SHARED, *own)),
        )
        for run, cell, finished_at, row in stored
        for values in [vars(row) | {"provenance": str(row.provenance)}]
    ]
    # Texts stay Python objects: claims select rows some hundred times, which takes all such columns at once.
    frame = pd.DataFrame(
        rows, columns=[*RUN_COLUMNS, "kind", "who", "where", *tables.SHARED, *own], dtype=object
    )
    frame["run"] = frame["run"].astype("int64")
    frame["batch_size"] = frame["batch_size"].astype("Int64")
    for name in ("value", "low", "high"):
        frame[name] = frame[name].astype("float64")
    return frame.copy()  # in one piece a type of columns


class Run:
    """A stored run: the measurements of one tier (a size of the plan), one revision of the code and one machine.

    `Store.begin_run` returns a run. Finished cells (units of work) can be added to it.
    """

    def __init__(self, store: "Store", record: RunRecord) -> None:
        self.record = record
        self._store = store

    @property
    def path(self) -> Path:
        """The path of the store's file."""
        return self._store.path

    def siblings(self) -> list["Run"]:
        """Return the runs of this run's store with the same tier, itself among them, in the order in which they began.

        They are those of every machine and every revision of the code.
        """
        records = self._store.runs()
        return [Run(self._store, record) for record in records if record.tier == self.record.tier]

    def counted(self) -> list["Run"]:
        """Return the siblings whose cells count as measured: not those before a run that `--fresh` began."""
        own, siblings = self.record, self.siblings()
        fresh = any(
            other.id < own.id and (other.revision, other.fingerprint) == (own.revision, own.fingerprint)
            for other in (one.record for one in siblings)
        )
        return [one for one in siblings if not fresh or one.record.id >= own.id]

    def close(self) -> None:
        """Close the run's store, as `Store.close`."""
        self._store.close()

    def finished(self, cell: str) -> bool:
        """Return whether a cell (a unit of work) is finished, in this process or in an earlier one."""
        with self._store.reading() as database:
            query = "SELECT 1 FROM cell WHERE run_id = ? AND name = ?"
            return database.execute(query, (self.record.id, cell)).fetchone() is not None

    def cells(self) -> list[str]:
        """Return the names of the cells (units of work) that this run has finished, in the order of finishing."""
        return self._store.cells(self.record.id)

    def measurements(self, **chosen: Any) -> Sequence[Row]:
        """Return this run's measurements whose fields have the given values, in the order in which they were made.

        Args:
            chosen: `cell`, `suite`, `workload`, `primitive` or `batch_size`, such as `suite="profile"`; all
                must match.
        """
        return self._store.measurements(run=self.record.id, **chosen)

    def rows(self, kind: type[R], **chosen: Any) -> list[R]:
        """Return this run's rows of a kind whose fields have the given values, as `measurements` does."""
        return [row for row in self.measurements(**chosen) if isinstance(row, kind)]

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make everything that a `with` block stores one change: all of it is stored at the end, or nothing.

        Each change writes the whole store, so that one is also faster than several.
        """
        with self._store.writing():
            yield

    def finish(self, cell: str, measurements: Sequence[Row]) -> None:
        """Store a finished cell (a unit of work) with all its measurements.

        Either all of it is stored durably when this returns, or nothing is.

        Args:
            cell: the cell's name, unique within the run.
            measurements: at least one; a failure is also stored as a measurement, with its reason.

        Raises:
            ValueError: the cell is already finished, or there is no measurement.
            UserError: the store cannot be written (a full disk, a lock); the cell remains unfinished.
        """
        if not cell or not measurements:
            raise ValueError(
                f"cell {cell!r}, measurements: found {len(measurements)}; allowed: a name, 1 or more"
            )
        with self._store.writing() as database:
            try:
                query = "INSERT INTO cell (run_id, name, finished_at) VALUES (?, ?, ?)"
                cell_id = database.execute(query, (self.record.id, cell, _now())).lastrowid
            except sqlite3.IntegrityError:
                raise ValueError(
                    f"cell: found {cell!r}; allowed: one not finished before in this run"
                ) from None
            tables.insert(database, cell_id, measurements)


class Store:
    """An open store, created by `Store.open`. As a context manager it closes itself."""

    def __init__(self, path: Path, *, read_only: bool, timeout_s: float) -> None:
        self.path = path
        self._read_only = read_only
        self._timeout_s = timeout_s
        self._lock: WriterLock | None = None
        self._draft: sqlite3.Connection | None = None
        self._closed = False
        self._seen = state(path)
        self._database = snapshot(path)

    @classmethod
    def open(cls, path: str | Path, *, read_only: bool = False, timeout_s: float = 10.0) -> Self:
        """Open the store at `path`; creates it (and its folder) if it does not exist.

        Args:
            read_only: whether to create and change nothing; the file must then exist, and is read as it is now: what
                another process stores later does not show.
            timeout_s: how long to wait for another process that holds the file locked, at least 0.

        Raises:
            UserError: the folder cannot be written, the file is not a PlaceRL store or has another schema version
                (it is not changed), or another process keeps it locked.
        """
        path = Path(path)
        with clear_errors(path):
            if not read_only:
                create_if_missing(path)
            if not path.is_file():
                found = "something that is no file" if path.exists() else "no such file"
                raise UserError(
                    path, "store", found, "a store that `placerl reproduce` or another command has made"
                )
            check_files(path)
            return cls(path, read_only=read_only, timeout_s=timeout_s)

    def close(self) -> None:
        """Close the store, so that another process can write to it. The end of the process also closes it."""
        self._closed = True
        self._database.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Provide the database connection for a `with` block that reads; SQLite's errors become a `UserError`."""
        with clear_errors(self.path):
            if self._draft is not None:
                yield self._draft
                return
            if not (self._read_only or self._closed) and (now := state(self.path)) != self._seen:
                self._database.close()
                self._seen, self._database = now, snapshot(self.path)
            yield self._database

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Provide the database connection for a `with` block that writes.

        The block is one transaction: it is durable at the end, or leaves no trace if the block raises. A block inside
        another one is a part of that transaction.

        Raises:
            UserError: another process is writing to this store, or it cannot be written.
        """
        if self._closed or self._read_only:
            raise sqlite3.ProgrammingError(f"a store that is {'closed' if self._closed else 'only read'}")
        with clear_errors(self.path):
            if self._draft is not None:
                yield self._draft
                return
            path = self.path.resolve()
            if self._lock is None:
                self._lock = WriterLock(path)
            with draft(path, self._timeout_s) as self._draft:
                try:
                    if is_old(self._draft):
                        migration.upgrade(self._draft)
                    yield self._draft
                finally:
                    self._draft = None

    def begin_run(
        self, tier: str, revision: str, machine: "Mapping[str, Any] | Machine", *, fresh: bool = False
    ) -> Run:
        """Begin a run (a set of measurements), or resume the last one of the same tier, revision and machine.

        Args:
            tier: the size of the plan that is run: "quick", "standard", "full", or another name.
            revision: from `harness.core.revision.revision()`.
            machine: from `harness.platforms.this_machine.describe()`, or as JSON; its "fingerprint" identifies it.

        Raises:
            ValueError: `machine` has no fingerprint.
            UserError: another process is writing to this store, or it cannot be written.
        """
        interrupts.storing()
        if not isinstance(machine, Mapping):
            machine = machine.to_json()
        fingerprint = machine.get("fingerprint")
        if not isinstance(fingerprint, str) or not fingerprint:
            raise ValueError(f"machine: found fingerprint {fingerprint!r}; allowed: text that is not empty")
        machine_json = json.dumps(dict(machine), allow_nan=False)
        identity = (tier, revision, fingerprint)
        with self.writing() as database:
            query = (
                "SELECT id FROM run WHERE (tier, revision, fingerprint) = (?, ?, ?) ORDER BY id DESC LIMIT 1"
            )
            stored = None if fresh else database.execute(query, identity).fetchone()
            if stored is None:
                values = (uuid.uuid4().hex, *identity, machine_json, _now())
                run_id = database.execute(f"INSERT {_RUN_VALUES}", values).lastrowid
            else:
                (run_id,) = stored
        (record,) = [r for r in self.runs() if r.id == run_id]
        return Run(self, record)

    def runs(self) -> list[RunRecord]:
        """Return the record of every run, in the order in which the runs began."""
        query = "SELECT id, key, tier, revision, fingerprint, started_at, machine FROM run ORDER BY id"
        with self.reading() as database:
            rows = database.execute(query).fetchall()
        with valid_content(self.path):
            return [RunRecord(*(*head, parsed(machine, dict))) for *head, machine in rows]

    def cells(self, run: int) -> list[str]:
        """Return the names of the cells (units of work) that a run has finished, in the order in which they finished.

        Args:
            run: the run's `RunRecord.id`.
        """
        with self.reading() as database:
            rows = database.execute("SELECT name FROM cell WHERE run_id = ? ORDER BY id", (run,)).fetchall()
        return [name for (name,) in rows]

    def measurements(
        self,
        *,
        run: int | None = None,
        cell: str | None = None,
        suite: str | None = None,
        workload: str | None = None,
        primitive: str | None = None,
        batch_size: int | None = None,
    ) -> Sequence[Row]:
        """Return the measurements that match all given arguments, in the order in which they were made.

        Args:
            run: a `RunRecord.id`; None for all runs.
            cell: name of a cell (a unit of work), such as "profile/hopper-ddpg/256"; None for any.
            suite, workload, primitive, batch_size: values of the measurements' fields, such as suite "profile" and
                primitive "sum_tree.sample"; None for any.

        Raises:
            UserError: the file holds something that is not a measurement.
        """
        chosen = {
            "cell.run_id": run,
            "cell.name": cell,
            "suite": suite,
            "workload": workload,
            "primitive": primitive,
            "batch_size": batch_size,
        }
        chosen = {column: value for column, value in chosen.items() if value is not None}
        return [row for _, row in self._select(chosen)]

    def frame(self, *, run: int | None = None) -> "pd.DataFrame":
        """Return the rows as a table.

        The columns describe the run (`run`, `run_key`, `tier`, `revision`, `fingerprint`, `started_at`), then
        the cell, the unit of work that made it (`cell`, `finished_at`), then the row: its kind, by the name of its
        table, whose number it is (`who`) and `where`, one column per field of `Row`, and one per column of any kind.

        Args:
            run: a `RunRecord.id`; None for all runs.

        Returns:
            One row per stored row; `provenance` and `status` as text, `samples` as tuples of float, `batch_size` as
            nullable integers; `value`, `low` and `high` are NaN if there is none. A column that a row's kind lacks
            holds None.
        """
        runs = {r.id: r for r in self.runs()}
        selected = self._select({} if run is None else {"cell.run_id": run})
        return as_frame(
            [(runs[number], cell, finished_at, row) for (number, cell, finished_at), row in selected]
        )

    def copy_from(self, other: "Store") -> int:
        """Copy the runs of another store into this one.

        What this store has stays as it is. A run that both have (the same key) gets cells only if the other store's
        proves to be its continuation: with the same identity, and with all cells that are here, unchanged and first.

        This is one transaction: either everything is copied or nothing.

        Returns:
            Number of cells added.

        Raises:
            UserError: this store cannot be written, the other holds something that is not a measurement, or both
                have a run of one key, of which neither continues the other.
        """
        with self.writing():
            return sum(self.take_in(other.path, record, other._contents(record)) for record in other.runs())

    def take_in(
        self, source: object, record: RunRecord, cells: Sequence[tuple[str, str, Sequence[Row]]]
    ) -> int:
        """Take in a run of another store, as `copy_from` does with each, and return the number of cells added.

        Args:
            source: where the run is from, to name in an error.
            cells: name, time and rows of each of its cells (units of work), in the order in which they finished.
        """
        with self.writing() as database:
            own = next((one for one in self.runs() if one.key == record.key), None)
            if own is None:
                run_id = database.execute(f"INSERT {_RUN_VALUES}", _identity(record)).lastrowid
                added = cells
            else:
                run_id, added = own.id, self._continuation(source, record, cells, own)
            for cell, finished_at, rows in added:
                query = "INSERT INTO cell (run_id, name, finished_at) VALUES (?, ?, ?)"
                cell_id = database.execute(query, (run_id, cell, finished_at)).lastrowid
                tables.insert(database, cell_id, rows)
        return len(added)

    def _continuation(
        self,
        source: object,
        record: RunRecord,
        cells: Sequence[tuple[str, str, Sequence[Row]]],
        own: RunRecord,
    ) -> Sequence[tuple[str, str, Sequence[Row]]]:
        """Return the cells of a run that its copy here lacks.

        Raises:
            UserError: neither continues the other.
        """
        ours = self._contents(own)
        shared = min(len(ours), len(cells))
        differ = [
            name for name, a, b in zip(_IDENTITY, _identity(own), _identity(record), strict=True) if a != b
        ]
        differ += [f"cell {a[0]}" for a, b in zip(ours[:shared], cells[:shared], strict=True) if a != b]
        if differ:
            found = f"another {differ[0]} than the run of this key in {self.path} has"
            allowed = "the same run, or its continuation; read that store by itself (--results)"
            raise UserError(source, f"run {record.id} ({record.key})", found, allowed)
        return cells[shared:]

    def _contents(self, record: RunRecord) -> list[tuple[str, str, Sequence[Row]]]:
        """Return name, time and rows of each of a run's cells, in the order in which they finished."""
        cells: dict[tuple[str, str], list[Row]] = {}
        for (_, cell, finished_at), row in self._select({"cell.run_id": record.id}):
            cells.setdefault((cell, finished_at), []).append(row)
        return [(*head, rows) for head, rows in cells.items()]

    def _select(self, chosen: Mapping[str, Any]) -> list[tuple[tuple[int, str, str], Row]]:
        """Return (run, cell, finished_at) and each row whose columns equal the chosen values."""
        with self.reading() as database, valid_content(self.path):
            return list(tables.select(database, chosen))
