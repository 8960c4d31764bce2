"""The check of MAP's claim about threads within one call of the sum tree (VII-C, Fig. 12)."""

import pandas as pd

from harness.papers.base import Finding, Outcome
from harness.papers.evidence import Paired, detail, paired, records, select
from harness.papers.gains_rule import interval
from harness.papers.map.tree_threads import EXPERIMENT, FIND, THREADS, UPDATE

NEEDS = "the experiment MAP-F12-threads: a sum tree's calls with one and with two threads, a core each"


def _scaling(frame: pd.DataFrame, call: str) -> list[Paired]:
    """At each batch size: the most threads over one."""
    found: dict[int, dict[tuple[int, bool], object]] = {}
    for row in records(select(frame, suite="claim", quantity="time_per_call", primitive=call)):
        if detail(row, "experiment") == EXPERIMENT:
            side = int(detail(row, "threads")), bool(detail(row, "null"))
            found.setdefault(int(row.batch_size), {})[side] = row
    one, most = min(THREADS), max(THREADS)
    return [
        paired(
            f"{call}, batch size {size}: {most} threads over {one}",
            rows[most, False],
            rows[most, True],
            rows[one, False],
            at_most=most / one,
        )
        for size, rows in sorted(found.items())
        if {(one, False), (most, False), (most, True)} <= rows.keys()
    ]


def threads_in_a_call(frame: pd.DataFrame) -> Finding:
    """MAP Fig. 12: threads shorten the prefix sum index of a batch, and not its priority update."""
    finds, updates = _scaling(frame, FIND), _scaling(frame, UPDATE)
    if not finds or not updates:
        return Finding(Outcome.NOT_RUN, needs=NEEDS)
    ours = tuple(each.gain for each in (*finds, *updates))
    found, updated = ([each.outcome.verdict for each in some] for some in (finds, updates))
    explanation = (
        f"{max(THREADS)} threads find faster than one at {found.count('faster')} of {len(found)} batch sizes and "
        f"update faster at {updated.count('faster')} of {len(updated)}, with MAP's own algorithms: finds only read, "
        f"updates add to every level with atomics."
    )
    if "slower" in found or "faster" in updated:
        return Finding(Outcome.NOT_REPRODUCED, ours, explanation)
    if found.count("faster") < len(found):
        return Finding(Outcome.NO_VERDICT, ours, explanation)
    # Not to be faster is shown only where updates gain clearly less than finds do.
    least = min(interval(each.gain)[0] for each in finds)
    most = max(interval(each.gain)[1] for each in updates)
    return Finding(Outcome.REPRODUCED if most < least else Outcome.NO_VERDICT, ours, explanation)
