"""PRL's performance portability over platforms (6.4): from a store that holds validations of several machines."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.claims.evidence import detail, last_attempts, records
from harness.mapping.metrics import experiences_per_s, portability
from harness.provenance import Provenance, weakest


@dataclass(frozen=True)
class PlatformPortability:
    """One workload at one batch size.

    Attributes:
        workload, batch_size: of the cell.
        experiences_per_s: harmonic mean of each machine's best mapping; 0 where one machine ran none.
        best: by machine (its fingerprint), the mapping; what a machine says where each of them failed.
        provenance: the weakest among them.
    """

    workload: str
    batch_size: int
    experiences_per_s: float
    best: dict[str, str]
    provenance: Provenance


def over_platforms(frame: pd.DataFrame) -> list[PlatformPortability]:
    """This project's portability over the machines of a store, for what two or more of them have validated.

    A machine counts with the best of the mappings that were there, and as one that is not supported where all of them
    failed; simulated devices are left out.

    Args:
        frame: of a whole store (`Store.frame()`), such as `placerl merge` makes.
    """
    rows = last_attempts(frame)
    rows = rows[(rows["suite"] == "validation") & (rows["quantity"] == "gradient_steps_per_s")]
    rows = rows[rows["provenance"] == str(Provenance.MEASURED)]
    found = []
    for _, cell in rows.groupby(["workload", "batch_size"]):
        tried = cell.sort_values("value", ascending=False, na_position="last", kind="stable")
        best = records(tried.groupby("fingerprint").head(1))
        if len(best) < 2:
            continue
        workload, size = best[0].workload, int(best[0].batch_size)
        eps = [None if pd.isna(row.value) else experiences_per_s(row.value, size) for row in best]
        found.append(
            PlatformPortability(
                workload,
                size,
                portability(eps),
                {row.fingerprint: _how(row) for row in best},
                weakest(*(Provenance(row.provenance) for row in best)),
            )
        )
    return found


def _how(row: Any) -> str:
    if pd.isna(row.value):
        return f"every mapping failed: {row.reason}"
    return f"{row.device}, {detail(row, 'loop')} loop"
