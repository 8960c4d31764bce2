"""This project and every baseline beside it, by the versions and settings that their workers name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from harness.claims.evidence import detail, records
from harness.compare import OURS

QUANTITIES = {
    "compare": ("gradient_steps_per_s", "replay_cycles_per_s"),
    "learn": ("final_return",),
}
"""Of each suite that sets systems beside one another, those of which every system has rows that name versions."""


@dataclass(frozen=True)
class BaselineVersions:
    """A system beside others, where it had the same versions and the same settings.

    Attributes:
        system: "placerl" or the baseline.
        tasks: what of it was compared: "training", "learner and replay" or "replay".
        workloads: where it had these versions and settings.
        versions: each as "package version"; none where its rows do not say.
        settings: each as "name: value"; its own, and in what it departs from the workload.
        rows: that name them.
    """

    system: str
    tasks: tuple[str, ...]
    workloads: tuple[str, ...]
    versions: tuple[str, ...]
    settings: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass
class _Where:
    """What has the same versions and settings; the keys of a dictionary are a set that keeps its order."""

    tasks: dict[str, None] = field(default_factory=dict)
    workloads: dict[str, None] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)


def baseline_versions(frame: pd.DataFrame) -> Iterator[BaselineVersions]:
    """One for each system and each set of versions and settings that it ran with, this project first.

    Args:
        frame: rows of a run, those that failed among them.
    """
    found: dict[tuple[str, tuple[str, ...], tuple[str, ...]], _Where] = {}
    for row in records(frame[frame["value"].notna()]):
        if row.quantity not in QUANTITIES.get(row.suite, ()):
            continue
        key = _system(row), _pairs(row, "versions", " "), _pairs(row, "notes", ": ")
        where = found.setdefault(key, _Where())
        where.tasks[row.primitive] = None
        where.workloads[row.workload] = None
        where.rows.append(int(row.Index))
    ordered = sorted(found.items(), key=lambda item: (item[0][0] != OURS, item[0][0]))
    for (system, versions, settings), where in ordered:
        tasks, workloads, rows = tuple(where.tasks), tuple(where.workloads), tuple(where.rows)
        yield BaselineVersions(system, tasks, workloads, versions, settings, rows)


def _system(row: Any) -> str:
    return OURS if detail(row, "part") == "ours" else str(row.backend)


def _pairs(row: Any, name: str, between: str) -> tuple[str, ...]:
    """Names and values of a detail; none where a stranger's row has something else there."""
    found = detail(row, name)
    return tuple(f"{k}{between}{v}" for k, v in found.items()) if isinstance(found, Mapping) else ()
