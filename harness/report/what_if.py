"""The data of the page's what-if control: times of primitives, from which the page itself predicts every mapping.

`templates/what_if.js` has the two formulas that need nothing but times of primitives: MAP's Equation 3, where replay
management works ahead of the learner (D above 0), and the sum of the primitives, where nothing overlaps (D = 0). They
are those of `harness.mapping.strategies.map_tpds23` and `primitive_sum`.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import groupby
from typing import Any

import pandas as pd

from placerl.harness import platforms, workloads
from placerl.harness.core.errors import UserError
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import absent_platforms
from placerl.harness.mapping.predict import used_times
from placerl.harness.mapping.target import Target, storage_on
from placerl.harness.papers.evidence import records
from placerl.harness.profile import lent, simulated
from placerl.harness.report import other_gpus

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
Time = tuple[str, str, str, float, str, bool]
"""Primitive, target, device, seconds, provenance, and whether the time is too noisy for a verdict."""


def tables(frame: pd.DataFrame) -> list[dict[str, object]]:
    """Return one table of times of this machine for each workload and batch size, ready for JSON.

    Returns:
        For each "platform", "workload", "batch_size", "environment_steps" (between gradient steps), "storages" (the
        storage on each device), and "times": primitive, target, device, seconds, provenance, and whether the time is
        too noisy for a verdict. Those of a simulated device are of the learner and the replay that mappings use
        (`predict.used_times`). Workloads that are not shipped, and on-policy ones, are left out.
    """
    chosen = frame[
        frame["suite"].isin((Suite.PROFILE, simulated.SUITE))
        & frame["primitive"].isin((*PRIMITIVES, simulated.PIPELINE, *simulated.BANKED.values()))
        & (frame["quantity"] == "time_per_call")
        & frame["value"].notna()
        & frame["batch_size"].notna()
    ]
    rows = sorted((row for row in records(chosen) if _target(row)), key=_table_of)
    known = set(workloads.names())
    groups = ((key, list(group)) for key, group in groupby(rows, key=_table_of))
    return [
        _table(HERE, *key, _times(group))
        for key, group in groups
        if key[0] in known
        and workloads.load(key[0]).algorithm.name != "ppo"
        and any(row.suite == Suite.PROFILE for row in group)  # cycles alone are no machine
    ]


def with_other_gpus(frame: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Yield the tables of times of this machine with a GPU of another machine, where both were measured.

    The name of the platform names the GPU's machine, and the GPU's targets name the GPU.
    """
    for name, size, own, gpu in other_gpus.times(frame):
        rows = lent.times(own, gpu, name, size)
        yield _table(f"{HERE}, with {gpu.machine}", name, size, _times(rows))


def published(names: Collection[str]) -> Iterator[dict[str, object]]:
    """Yield the tables of the platforms that papers publish, modelled from their numbers or published as times.

    A platform without the numbers that a workload needs has no table of it.
    """
    for platform in map(platforms.load, platforms.names()[1:]):
        for name in names:
            workload = workloads.load(name)
            for size in absent_platforms.batch_sizes(workload, platform.name):
                with suppress(UserError):
                    rows = absent_platforms.times(workload, size, platform)
                    yield _table(
                        platform.name,
                        name,
                        size,
                        sorted(
                            (
                                row.primitive,
                                row.target or "",
                                row.device,
                                row.value,
                                str(row.provenance),
                                False,
                            )
                            for row in rows
                            if row.primitive in PRIMITIVES and row.value is not None
                        ),
                    )


def _table_of(row: Any) -> tuple[str, int]:
    return row.workload, int(row.batch_size)


def _table(platform: str, workload: str, batch_size: int, times: list[Time]) -> dict[str, object]:
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
    """Return the target that a row names; None if they name none, or no valid one."""
    try:
        return Target.parse(row.target or "")
    except (ValueError, UserError):
        return None


def _times(rows: list[Any]) -> list[Time]:
    """Return one time for each primitive and target: the last."""
    by_piece = {(name, Target.parse(target)): row for (name, target), row in used_times(rows).items()}
    return [
        (name, str(target), target.device, float(row.value), str(row.provenance), row.status == "too_noisy")
        for (name, target), row in sorted(by_piece.items(), key=lambda item: item[0])
        if name in PRIMITIVES
    ]
