"""Rows for tests, stated in the form of schema 1, as rows of their kinds."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from placerl.harness.core.row import Row
from placerl.harness.store import migration, rows

OLD = {"backend", "device", "details"}
LEFT_OUT: dict[str, Any] = {
    **dict.fromkeys(("workload", "unit", "reason", "backend", "device"), ""),
    **dict.fromkeys(("batch_size", "value", "low", "high")),
    **{"status": "ok", "samples": (), "details": {}},
}
"""What a test need not state."""
APART: Mapping[type[Row], Mapping[str, str]] = {
    rows.PredictedRate: {"strategy": "model", "simulated_device": "device"},
    rows.ComparisonResult: {"steps_by_seed": "environment_steps", "episodes_by_seed": "episodes"},
    rows.LearningResult: {"steps_by_stretch": "environment_steps"},
    rows.Regret: {"mapping": "chosen"},
}
"""Names of columns in the details of schema 1, where `migration.RENAMED` does not state them."""


def row_of(**old: Any) -> Any:
    """The row of its kind."""
    more = {name: old.pop(name) for name in ("timed", "precisions", "node", "notes") if name in old}
    made = migration.typed({**LEFT_OUT, **old})
    return dataclasses.replace(made, **more) if more else made


def details_of(row: Row) -> dict[str, Any]:
    """What schema 1 would hold as a row's details."""
    names = {place: name for name, place in migration.RENAMED.get(type(row), {}).items() if name not in OLD}
    names |= APART.get(type(row), {})
    shared = {one.name for one in dataclasses.fields(Row)} | {"system", "backend", "device", "baselines"}
    shared |= {"strategy"} if isinstance(row, rows.Regret) else set()
    own = {one.name: getattr(row, one.name) for one in dataclasses.fields(row) if one.name not in shared}
    spread = own.pop("parameters", None) or {}
    own = {names.get(name, name): value for name, value in own.items() if value is not None}
    more: dict[str, Any] = {"precisions": list(row.precisions)} if row.precisions else {}
    more |= {"ray_node": row.node} if row.node else {}
    return {**row.timed.to_json(), **own, **spread, **row.notes, **more}


def replace(made: Any, **changes: Any) -> Any:
    """As `dataclasses.replace`, also for what only schema 1 had."""
    if not isinstance(made, Row) or not (OLD | {"suite", "quantity"}) & changes.keys():
        return dataclasses.replace(made, **changes)
    old = {name: getattr(made, name) for name in migration.SHARED}
    details = {
        name: value
        for name, value in details_of(made).items()
        if not (name == "model" and "backend" in changes) and not (name == "mapping" and "device" in changes)
    }
    old |= {"backend": made.who, "device": made.where, "details": details}
    return row_of(**old | changes)
