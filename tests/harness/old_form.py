"""Rows for tests, stated in the form of schema 1, as rows of their kinds."""

import dataclasses
from typing import Any

from placerl.harness.core.row import Measurement, Row
from placerl.harness.store import migration

OLD = {"backend", "device", "details"}


def row_of(**old: Any) -> Row:
    """The row of its kind."""
    return migration.typed(vars(Measurement(**old)))


def replace(made: Any, **changes: Any) -> Any:
    """As `dataclasses.replace`, also for what only schema 1 had."""
    if not isinstance(made, Row) or not (OLD | {"suite", "quantity"}) & changes.keys():
        return dataclasses.replace(made, **changes)
    shared = {name: getattr(made, name) for name in (*migration.SHARED, *OLD)}
    details = {
        name: value
        for name, value in shared["details"].items()
        if not (name == "model" and "backend" in changes) and not (name == "mapping" and "device" in changes)
    }
    return migration.typed({**shared, "details": details, **changes})
