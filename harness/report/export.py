"""Writes the tables of a report as files: CSV, Parquet, Markdown and LaTeX, each number with its unit and provenance.

| file | one row is |
|---|---|
| `measurements` | a row of the store, all runs; `row` is the number to which verdicts and numbers refer |
| `verdicts` | a number of a claim, the paper's (`side` published) or this project's (`side` ours) |
| `notes` | a note on a paper: a statement that no experiment can decide, and what follows from the paper's numbers |
| `predictions`, `choices`, `comparisons`, `primitives`, `training`, `gaps` | a row of the table on the page |
| `machine`, `noise`, `core_speed`, `memory`, `runs` | a row of the table on the page |
| `noisy_rows` | a kind of primitive, with how many of its timed rows are too noisy |
| `baseline_versions` | a compared system, with its versions and settings |
| `throughput` | gradient steps per second of a mapping, or of a compared baseline |
| `portability` | PRL's harmonic mean of experiences per second, of a system over device assignments or over machines |
| `devices` | a number of CPU, GPU or FPGA in a paper's figure, of the paper or of a machine, or a cell without one |
| `roofs`, `roofline` | a device's upper limit, and a primitive's rate |
| `learning` | what a system learnt of a workload over seeds, at the end and at its best |
| `curves`, `curve_summaries` | an episode, and a learning curve |
| `agent_curve`, `agent` | an episode of the recorded agent in hardware, and when it had learned and how much |
| `changes` | a quantity of the reference run and of this one |

A number of the page becomes the columns `<name>`, `<name>_low`, `<name>_high`, `<name>_unit`, `<name>_provenance` and
`<name>_rows`. Rows of `measurements` that committed runs lend, as they depend on no machine, have a `run` below 0. If a
store holds runs of several machines, `platforms/` has a folder for each of the others.

In CSV an apostrophe precedes a text that a spreadsheet would evaluate as a formula, such as an untrusted workload
name; Parquet holds the text unchanged.
"""

import dataclasses
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from placerl.harness.core.errors import UserError
from placerl.harness.core.files import write_atomically
from placerl.harness.core.row import HowTimed
from placerl.harness.papers import Verdict, claims
from placerl.harness.papers.device_table import COLUMNS
from placerl.harness.papers.notes import notes
from placerl.harness.papers.number import Number
from placerl.harness.report import devices, machine_facts, text_tables
from placerl.harness.report.content import Content
from placerl.harness.report.formats import EXPORTED
from placerl.harness.report.hardware_agent import hardware_agent, time_to_learn
from placerl.harness.report.reading import read_all
from placerl.harness.report.rows.libraries import BaselineComparison, BaselineVersions, Learning
from placerl.harness.report.rows.mappings import Choice, PredictedThroughput
from placerl.harness.report.rows.primitives import DeviceRoof, PrimitiveTime, RooflinePoint
from placerl.harness.report.rows.runs import Change, Fact, Gap, NoisyRows
from placerl.harness.report.rows.trainings import Portability, Throughput, TrainingCurve, TrainingResult
from placerl.harness.store import reference
from placerl.harness.store.store import RunRecord

DEVICES = "devices"
"""Name of the table of figures about CPU, GPU and FPGA, which no content of a report holds."""


def number_columns(name: str, number: Number | None) -> dict[str, Any]:
    """Return the columns of a table that hold a number.

    Args:
        number: the number; None fills the columns with None, and the rows with an empty text.

    Returns:
        Values by column name: `name`, and for the bounds, the unit, the provenance and the index labels of the stored
        measurements "time_low", "time_high", "time_unit", "time_provenance" and "time_rows". If `name` is "value",
        these are only "low", "high" and so on.
    """
    prefix = "" if name == "value" else f"{name}_"
    return {
        name: None if number is None else number.value,
        f"{prefix}low": None if number is None else number.low,
        f"{prefix}high": None if number is None else number.high,
        f"{prefix}unit": None if number is None else number.unit,
        f"{prefix}provenance": None if number is None else str(number.provenance),
        f"{prefix}rows": "" if number is None else " ".join(map(str, number.rows)),
    }


def _holds_number(field: dataclasses.Field[Any]) -> bool:
    return "Number" in str(field.type)


def _columns(kind: type) -> list[str]:
    """Return the column names of a table of such rows, also if it has no rows."""
    columns: list[str] = []
    for field in dataclasses.fields(kind):
        columns += number_columns(field.name, None) if _holds_number(field) else [field.name]
    return columns


def _flat(row: Any) -> dict[str, Any]:
    """Return a row of the page with its numbers spread over columns."""
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(row):
        value = getattr(row, field.name)
        if _holds_number(field):
            columns |= number_columns(field.name, value)
        else:
            columns[field.name] = "; ".join(map(str, value)) if isinstance(value, tuple) else value
    return columns


def _frame(kind: type, rows: Sequence[Any]) -> pd.DataFrame:
    frame = pd.DataFrame([_flat(row) for row in rows], columns=_columns(kind))
    for column in ("batch_size", "seed", "choices", "unsupported"):
        if column in frame:
            frame[column] = frame[column].astype("Int64")
    return frame


def _verdicts(verdicts: Iterable[Verdict]) -> pd.DataFrame:
    rows = []
    for verdict in verdicts:
        head = {
            "key": verdict.key,
            "place": verdict.place,
            "statement": verdict.statement,
            "verdict": str(verdict.finding.outcome),
            "needs": verdict.needs,
            "explanation": verdict.finding.explanation,
        }
        sides = {"published": verdict.claim.published, "ours": verdict.finding.ours}
        numbers: list[tuple[str, Number | None]] = [
            (side, number) for side, some in sides.items() for number in some
        ]
        # A claim without a number keeps its row, because its verdict counts too.
        for side, number in numbers or [("", None)]:
            quantity = "" if number is None else number.quantity
            source = "" if number is None else number.source
            rows.append(
                head
                | {"side": side, "quantity": quantity, "source": source}
                | number_columns("value", number)
                | {"suspect": "" if number is None else number.suspect}
            )
    return pd.DataFrame(rows)


def _notes() -> pd.DataFrame:
    rows = [(note.key, note.source, note.sentence, note.numbers) for note in notes()]
    return pd.DataFrame(rows, columns=["key", "place", "sentence", "computed"])


def _curves(curves: Iterable[TrainingCurve]) -> pd.DataFrame:
    columns = ["workload", "system", "seed", "environment_step", "value", "unit", "provenance"]
    rows = [
        (c.workload, c.system, c.seed, step, value, c.last.unit, str(c.last.provenance))
        for c in curves
        for step, value in zip(c.environment_steps, c.returns, strict=True)
    ]
    return pd.DataFrame(rows, columns=columns).astype({"seed": "Int64"})


def _curve_summaries(curves: Iterable[TrainingCurve]) -> pd.DataFrame:
    rows = [
        {"workload": c.workload, "system": c.system, "seed": c.seed, "episodes": len(c.returns)}
        | number_columns("value", c.last)
        for c in curves
    ]
    columns = ["workload", "system", "seed", "episodes", *number_columns("value", None)]
    return pd.DataFrame(rows, columns=columns).astype({"seed": "Int64"})


def _numbers(numbers: Iterable[Number]) -> pd.DataFrame:
    rows = [{"quantity": n.quantity} | number_columns("value", n) for n in numbers]
    return pd.DataFrame(rows, columns=["quantity", *number_columns("value", None)])


def _agent_tables() -> dict[str, pd.DataFrame]:
    """Return the recorded episodes of the agent in hardware, and the numbers that the page states of them."""
    _, curve = hardware_agent()
    return {"agent_curve": _curves([curve]), "agent": _numbers([*time_to_learn(), curve.last])}


def measurements(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the stored measurements as a table for a file.

    Returns:
        The same rows, with their index labels in a column `row`, and lists and tables as JSON texts.
    """
    flat = frame.rename_axis("row").reset_index()
    composed = {
        str(name): column.map(_as_json) for name, column in flat.items() if column.map(_is_composed).any()
    }
    return flat.assign(**composed)


def _is_composed(cell: Any) -> bool:
    return isinstance(cell, list | tuple | Mapping | HowTimed)


def _as_json(cell: Any) -> str | None:
    return None if cell is None else json.dumps(cell.to_json() if isinstance(cell, HowTimed) else cell)


def _devices(content: Content) -> pd.DataFrame:
    """Return the figures about CPU, GPU and FPGA: a row for each number of a cell, and for a cell without ours."""
    shown = devices.of_content(content)
    rows: list[dict[str, Any]] = []
    for figure, table in ((one, table) for one in shown.figures for table in one.tables):
        gaps = {gap.partition(" ")[0]: gap for gap in table.gaps()}
        for size, (kind, name) in product(table.rows, COLUMNS.items()):
            cell = {
                "figure": figure.place,
                "table": table.title,
                "quantity": table.quantity,
                "along": table.along,
                "size": size,
                "device": name,
                "best_here": table.said(size),
                "paper_says": table.stated.get(size, ""),
            }
            published, ours = table.published.get(kind, {}).get(size, ()), table.at(kind, size)
            for side, entry in (*(("published", one) for one in published), *(("ours", one) for one in ours)):
                machine = shown.machines.get(entry.machine)
                rows.append(
                    cell
                    | {"side": side, "how": entry.how}
                    | number_columns("value", dataclasses.replace(entry.number, rows=()))
                    | {"machine": machine_facts.in_a_line(machine) if machine else "", "needs": ""}
                )
            if not ours:
                rows.append(
                    cell | {"side": "ours", "how": ""} | number_columns("value", None) | {"needs": gaps[name]}
                )
    return pd.DataFrame(rows)


def tables(content: Content) -> dict[str, pd.DataFrame]:
    """Return the tables of a report by the name of their file, such as "predictions".

    The tables of all stored measurements and of figures about devices are not included.
    """
    runs = _frame(RunRecord, content.runs)
    runs["machine"] = runs["machine"].map(json.dumps)
    return {
        "verdicts": _verdicts(content.verdicts),
        "notes": _notes(),
        "predictions": _frame(PredictedThroughput, content.predictions),
        "choices": _frame(Choice, content.choices),
        "comparisons": _frame(BaselineComparison, content.comparisons),
        "baseline_versions": _frame(BaselineVersions, content.baseline_versions),
        "throughput": _frame(Throughput, content.throughputs),
        "portability": _frame(Portability, content.portabilities),
        "primitives": _frame(PrimitiveTime, content.primitives),
        "roofs": _frame(DeviceRoof, content.roofs),
        "roofline": _frame(RooflinePoint, content.roofline),
        "training": _frame(TrainingResult, content.training),
        "learning": _frame(Learning, content.learning),
        "curves": _curves(content.curves),
        "curve_summaries": _curve_summaries(content.curves),
        **_agent_tables(),
        "gaps": _frame(Gap, content.gaps),
        "machine": _frame(Fact, content.facts),
        "noise": _numbers(content.noise),
        "core_speed": _numbers(content.core_speed),
        "noisy_rows": _frame(NoisyRows, content.noisy_rows),
        "memory": _numbers(content.memory),
        "changes": _frame(Change, content.changes),
        "runs": runs,
    }


def write(
    store: Path,
    folder: Path,
    formats: Sequence[str] = ("csv", "parquet"),
    *,
    only: Sequence[str] = (),
    claim: str = "",
) -> list[Path]:
    """Write the tables of the report on a store as files.

    Args:
        folder: output folder; created if it does not exist.
        formats: "csv" and "parquet", which hold every number, "markdown" and "latex", which hold a readable
            selection.
        only: names of the tables to write; empty for all.
        claim: a claim's key, or the beginning of several: only these verdicts, and the measurements that they refer
            to, are written; empty for all.

    Raises:
        UserError: the store does not exist, the folder cannot be written, a format is none of these four, or a table
            or a claim is unknown.
    """
    for name in formats:
        if name not in FORMATS:
            raise UserError("command line", "--format", name, ", ".join(FORMATS))
    keys = {one.key for one in claims(claim, option="--claim")}
    contents = read_all(store, reference.load())
    if claim:
        contents, only = [_about(content, keys) for content in contents], only or ("verdicts", "measurements")
    folders = []
    for place, content in enumerate(contents):
        target = folder / "platforms" / content.slug if place else folder
        every = {} if place else {"measurements": measurements(content.everything)}
        every |= tables(content)
        if not only or DEVICES in only:  # it takes the committed runs, too
            every[DEVICES] = _devices(content)
        folders.append((target, content, every))
    files = [
        file
        for name in formats
        for target, content, every in folders
        for file in FORMATS[name](content, every, target)
    ]
    known = sorted({DEVICES, *(path.stem for path, _ in files)})
    for name in only:
        if name not in known:
            raise UserError("command line", "--table", repr(name), ", ".join(known), name=name)
    chosen = [(path, save) for path, save in files if not only or path.stem in only]
    for path, save in chosen:
        write_atomically(path, save)
    return [path for path, _ in chosen]


def _about(content: Content, keys: Collection[str]) -> Content:
    """Return a report's content with the verdicts on some claims alone, and the measurements that they refer to."""
    verdicts = tuple(verdict for verdict in content.verdicts if verdict.key in keys)
    rows = {row for verdict in verdicts for number in verdict.finding.ours for row in number.rows}
    everything = content.everything[content.everything.index.isin(rows)]
    return dataclasses.replace(content, verdicts=verdicts, everything=everything)


FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""First characters of a cell that a spreadsheet evaluates or drops (OWASP, CSV Injection)."""

Save = Callable[[Path], object]
Files = Iterator[tuple[Path, Save]]


def _csv(_: Content, every: dict[str, pd.DataFrame], folder: Path) -> Files:
    for name, table in every.items():
        yield folder / f"{name}.csv", partial(_disarmed(table).to_csv, index=False, lineterminator="\n")


def _disarmed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with an apostrophe before each text that begins like a formula; numbers are unchanged."""
    disarmed = table.copy()
    for name in table.select_dtypes(exclude="number"):
        disarmed[name] = table[name].map(_as_text)
    return disarmed


def _as_text(cell: Any) -> Any:
    """Return the cell in a form that a spreadsheet shows and does not evaluate."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def _parquet(_: Content, every: dict[str, pd.DataFrame], folder: Path) -> Files:
    for name, table in every.items():
        yield folder / f"{name}.parquet", partial(table.to_parquet, index=False)


def _texts(format_name: str, content: Content, _: dict[str, pd.DataFrame], folder: Path) -> Files:
    for table in text_tables.text_tables(content):
        text = text_tables.FORMATS[format_name](table)
        path = folder / f"{table.name}{text_tables.SUFFIXES[format_name]}"
        yield path, partial(Path.write_text, data=text, encoding="utf-8")


_Write = Callable[[Content, dict[str, pd.DataFrame], Path], Files]
_WRITERS: tuple[_Write, ...] = (_csv, _parquet, *(partial(_texts, name) for name in text_tables.FORMATS))
FORMATS: dict[str, _Write] = dict(zip(EXPORTED, _WRITERS, strict=True))
