"""Computes PRL's performance portability over machines (6.4), from a store with trainings of several machines."""

from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.mapping.choices import HERE
from placerl.harness.papers.evidence import last_attempts, noisy, records
from placerl.harness.papers.number import Number
from placerl.harness.papers.portability import experiences, harmonic_mean


@dataclass(frozen=True)
class PlatformPortability:
    """The performance portability of one workload at one batch size over several machines.

    A mapping says where learner, replay management and storage run.

    Attributes:
        workload, batch_size: what the machines trained.
        mean: harmonic mean over the machines of the best mapping's experiences per second; 0 if no mapping ran on one
            of the machines.
        best: the best mapping as text, by the machine's fingerprint; for a machine without one, the reason.
        unsupported: number of machines that ran no mapping.
        noisy: whether one of the rates is too noisy for a verdict.
    """

    workload: str
    batch_size: int
    mean: Number
    best: dict[str, str]
    unsupported: int
    noisy: bool


def over_platforms(frame: pd.DataFrame) -> list[PlatformPortability]:
    """Return the performance portability of each workload and batch size that at least two machines have validated.

    A machine counts with its best mapping (where learner, replay management and storage run), and as unsupported if
    all its mappings failed. A mapping that its race dropped is not the best, unless all of them were dropped: it has
    few rounds, and its median may be better only because the machine was faster in them. Simulated devices are left
    out.

    Args:
        frame: the measurements of a whole store (`Store.frame()`), such as one made by `placerl merge`.
    """
    rows = last_attempts(frame, of_any_code=True)
    rows = rows[(rows["suite"] == Suite.VALIDATION) & (rows["quantity"] == "gradient_steps_per_s")]
    # An untrusted store may hold rates below 0.
    rows = rows[(rows["provenance"] == str(Provenance.MEASURED)) & ~(rows["value"] < 0)]
    portabilities = []
    for _, cell in rows.groupby(["workload", "batch_size"]):
        ranked = cell.assign(missing=cell["value"].isna(), dropped=list(map(_dropped, records(cell))))
        tried = ranked.sort_values(["missing", "dropped", "value"], ascending=[True, True, False])
        chosen = tried.groupby("fingerprint").head(1)
        best = records(chosen)
        if len(best) < 2:
            continue
        eps = [None if pd.isna(row.value) else experiences(row) for row in best]
        labels = tuple(sorted(int(row.Index) for row in best))  # also of failed rows
        portabilities.append(
            PlatformPortability(
                best[0].workload,
                int(best[0].batch_size),
                replace(harmonic_mean(eps), rows=labels),
                {row.fingerprint: _how(row) for row in best},
                eps.count(None),
                noisy(chosen),
            )
        )
    return portabilities


def _dropped(row: Any) -> bool:
    """Return whether the race of the real devices dropped a mapping."""
    lost = row.clearly_slower_among
    return isinstance(lost, list) and HERE in lost  # an untrusted store may hold anything


def _how(row: Any) -> str:
    if pd.isna(row.value):
        return f"every mapping failed: {row.reason}"
    return f"{row.mapping}, {row.loop} loop"
