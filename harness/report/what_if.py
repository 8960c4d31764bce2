"""The data of the page's what-if control: times of primitives, from which the page itself predicts every mapping.

`templates/what_if.js` has the two formulas that need nothing but times of primitives: MAP's Equation 3, where replay
management works ahead of the learner (D above 0), and the sum of the primitives, where nothing overlaps (D = 0). They
are those of `harness.mapping.strategies.map_tpds23` and `primitive_sum`.
"""

from itertools import groupby
from typing import Any

import pandas as pd

from harness import workloads
from harness.core.errors import UserError
from harness.core.suites import Suite
from harness.mapping.target import Target, storage_on
from harness.papers.evidence import detail, records
from harness.profile import simulated

PRIMITIVES = (
    "actor.infer",
    "environment.step",
    "learner.step",
    "storage.gather",
    "storage.insert",
    "sum_tree.insert",
    "sum_tree.sample",
    "sum_tree.update",
)
HERE = "here"
"""Name of this machine, with the devices simulated on it, among the platforms."""


def tables(frame: pd.DataFrame) -> list[dict[str, object]]:
    """Return one table of times for each platform, workload and batch size, ready for JSON.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.

    Returns:
        For each "platform", "workload", "batch_size", "environment_steps" (between gradient steps), "storages" (the
        storage on each device), and "times": primitive, target, device, seconds, provenance, and whether the time is
        too noisy for a verdict. Those of a simulated device are of the learner and the replay that mappings use
        (`simulated.as_mapped`). Workloads that are not shipped, and on-policy ones, are left out.
    """
    suites = (Suite.PROFILE, simulated.SUITE, Suite.ABSENT_PLATFORM)
    chosen = frame[
        frame["suite"].isin(suites)
        & frame["primitive"].isin((*PRIMITIVES, simulated.PIPELINE, *simulated.BANKED.values()))
        & (frame["quantity"] == "time_per_call")
        & frame["value"].notna()
        & frame["batch_size"].notna()
    ]
    rows = sorted((row for row in records(chosen) if _target(row)), key=_table_of)
    known = set(workloads.names())
    return [
        _table(*key, list(group))
        for key, group in groupby(rows, key=_table_of)
        if key[1] in known and workloads.load(key[1]).algorithm.name != "ppo"
    ]


def _table_of(row: Any) -> tuple[str, str, int]:
    return str(detail(row, "platform") or HERE), row.workload, int(row.batch_size)


def _table(platform: str, workload: str, batch_size: int, rows: list[Any]) -> dict[str, object]:
    times = list(_times(rows))
    devices = {"cpu", *(device for _, _, device, *_ in times)}
    return {
        "platform": platform,
        "workload": workload,
        "batch_size": batch_size,
        "environment_steps": workloads.load(workload).training.update_interval,
        "storages": {device: str(storage_on(device)) for device in sorted(devices)},
        "times": times,
    }


def _target(row: Any) -> Target | None:
    """Return the target that a row's details name; None if they name none, or no valid one."""
    try:
        return Target.parse(str(detail(row, "target") or ""))
    except (ValueError, UserError):
        return None


def _times(rows: list[Any]) -> list[tuple[str, str, str, float, str, bool]]:
    """Return one time for each primitive and target: the last."""
    last = {(row.primitive, target): row for row in rows if (target := _target(row))}
    names = simulated.names_as_mapped(list(last.values()))
    found = {(name, target): row for name, ((_, target), row) in zip(names, last.items(), strict=True)}
    return [
        (name, str(target), target.device, float(row.value), str(row.provenance), row.status == "too_noisy")
        for (name, target), row in sorted(found.items(), key=lambda item: item[0])
        if name in PRIMITIVES
    ]
