"""Reads with which versions and settings this project and other libraries (baselines) ran, from stored comparisons."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from placerl.harness.compare.parts import OURS
from placerl.harness.papers.evidence import records
from placerl.harness.report.rows.libraries import BaselineVersions

QUANTITIES = {
    "compare": ("gradient_steps_per_s", "replay_cycles_per_s"),
    "learn": ("final_return",),
}
"""The quantities whose rows state the versions of every system, for each suite that compares systems."""


def baseline_versions(frame: pd.DataFrame) -> Iterator[BaselineVersions]:
    """Yield every compared system with each set of versions and settings that it ran with, this project first."""
    groups: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[Any]] = {}
    for row in records(frame[frame["value"].notna()]):
        if row.quantity in QUANTITIES.get(row.suite, ()):
            key = str(row.who), _pairs(row.versions, " "), _pairs(row.deviations, ": ")
            groups.setdefault(key, []).append(row)
    ordered = sorted(groups.items(), key=lambda item: (item[0][0] != OURS, item[0][0]))
    for (system, versions, settings), rows in ordered:
        tasks, workloads = (
            tuple(dict.fromkeys(names))
            for names in zip(*((r.primitive, r.workload) for r in rows), strict=True)
        )
        yield BaselineVersions(
            system, tasks, workloads, versions, settings, tuple(int(r.Index) for r in rows)
        )


def _pairs(stated: Any, between: str) -> tuple[str, ...]:
    """Return names and values; empty if a row states none, or an untrusted one something else."""
    return tuple(f"{k}{between}{v}" for k, v in stated.items()) if isinstance(stated, Mapping) else ()
