"""Joins the evidence of several machines: rows that depend on no machine, and one verdict over all of them.

Clock cycles of a design, what is computed from them, and counts are the same on every machine, so that they are judged
with the measurements of each; those of the committed reference runs belong to every store. Measured times never leave
their machine: a claim about CPU and GPU is judged on the machines that have both.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pandas as pd

from placerl.harness import papers
from placerl.harness.core.outcome import Outcome
from placerl.harness.core.suites import Suite
from placerl.harness.papers import discovery
from placerl.harness.papers.base import Claim, Verdict
from placerl.harness.papers.cells import NIGHT_TIER
from placerl.harness.papers.evidence import USABLE, last_attempts
from placerl.harness.papers.experiments import Experiment
from placerl.harness.store import reference

_GROUP = ("suite", "experiment", "workload", "batch_size", "where")
"""Columns that rows which depend on no machine share if a later run's replace an earlier run's. Those of a profile also
share the part of the training that they are of: learner and replay are designs of their own. Those of PPO's iterations
also share its sizes.
"""
CYCLES = "cycles"
"""Unit of rows that depend on no machine, also in an experiment that times something else."""
SIZES = {"quick": 0, "standard": 1, "full": 2, NIGHT_TIER: 3}
"""How large tiers are next to each other; any other tier is as small as quick."""
MEASURED_AGREEMENT = (Outcome.REPRODUCED, Outcome.IN_KIND)


def of_no_machine(row: Any) -> bool:
    """Return whether a measurement (a row, or a record of the table) is the same on every machine, as cycles are."""
    return row.suite == Suite.SIMULATED_PROFILE or (
        row.suite == Suite.CLAIM and (row.experiment in _experiments() or row.unit == CYCLES)
    )


@cache
def _experiments() -> frozenset[str]:
    discovery.claims()  # the papers' modules declare them
    return frozenset(Experiment.of_no_machine)


def _of_no_machine(frame: pd.DataFrame) -> pd.Series:
    counted = frame["experiment"].isin(_experiments()) | (frame["unit"] == CYCLES)
    return (frame["suite"] == Suite.CLAIM) & counted | (frame["suite"] == Suite.SIMULATED_PROFILE)


def _joined(labels: pd.Index, *columns: Iterable[Any]) -> pd.Series:
    """Return columns of the same rows as one column of text."""
    return pd.Series(
        ["\x1f".join(map(str, values)) for values in zip(*columns, strict=True)], labels, dtype=object
    )


def _groups(rows: pd.DataFrame) -> pd.Series:
    profiled = rows["suite"] == Suite.SIMULATED_PROFILE
    parts = [
        name.partition(".")[0] if of_profile else ""
        for name, of_profile in zip(rows["primitive"], profiled, strict=True)
    ]
    sizes = [(stated or {}).get("iteration", "") for stated in rows["parameters"]]
    return _joined(rows.index, *(rows[name] for name in _GROUP), parts, sizes)


def shared(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the measurements that have a value and depend on no machine, as the last run has them.

    Rows of one experiment or profile, workload, batch size and device are replaced together, since a changed design may
    have other rows. If they failed in the last run, none are returned: what an earlier design gave says nothing.
    """
    rows = frame[_of_no_machine(frame) & frame["status"].isin(("ok", "failed"))]
    rows = last_attempts(rows.sort_values("started_at", kind="stable"))
    newest = rows["run"] == rows["run"].groupby(_groups(rows)).transform("last")
    rows = rows[newest]
    failed = set(_groups(rows[rows["status"] == "failed"]))
    return rows[(rows["status"] == "ok") & ~_groups(rows).isin(failed)]


def with_shared(own: pd.DataFrame, everything: pd.DataFrame) -> pd.DataFrame:
    """Return measurements of one machine with those of all runs that depend on no machine.

    Args:
        own: the machine's measurements, one attempt each.
        everything: the measurements of all runs; `own` is a part of them.

    Returns:
        The rows of `own`, but those that depend on no machine in their last version, and further ones of these.
    """
    lent = shared(everything)
    if lent.empty:
        return own
    mine = own[_of_no_machine(own)]
    replaced = mine.index[_groups(mine).isin(set(_groups(lent)))]
    return pd.concat([own.drop(index=replaced), lent])


def _may_be_shared(table: pd.DataFrame) -> "pd.Series[bool]":
    return table["suite"].isin((Suite.SIMULATED_PROFILE, Suite.CLAIM))


@cache
def committed() -> pd.DataFrame:
    """Return the measurements of all committed reference runs that depend on no machine; their runs are below 0."""
    frame = shared(reference.all_rows(reference.load(kept=_may_be_shared)))
    return frame.assign(run=-frame["run"])


def with_committed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the measurements of a store, followed by the committed ones that depend on no machine.

    What a run of the store has in a later version is left out; labels continue those of the store.
    """
    others = committed()
    others = others[~others["run_key"].isin(frame["run_key"])]  # a store may have taken in a reference run
    lent = others.set_axis(range(len(frame), len(frame) + len(others)))
    newest = shared(pd.concat([frame, lent])) if len(lent) else lent
    return pd.concat([frame, lent.loc[lent.index.intersection(newest.index)]]) if len(newest) else frame


@dataclass(frozen=True)
class JointVerdict:
    """The verdict on a claim over all machines.

    Attributes:
        outcome: what the machines say together (`together`).
        by_machine: the verdict on each machine, by its fingerprint, the machine of the last run first. A claim about
            several machines has one verdict, under "".
    """

    claim: Claim
    outcome: Outcome
    by_machine: dict[str, Verdict]


def together(outcomes: Iterable[Outcome]) -> Outcome:
    """Return what the outcomes of several machines say together.

    Machines without an answer ("not run", "no verdict") decide nothing. If machines measured and contradict each other,
    it depends on the machine. A refutation is stronger than agreement that follows from a formula alone. Among
    agreeing machines the weakest measured agreement counts.
    """
    distinct = set(outcomes)
    measured = distinct & set(MEASURED_AGREEMENT)
    if Outcome.NOT_REPRODUCED in distinct:
        return Outcome.DEPENDS if measured else Outcome.NOT_REPRODUCED
    if measured:
        return Outcome.IN_KIND if Outcome.IN_KIND in measured else Outcome.REPRODUCED
    for outcome in (Outcome.CONSISTENT, Outcome.NO_VERDICT):
        if outcome in distinct:
            return outcome
    return Outcome.NOT_RUN


def _sizes(tiers: pd.Series) -> pd.Series:
    return tiers.map(lambda tier: SIZES.get(tier, 0))


def _stated(rows: pd.DataFrame) -> set[tuple[str, ...]]:
    """Return what rows with a value state: their experiments, quantities and the names of parameters."""
    usable = rows[rows["status"].isin(USABLE)]
    return {
        (str(suite), str(experiment), str(quantity), name)
        for suite, experiment, quantity, given in zip(
            usable["suite"], usable["experiment"], usable["quantity"], usable["parameters"], strict=True
        )
        for name in ("", *(given or {}))
    }


def _largest_attempts(ordered: pd.DataFrame) -> pd.DataFrame:
    """Return the last attempt at each cell of each machine, or an earlier one of a larger tier (`last_of_machines`)."""
    attempts = ordered["run"].astype(str) + "/" + ordered["cell"]
    cells = _joined(ordered.index, ordered["fingerprint"], ordered["cell"].str.split("#").str[0])
    tried: dict[str, dict[str, int]] = {}
    for cell, attempt, size in zip(cells, attempts, _sizes(ordered["tier"]), strict=True):
        of_cell = tried.setdefault(cell, {})
        of_cell.pop(attempt, None)  # in the order in which they ended
        of_cell[attempt] = size
    kept = set()
    for of_cell in tried.values():
        *earlier, best = of_cell
        if any(of_cell[attempt] > of_cell[best] for attempt in earlier):
            stated = _stated(ordered[attempts == best])
            for attempt in reversed(earlier):
                larger = of_cell[attempt] > of_cell[best]
                if larger and stated and stated <= _stated(ordered[attempts == attempt]):
                    best = attempt
        kept.add(best)
    return ordered[attempts.isin(kept)]


def _last_profiles(rows: pd.DataFrame) -> pd.DataFrame:
    """Return measurements without times of a profile that another run of the machine replaces (`last_of_machines`).

    It may hold them in a cell of another name.
    """
    if rows.empty:
        return rows
    profile = rows["suite"] == Suite.PROFILE
    columns = ["fingerprint", "workload", "batch_size", "primitive", "who", "where"]
    same = _joined(rows.index, *(rows[name] for name in columns))
    by_size = _sizes(rows["tier"]).sort_values(kind="stable").index
    last = rows["run"].loc[by_size].groupby([same.loc[by_size], profile.loc[by_size]]).transform("last")
    return rows[~profile | (rows["run"] == last.loc[rows.index])]


def last_of_machines(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one attempt at each cell (unit of work) of each machine, whatever revision made it.

    It is that of the largest tier (`SIZES`), and the last one among equals: a short run does not replace a long one.
    One that states less than the last attempt, such as of an earlier version of an experiment, does not count, nor
    does any where the last attempt has no value.
    """
    ordered = frame.sort_values("started_at", kind="stable")
    return _last_profiles(_largest_attempts(ordered))


def by_machine(last: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return what is judged on each machine, by its fingerprint, the machine of the last run first."""
    machines = dict.fromkeys(last["fingerprint"].iloc[::-1])
    return {machine: with_shared(last[last["fingerprint"] == machine], last) for machine in machines}


def judged(frame: pd.DataFrame) -> list[JointVerdict]:
    """Return the verdict on each claim over the measurements of all machines, paper by paper."""
    last = last_of_machines(frame)
    return joint(
        {machine: papers.evaluate(own, everywhere=last) for machine, own in by_machine(last).items()}
    )


def joint(verdicts: Mapping[str, Sequence[Verdict]]) -> list[JointVerdict]:
    """Return the verdict on each claim over machines from those on each machine.

    Args:
        verdicts: the verdicts on the same claims by the machine's fingerprint, the machine of the last run first.
    """
    joint_verdicts = []
    for of_claim in zip(*verdicts.values(), strict=True):
        claim = of_claim[0].claim
        on_each = dict(zip(verdicts, of_claim, strict=True))
        if claim.everywhere:
            on_each = {"": of_claim[0]}
        outcome = together(verdict.finding.outcome for verdict in on_each.values())
        joint_verdicts.append(JointVerdict(claim, outcome, on_each))
    return joint_verdicts
