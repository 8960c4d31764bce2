"""Reference runs: runs committed under `results/reference/`, which a report shows beside a new run.

A reference is two files: `<name>.json`, the run with its machine, and `<name>.parquet`, its measurements. To commit
the last run of a store: `python -m harness.report.reference results/placerl.sqlite standard`. Of a row with very many
samples (the returns of a training's episodes) it keeps some, evenly spread, and the row's details say how many there
were (`samples_measured`); of a timed row it leaves out what the clock had of each block before that was moved to full
speed: the file is for git.
"""

import dataclasses
import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from harness.core.errors import UserError
from harness.core.row import Measurement
from harness.measure.statistics import evenly_spread
from harness.papers.published import FOLDER as PAPERS_FOLDER
from harness.report.files import write_atomically
from harness.store.store import RunRecord, Store

FOLDER = PAPERS_FOLDER.parent / "reference"
MOST_SAMPLES = 1000
"""Of a row: enough for its interval and its curve."""
_COLUMNS = tuple(field.name for field in dataclasses.fields(Measurement))


@dataclass(frozen=True)
class Reference:
    """A committed run.

    Attributes:
        name: of its files.
        run: when, where and by which revision it was made.
        measurements: all of its rows.
    """

    name: str
    run: RunRecord
    measurements: tuple[Measurement, ...]


def save(store: Path, name: str, folder: Path = FOLDER) -> list[Path]:
    """Writes the last run of a store as a reference.

    Args:
        store: the store.
        name: letters, digits, dots and hyphens.
        folder: where to; made when there is none.

    Returns:
        The two files.

    Raises:
        UserError: there is no such store, it holds no run, the name is not allowed, or the folder cannot be written.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", name):
        raise UserError("command line", "name", name, "letters, digits, dots and hyphens")
    with Store.open(store, read_only=True) as opened:
        runs = opened.runs()
        if not runs:
            raise UserError(store, "runs", "none", "a store with a run")
        rows = last_attempts(opened, runs[-1].id)
    table = pd.DataFrame([_flat(_moved_alone(_thinned(row))) for row in rows], columns=_COLUMNS).astype(
        {"batch_size": "Int64"}
    )
    record = json.dumps(dataclasses.asdict(runs[-1]), indent=1, sort_keys=True)
    written = [folder / f"{name}.parquet", folder / f"{name}.json"]
    write_atomically(written[0], lambda path: table.to_parquet(path, index=False, compression="zstd"))
    write_atomically(written[1], lambda path: path.write_text(record + "\n", encoding="utf-8"))
    return written


def load(folder: Path = FOLDER) -> list[Reference]:
    """Every reference of a folder, by name; none where there is no such folder.

    Raises:
        UserError: a file is damaged; the message names it.
    """
    return [_load(path) for path in sorted(folder.glob("*.json"))]


def last_attempts(store: Store, run: int) -> list[Measurement]:
    """The measurements of a run without those of a cell that was measured again ("name#2" follows "name").

    Args:
        store: an open store.
        run: a `RunRecord.id`.
    """
    last = {name.partition("#")[0]: name for name in store.cells(run)}
    return [row for name in last.values() for row in store.measurements(run=run, cell=name)]


def beside(run: RunRecord, references: Iterable[Reference]) -> Reference | None:
    """The reference to show beside a run: of the same machine rather than another, of the same tier rather than
    another, and never the run itself; None where there is none."""
    others = [r for r in references if r.run.key != run.key]
    return max(
        others, key=lambda r: (r.run.fingerprint == run.fingerprint, r.run.tier == run.tier), default=None
    )


def _thinned(row: Measurement) -> Measurement:
    """With `MOST_SAMPLES` of its samples at most, and as many of what its details list for each of them."""
    count = len(row.samples)
    if count <= MOST_SAMPLES:
        return row
    kept = evenly_spread(count, MOST_SAMPLES)
    details = {
        name: [value[place] for place in kept] if isinstance(value, list) and len(value) == count else value
        for name, value in row.details.items()
    }
    samples = tuple(row.samples[place] for place in kept)
    return dataclasses.replace(row, samples=samples, details=details | {"samples_measured": count})


def _moved_alone(row: Measurement) -> Measurement:
    """A timed row without what the clock had of each block: its samples are these, moved to full speed."""
    pace = row.details.get("pace")
    if not isinstance(pace, Mapping):
        return row
    kept = {name: value for name, value in pace.items() if name != "clock_s"}
    samples = tuple(float(f"{one:.6g}") for one in row.samples)
    return dataclasses.replace(row, samples=samples, details={**row.details, "pace": kept})


def _flat(row: Measurement) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in _COLUMNS}
    details = json.dumps(values["details"])
    return values | {
        "provenance": str(row.provenance),
        "samples": json.dumps(row.samples),
        "details": details,
    }


def _load(path: Path) -> Reference:
    table_path = path.with_suffix(".parquet")
    try:
        run = TypeAdapter(RunRecord).validate_json(path.read_bytes())
        table = pd.read_parquet(table_path, columns=list(_COLUMNS))
        rows = tuple(map(_row, table.astype(object).where(table.notna(), None).to_dict("records")))
    except (OSError, ValidationError, ValueError, TypeError, KeyError) as error:
        first_line = str(error).partition("\n")[0]
        raise UserError(
            path, table_path.name, first_line, "a reference as harness.report.reference saves it"
        ) from error
    return Reference(path.stem, run, rows)


def _row(values: dict[Any, Any]) -> Measurement:
    size = values["batch_size"]
    return Measurement(
        **values
        | {
            "batch_size": None if size is None else int(size),
            "samples": tuple(json.loads(values["samples"])),
            "details": json.loads(values["details"]),
        }
    )


if __name__ == "__main__":
    for written in save(Path(sys.argv[1]), sys.argv[2]):
        print(written)
