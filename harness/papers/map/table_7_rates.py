"""Compares the rates that MAP Table VII implies with those of MAP's performance model on MAP's platform."""

import pandas as pd

from harness.core.provenance import Provenance
from harness.core.suites import Suite
from harness.papers.base import Finding, Outcome, by_a_model
from harness.papers.evidence import NEAR, detail, near, records, select
from harness.papers.map import table_5
from harness.papers.number import Number, from_cell, ratio

NEEDS = table_5.NEEDS_TABLE_5
ROWS = {
    "Pong, DQN": ("pong-dqn", 256),
    "Hopper, DDPG": ("hopper-ddpg", 16384),
    "CartPole, DDPG": ("cartpole-ddpg", 16384),
}
"""The rows of Table VII, each with its workload and the batch size at which VII-E evaluates it."""
UNKNOWN = (
    "The model takes the peaks of Table IV and no share of them that a learner reaches, so that a modelled rate is a "
    "bound from above; a printed rate above it would be one that the platform's numbers do not allow."
)


def printed_rates() -> tuple[Number, ...]:
    """Return the gradient steps per second that MAP Table VII implies: power times efficiency."""
    return tuple(_printed(row) for row in ROWS)


def _printed(row: str) -> Number:
    watts, efficiency = (
        from_cell("map_table_7", row, "MAP power"),
        from_cell("map_table_7", row, "MAP efficiency"),
    )
    value = watts.value * efficiency.value
    return Number(
        f"{row}: throughput", value, "GPS", Provenance.PUBLISHED, "MAP Table VII, power x efficiency"
    )


def rates(frame: pd.DataFrame) -> Finding:
    """Check MAP Table VII: the rates that it implies agree with Equation 3 on modelled times of MAP's platform.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    cells = {
        (row.workload, int(row.batch_size)): row
        for row in records(
            select(
                frame, suite=Suite.CLAIM, primitive="mapping", quantity="as_printed", backend=table_5.MODEL
            )
        )
    }
    if not cells.keys() >= set(ROWS.values()):
        return Finding(Outcome.NOT_RUN, needs=NEEDS)
    modelled, shares = [], []
    for row, place in ROWS.items():
        cell = cells[place]
        gps = 1 / max(detail(cell, "learner_s"), detail(cell, "rmm_s"))
        name = f"{row}: modelled rate of {detail(cell, 'ours')}"
        source = "MAP Equation 3 on times modelled from the published numbers"
        modelled.append(Number(name, gps, "GPS", Provenance.MODELLED, source, rows=(int(cell.Index),)))
        shares.append(ratio(f"{row}: printed over modelled", _printed(row), modelled[-1]))
    close = sum(near(share.value, 1.0) for share in shares)
    above = [share.quantity for share in shares if share.value > 1 + NEAR]
    said = f"{close} of {len(shares)} printed rates are within {NEAR:.0%} of the modelled ones."
    if above:
        said += f" Above the model, which knows no faster device: {'; '.join(above)}."
    return by_a_model(close == len(shares), (*modelled, *shares), said, unknown=UNKNOWN)
