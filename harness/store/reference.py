"""Saves and loads reference runs: runs in `results/reference/`, which a report compares with a new run.

A reference is two files: `<name>.json`, the run with its machine, and `<name>.parquet`, its measurements, whose
metadata names the run: files of two runs are refused. To save the last run of a store:
`python -m placerl.harness.store.reference results/placerl.sqlite standard`. To keep the file small for git, a row with
very many samples (the returns of a training's episodes) keeps evenly spaced ones, and its notes give the original
number (`samples_measured`). Returns also keep where their mean rose above all before, from which a learning curve
follows exactly. The samples of a timed row are times converted to full core speed; the times as the clock gave them are
left out.
"""

import argparse
import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from placerl.harness.core.errors import UserError
from placerl.harness.core.files import write_atomically
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.core.shipped import shipped
from placerl.harness.core.suites import Suite
from placerl.harness.measure.episodes import EPISODES, new_highs, running_means
from placerl.harness.measure.statistics import evenly_spread
from placerl.harness.measure.timed_case import EXPOSURE
from placerl.harness.store import migration, tables
from placerl.harness.store.rows import TrainingResult
from placerl.harness.store.store import RunRecord, Store, as_frame

FOLDER = shipped("results", "reference")
SUFFIXES = (".json", ".parquet")
"""Suffixes of a reference's two files: the run, and its measurements."""
Kept = Callable[[pd.DataFrame], "pd.Series[bool]"]
"""Says of each row of a table whether it is kept, by the columns that tables of every schema have."""
MOST_SAMPLES = 1000
"""Most samples of a row that are saved: enough for its interval and to draw its curve."""
_RUN_KEY = "run_key"
"""Name of the run's key in the metadata of its measurements; tables that were saved earlier have none."""


@dataclass(frozen=True)
class Reference:
    """A reference run, with which new runs are compared; its files are committed with the code.

    Attributes:
        name: name of its two files, without the suffix.
        run: when, where and at which revision it was made.
        measurements: all measurements of the run.
        cells: name of the cell (unit of work) of each measurement.
    """

    name: str
    run: RunRecord
    measurements: tuple[Row, ...]
    cells: tuple[str, ...]

    def add_to(self, store: Store) -> int:
        """Take this run into a store that is open for writing, and return the number of cells added.

        Raises:
            UserError: the store has a run of the same key that this one does not continue, or cannot be written.
        """
        by_cell: dict[str, list[Row]] = {}
        for cell, row in zip(self.cells, self.measurements, strict=True):
            by_cell.setdefault(cell, []).append(row)
        cells = [(cell, self.run.started_at, rows) for cell, rows in by_cell.items()]
        return store.take_in(f"reference {self.name}", self.run, cells)


def save(store: Path, name: str, folder: Path = FOLDER) -> list[Path]:
    """Write a run of a store as a reference, with which reports compare later runs.

    A run that went on since it was saved is written again under the same name, so that the reference grows.

    Args:
        name: name of the reference; if it is a tier's, the last run of this tier is written, else the last of all.

    Raises:
        UserError: the store does not exist or holds no run, the name is not allowed, or the folder cannot be written.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", name):
        raise UserError("command line", "name", name, "letters, digits, dots and hyphens")
    with Store.open(store, read_only=True) as opened:
        runs = runs_with_results(opened)
        if not runs:
            raise UserError(store, "runs", "none", "a store with a run")
        run = ([each for each in runs if each.tier == name] or runs)[-1]
        attempts = last_attempts(opened, run.id)
    rows = [
        {"cell": cell, **tables.flat(_moved_alone(_thinned(row)))}
        for cell, found in attempts.items()
        for row in found
    ]
    table = pd.DataFrame(rows, dtype=object)
    table.attrs[_RUN_KEY] = run.key
    record = json.dumps(dataclasses.asdict(run), indent=1, sort_keys=True)
    written = [folder / f"{name}.parquet", folder / f"{name}.json"]
    write_atomically(written[0], lambda path: table.to_parquet(path, index=False, compression="zstd"))
    write_atomically(written[1], lambda path: path.write_text(record + "\n", encoding="utf-8"))
    return written


def load(folder: Path = FOLDER, kept: Kept | None = None) -> list[Reference]:
    """Return every reference run of a folder, sorted by name; empty if the folder does not exist.

    Args:
        kept: a function of a module that chooses the measurements; the others are not read, which takes seconds.

    Raises:
        UserError: a file is damaged; the message names it.
    """
    paths = sorted(folder.glob("*.json"), key=lambda path: path.stem)
    return [_load(path, kept, *_stamps(path)) for path in paths]


def load_one(path: Path) -> Reference:
    """Return the reference run of one of its two files.

    Raises:
        UserError: a file is missing or damaged; the message names it.
    """
    record = path.with_suffix(".json")
    return _load(record, None, *_stamps(record))


def all_rows(references: Iterable[Reference]) -> pd.DataFrame:
    """Return the measurements of references as a table, as `Store.frame` does; the runs are numbered from 1."""
    return as_frame(
        [
            (dataclasses.replace(one.run, id=number), cell, one.run.started_at, row)
            for number, one in enumerate(references, 1)
            for cell, row in zip(one.cells, one.measurements, strict=True)
        ]
    )


def runs_with_results(store: Store) -> list[RunRecord]:
    """Return the runs of a store that hold results, in the order in which they began; all runs if none holds any.

    A run that was interrupted before its first measurement ended must not hide earlier results: it holds nothing, or
    only its peak memory.
    """
    runs, memory = store.runs(), f"{Suite.MEMORY}/"
    return [r for r in runs if any(not cell.startswith(memory) for cell in store.cells(r.id))] or runs


def last_attempts(store: Store, run: int) -> dict[str, Sequence[Row]]:
    """Return the measurements of a run by cell; if something was measured several times, only the last attempt.

    A second attempt at a cell (a piece of the plan) is stored under the cell's name with "#2".
    """
    last = {name.partition("#")[0]: name for name in store.cells(run)}
    return {cell: store.measurements(run=run, cell=name) for cell, name in last.items()}


def beside(run: RunRecord, references: Iterable[Reference]) -> Reference | None:
    """Return the reference run to compare a run with; None if there is none.

    A reference of the same machine is preferred, then one of the same tier (quick, standard or full), then the first;
    the run itself is never returned, nor one that measured nothing but its memory, such as a run of clock cycles.
    """
    others = [r for r in references if r.run.key != run.key and any(map(_is_timed, r.measurements))]
    return max(
        others, key=lambda r: (r.run.fingerprint == run.fingerprint, r.run.tier == run.tier), default=None
    )


def _is_timed(row: Row) -> bool:
    return row.provenance is Provenance.MEASURED and row.suite != Suite.MEMORY


def _thinned(row: Row) -> Row:
    """Return the row with at most `MOST_SAMPLES` samples, and as many entries of the columns that list one per
    sample. Returns of episodes get the columns that say when each mean return was reached.
    """
    count = len(row.samples)
    if count <= MOST_SAMPLES:
        return row
    places = evenly_spread(count, MOST_SAMPLES)

    def thinned(stated: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: type(value)(value[place] for place in places)
            for name, value in stated.items()
            if isinstance(value, list | tuple) and len(value) == count
        }

    notes = {**row.notes, **thinned(row.notes), "samples_measured": count}
    changed = {**thinned(vars(row)), "notes": notes}
    if isinstance(row, TrainingResult) and len(row.episode_ends or ()) == count:
        changed |= _highs(row.samples, row.episode_ends or ())
    if parameters := getattr(row, "parameters", None):
        changed["parameters"] = {**parameters, **thinned(parameters)}
    return dataclasses.replace(row, **changed)


def _highs(returns: Sequence[float], ends: Sequence[int]) -> dict[str, Any]:
    """Return the columns that say when each mean of `EPISODES` returns in a row was first reached."""
    means = running_means(returns)
    places = new_highs(means).tolist()
    return {
        "highs": [float(means[place]) for place in places],
        "high_ends": [ends[place + EPISODES - 1] for place in places],
    }


def _moved_alone(row: Row) -> Row:
    """Return a timed row without the clock's times of its blocks: its samples are these times, moved to full
    speed. How far each was moved is kept where claims pair rows.
    """
    if not row.timed.pace:
        return row
    dropped = {"clock_s"} if row.suite == Suite.CLAIM else {"clock_s", EXPOSURE}
    pace = {name: value for name, value in row.timed.pace.items() if name not in dropped}
    samples = tuple(float(f"{one:.6g}") for one in row.samples)
    return dataclasses.replace(row, samples=samples, timed=dataclasses.replace(row.timed, pace=pace))


def _stamps(path: Path) -> Iterator[tuple[int, int] | None]:
    """Yield what tells the contents of a reference's two files apart: time of the last change, and size."""
    for one in (path, path.with_suffix(".parquet")):
        stat = one.stat() if one.exists() else None
        yield stat and (stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=16)  # reading all takes seconds, and a process may write several reports
def _load(path: Path, kept: Kept | None, *stamps: tuple[int, int] | None) -> Reference:
    table_path, saved = (
        path.with_suffix(".parquet"),
        "a committed run: NAME.json and NAME.parquet, side by side",
    )
    try:
        run = TypeAdapter(RunRecord).validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        found = "nothing" if first["type"] == "missing" else first["msg"]
        raise UserError(path, ".".join(map(str, first["loc"])) or "file", found, saved) from error
    except OSError as error:
        raise UserError(path, "file", error.strerror, saved) from error
    if not table_path.is_file():
        raise UserError(table_path, "file", "no such file", saved)
    try:
        cells, rows = read_rows(table_path, kept, run.key)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(path, table_path.name, str(error).partition("\n")[0], saved) from error
    return Reference(path.stem, run, rows, cells)


def read_rows(
    path: Path, kept: Kept | None = None, run_key: str = ""
) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    """Return the cells and the rows of a reference's table, also of one that was saved with schema 1.

    Tables that were saved without cells have one for each suite, experiment, workload and batch size.

    Args:
        kept: chooses the rows; the others are not read.
        run_key: key of the run whose measurements they must be, if the table names one; empty for any.

    Raises:
        OSError, ValueError, TypeError, KeyError: it is no table that `save` wrote, or one of another run.
    """
    table = pd.read_parquet(path)
    if run_key and (named := table.attrs.get(_RUN_KEY, run_key)) != run_key:
        raise ValueError(f"measurements of run {named}, not of {run_key}")
    table = table if kept is None else table[kept(table)]
    plain = table.astype(object).where(table.notna(), None).to_numpy().tolist()
    records = [dict(zip(table.columns, values, strict=True)) for values in plain]
    cells = [values.pop("cell", None) for values in records]
    rows = tuple(map(_row, records))
    return tuple(cell or _cell_of(row) for cell, row in zip(cells, rows, strict=True)), rows


def _cell_of(row: Row) -> str:
    named = getattr(row, "experiment", ""), row.workload, row.batch_size
    return "/".join(str(part) for part in (row.suite, *named) if part)


def _row(values: dict[Any, Any]) -> Row:
    if "kind" not in values:  # saved with schema 1
        size = values["batch_size"]
        parsed = {name: json.loads(values[name]) for name in ("samples", "details")}
        return migration.typed(values | parsed | {"batch_size": None if size is None else int(size)})
    return tables.from_flat(values)


def main(arguments: Sequence[str] | None = None) -> None:
    """Save a reference run and print the paths of its two files; exits with 2 on a user's mistake."""
    parser = argparse.ArgumentParser(
        "python -m placerl.harness.store.reference",
        description="Save the last run of a store as a reference run, with which reports compare later runs.",
    )
    parser.add_argument("store", type=Path, metavar="STORE", help="path of the store: results/placerl.sqlite")
    parser.add_argument("name", metavar="NAME", help="name of the reference run; a tier's name: its last run")
    given = parser.parse_args(arguments)
    try:
        written = save(given.store, given.name)
    except UserError as error:
        parser.error(str(error))
    print(*written, sep="\n")


if __name__ == "__main__":
    main()
