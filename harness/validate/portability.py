"""PRL's performance portability over platforms (6.4): from a store that holds validations of several machines."""

from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from harness.core.provenance import Provenance
from harness.papers.evidence import detail, last_attempts, noisy, records
from harness.papers.number import Number
from harness.papers.prl.portability import experiences, harmonic_mean


@dataclass(frozen=True)
class PlatformPortability:
    """One workload at one batch size.

    Attributes:
        workload, batch_size: of the cell.
        mean: harmonic mean of each machine's best mapping, experiences a second; 0 where one machine ran none.
        best: by machine (its fingerprint), the mapping; what a machine says where each of them failed.
        unsupported: how many machines ran none.
        noisy: whether a rate in it is too noisy for a verdict.
    """

    workload: str
    batch_size: int
    mean: Number
    best: dict[str, str]
    unsupported: int
    noisy: bool


def over_platforms(frame: pd.DataFrame) -> list[PlatformPortability]:
    """This project's portability over the machines of a store, for what two or more of them have validated.

    A machine counts with the best of the mappings that were there, and as one that is not supported where all of them
    failed; simulated devices are left out.

    Args:
        frame: of a whole store (`Store.frame()`), such as `placerl merge` makes.
    """
    rows = last_attempts(frame)
    rows = rows[(rows["suite"] == "validation") & (rows["quantity"] == "gradient_steps_per_s")]
    # An untrusted store may hold rates below 0.
    rows = rows[(rows["provenance"] == str(Provenance.MEASURED)) & ~(rows["value"] < 0)]
    found = []
    for _, cell in rows.groupby(["workload", "batch_size"]):
        tried = cell.sort_values("value", ascending=False, na_position="last", kind="stable")
        chosen = tried.groupby("fingerprint").head(1)
        best = records(chosen)
        if len(best) < 2:
            continue
        eps = [None if pd.isna(row.value) else experiences(row) for row in best]
        labels = tuple(sorted(int(row.Index) for row in best))  # also of what failed
        found.append(
            PlatformPortability(
                best[0].workload,
                int(best[0].batch_size),
                replace(harmonic_mean(eps), rows=labels),
                {row.fingerprint: _how(row) for row in best},
                eps.count(None),
                noisy(chosen),
            )
        )
    return found


def _how(row: Any) -> str:
    if pd.isna(row.value):
        return f"every mapping failed: {row.reason}"
    return f"{row.device}, {detail(row, 'loop')} loop"
