"""Reads the rows of schema 1, in which one class was every row, as rows of the kinds that they are.

In schema 1 the columns `backend` and `device` meant one thing in one suite and another in the next, and `details` held
everything else as JSON. `typed` turns such a row into one of its kind: each number is kept exactly. `upgrade` does so
for a whole store. Reference runs that were saved with schema 1 are read the same way.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import MISSING, fields
from itertools import groupby
from operator import itemgetter
from typing import Any

from placerl.harness.core.row import HowTimed, Row
from placerl.harness.core.suites import PREDICTING, Suite
from placerl.harness.store import rows, tables

VERSION = 1
"""The schema that is read here."""
SCHEMA = tables.SCHEMA.replace(
    """    kind TEXT NOT NULL,
    suite TEXT NOT NULL,
    workload TEXT NOT NULL,
    primitive TEXT NOT NULL,
""",
    """    suite TEXT NOT NULL,
    workload TEXT NOT NULL,
    primitive TEXT NOT NULL,
    backend TEXT NOT NULL,
    device TEXT NOT NULL,
""",
).replace(
    """    timed TEXT NOT NULL,
    notes TEXT NOT NULL,
    precisions TEXT NOT NULL,
    node TEXT NOT NULL
""",
    """    details TEXT NOT NULL
""",
)
SHARED = (
    *("suite", "workload", "primitive", "batch_size", "quantity", "unit", "provenance", "status", "reason"),
    *("value", "low", "high", "samples"),
)
COLUMNS = (*SHARED, "backend", "device", "details")
"""Columns of a row of schema 1."""
_TIMED = tuple(one.name for one in fields(HowTimed))
_VALIDATIONS = (Suite.VALIDATION, Suite.PRECISION_VALIDATION)
_PIECES = (
    *(Suite.PROFILE, Suite.PRECISION_PROFILE, Suite.SIMULATED_PROFILE, Suite.ABSENT_PLATFORM),
    *_VALIDATIONS,
)
_VALIDATED: Mapping[str, type[Row]] = {
    "gradient_steps_per_s": rows.AchievedRate,
    "regret": rows.Regret,
    "runtime_overhead": rows.Overhead,
    "portability": rows.Portability,
    "peak": rows.MachinePeak,
    "copy_bandwidth": rows.MachinePeak,
    "time_per_call": rows.PieceTime,
}
_SUITES: Mapping[str, type[Row]] = {
    Suite.MACHINE_PEAKS: rows.MachinePeak,
    Suite.RUN: rows.TrainingResult,
    Suite.CLUSTER: rows.TrainingResult,
    Suite.COMPARE: rows.ComparisonResult,
    Suite.LEARN: rows.LearningResult,
    Suite.BENCH_ADAPTERS: rows.AdapterResult,
    Suite.BENCH_RETURNS: rows.LearningResult,
    Suite.MEMORY: rows.PeakMemory,
}
RENAMED: Mapping[type[Row], Mapping[str, str]] = {
    rows.PredictedRate: {"backend": "strategy", "model": "strategy", "device": "mapping"},
    rows.AchievedRate: {"device": "mapping"},
    rows.Overhead: {"device": "mapping"},
    rows.Regret: {"backend": "strategy", "device": "mapping", "chosen": "mapping"},
    rows.Portability: {"backend": "system"},
    rows.TrainingResult: {"device": "mapping", "environment_step": "episode_ends"},
    rows.ComparisonResult: {"backend": "system", "notes": "deviations", "kind": "failure"},
    rows.LearningResult: {
        "backend": "system",
        "notes": "deviations",
        "settings": "options",
        "seeds": "seeds_trained",
        "failed": "seeds_failed",
    },
    rows.PeakMemory: {"cell": "of_cell"},
    rows.Failure: {"backend": "baselines"},
}
"""What an entry of schema 1 is called in a kind, where that is not its own name."""


def kind_of(suite: str, quantity: str, primitive: str = "") -> type[Row]:
    """Return the kind of a row of schema 1."""
    if quantity == "failure" and (suite not in (Suite.RUN, Suite.CLUSTER) or primitive != "training"):
        return rows.Failure
    if suite in PREDICTING or (suite in _VALIDATIONS and quantity.startswith("predicted_")):
        return rows.PredictedRate
    if suite in _PIECES and quantity == "time_per_call":
        return rows.PieceTime
    if suite in _VALIDATIONS:
        return _VALIDATED.get(quantity, rows.OtherResult)
    return _SUITES.get(suite, rows.ClaimRow if suite == Suite.CLAIM else rows.OtherResult)


def typed(old: Mapping[str, Any]) -> Row:
    """Return a row of schema 1 as one of its kind.

    Args:
        old: its columns by name (`COLUMNS`), with the samples and details as Python values.

    Raises:
        ValueError, TypeError: it is no valid row.
    """
    details = dict(old["details"])
    kind = kind_of(old["suite"], old["quantity"], old["primitive"])
    if kind is rows.PredictedRate and "device" in details:
        details["simulated_device"] = details.pop("device")
    _tell_lists_apart(kind, details)
    _spread_slow_links(kind, details)
    values = {name: old[name] for name in SHARED}
    values["timed"] = HowTimed(**{name: details.pop(name) for name in _TIMED if name in details})
    values |= {"precisions": details.pop("precisions", ()), "node": details.pop("ray_node", "")}
    own, required = _places(kind), _required(kind)
    left: dict[str, Any] = {}
    # An entry of another type than its column's, which an untrusted store may hold, is a note.
    for name, value in (("backend", old["backend"]), ("device", old["device"]), *details.items()):
        place = own.get(name, "")
        if name in ("backend", "device") and not (place and (value or place in required)):
            continue
        if place and (value is None or tables.fits(value, tables.columns(kind)[place])):
            values[place] = value
        else:
            left[name] = value
    if old["suite"] in _VALIDATIONS and old["backend"] == "fpga":
        values["primitive"] = _named_by_design(old["primitive"], mapped=details.get("mapped") is True)
    if kind is rows.ComparisonResult:
        values.setdefault("baseline", old["backend"])
    rest = "parameters" if "parameters" in own else "notes"
    values[rest] = {**values.get(rest, {}), **left}
    return tables.typed(kind, values)


def _named_by_design(primitive: str, *, mapped: bool) -> str:
    """Return the name of a primitive on a simulated device, as in the suite `simulated_profile`.

    In schema 1 validations named the design that mappings use as the primitive, and others apart.
    """
    if mapped:
        return primitive.replace("learner.step", "learner.pipeline_step").replace(
            "sum_tree.", "sum_tree.banked_"
        )
    return primitive.replace("learner.core_step", "learner.step").replace("sum_tree.single_", "sum_tree.")


def _tell_lists_apart(kind: type[Row], details: dict[str, Any]) -> None:
    """Give a list, one entry a seed or a stretch, another name than the number of the same name."""
    by = {rows.ComparisonResult: "by_seed", rows.LearningResult: "by_stretch"}.get(kind)
    for name, short in (("environment_steps", "steps"), ("episodes", "episodes")):
        if by and isinstance(details.get(name), list):
            details[f"{short}_{by}"] = details.pop(name)


def _spread_slow_links(kind: type[Row], details: dict[str, Any]) -> None:
    """Give what slow links change, which schema 1 held together, columns of its own."""
    if issubclass(kind, rows.OfStrategy) and isinstance(details.get("slow_links"), dict):
        names = {"latency_us": "slow_link_us", "gps": "slow_gps"}
        names |= {"chosen": "slow_chosen", "stays_chosen": "slow_chosen"}
        details |= {names.get(name, name): value for name, value in details.pop("slow_links").items()}


def _required(kind: type[Row]) -> set[str]:
    """Return the names of a kind's fields that have no default: a row without such a fact holds an empty text."""
    return {one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING}


def _places(kind: type[Row]) -> Mapping[str, str]:
    """Return the field of a kind that holds an entry of schema 1, by the entry's name."""
    own = {name: name for name in tables.columns(kind)}
    return {**own, **RENAMED.get(kind, {})}


def upgrade(database: sqlite3.Connection) -> None:
    """Change a store of schema 1 into one of the schema of `tables`, within the connection's transaction.

    Raises:
        ValueError, TypeError: it holds something that is no valid row.
    """
    old = database.execute(f"SELECT cell_id, {', '.join(COLUMNS)} FROM measurement ORDER BY id").fetchall()
    database.execute("DROP TABLE measurement")
    for statement in tables.SCHEMA.split(";"):
        if "measurement" in statement:
            database.execute(statement)
    for cell_id, stored in groupby(old, key=itemgetter(0)):
        tables.insert(
            database, cell_id, [_stored(dict(zip(COLUMNS, one[1:], strict=True))) for one in stored]
        )
    database.execute(f"PRAGMA user_version = {tables.VERSION}")


def _stored(old: dict[str, Any]) -> Row:
    if not old["unit"]:
        raise ValueError("unit: found ''; allowed: text that is not empty")
    parsed = {"samples": tables.parsed(old["samples"], list), "details": tables.parsed(old["details"], dict)}
    return typed(old | parsed)
