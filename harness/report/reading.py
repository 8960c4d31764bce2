"""Reads the contents of a report from a store of measurements, machine by machine."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pandas as pd

from placerl.harness import papers
from placerl.harness.papers.evidence import last_attempts
from placerl.harness.papers.machines import with_committed, with_shared
from placerl.harness.report import machine_facts, performance, roofline, tables
from placerl.harness.report.baseline_versions import baseline_versions
from placerl.harness.report.content import Content
from placerl.harness.store.reference import Reference, beside, runs_with_results
from placerl.harness.store.store import RunRecord, Store


def platforms(runs: Iterable[RunRecord]) -> list[RunRecord]:
    """Return the last of these runs of each machine; the machine of the last one comes first."""
    last = {run.fingerprint: run for run in runs}
    return sorted(last.values(), key=lambda run: run.id, reverse=True)


def read_all(path: Path, references: Iterable[Reference] = ()) -> list[Content]:
    """Return the contents of a report on a store, one per machine; the machine of the last run comes first.

    Args:
        references: committed runs; the one that matches a machine's last run best is shown with it.

    Raises:
        UserError: there is no such store, or it has another version.
    """
    references = list(references)
    with Store.open(path, read_only=True) as store:
        runs, frame = tuple(store.runs()), with_committed(store.frame())
        chosen = platforms(runs_with_results(store))
        contents = [arrange(frame, runs, run) for run in chosen] or [arrange(frame, runs, None)]
        return [_beside_reference(store, content, references) for content in contents]


def read(path: Path, references: Iterable[Reference] = ()) -> Content:
    """Return the contents of a report for the machine of a store's last run.

    Args:
        references: committed runs; the one that matches the run best is shown with it.
    """
    return read_all(path, references)[0]


def _beside_reference(store: Store, content: Content, references: Iterable[Reference]) -> Content:
    run = content.run
    reference = beside(run, references) if run else None
    if run is None or reference is None:
        return content
    frame = content.everything
    others = [r.id for r in content.runs if _same_code(r, run) and r.key != reference.run.key]
    last = last_attempts(frame[frame["run"].isin(others)])
    cells = last[["run", "cell"]].drop_duplicates().itertuples(index=False)
    mine = [row for number, cell in cells for row in store.measurements(run=int(number), cell=cell)]
    same = reference.run.fingerprint == run.fingerprint
    why_not = "" if same else "the reference was measured on another machine"
    return replace(
        content, reference=reference, changes=tuple(tables.changes(reference.measurements, mine, why_not))
    )


def _same_code(one: RunRecord, other: RunRecord) -> bool:
    return (one.revision, one.fingerprint) == (other.revision, other.fingerprint)


def arrange(frame: pd.DataFrame, runs: tuple[RunRecord, ...], run: RunRecord | None) -> Content:
    """Return the contents of a report on one run, with runs of other tiers with the same code on the same machine.

    A tier (quick, standard or full) says how much a run measures.
    """
    together = [r.id for r in runs if run and _same_code(r, run)]
    mine = last_attempts(frame[frame["run"].isin(together)])
    judged = with_shared(mine, frame)
    roofs = tuple(roofline.roofs(mine))
    return Content(
        run=run,
        runs=runs,
        measurements=judged,
        everything=frame,
        verdicts=tuple(papers.evaluate(judged, everywhere=frame)),
        predictions=tuple(tables.predictions(mine)),
        choices=tuple(tables.choices(mine)),
        comparisons=tuple(tables.comparisons(mine)),
        baseline_versions=tuple(baseline_versions(mine)),
        throughputs=tuple(performance.throughputs(mine)),
        portabilities=tuple(performance.portabilities(mine, frame)),
        primitives=tuple(tables.primitives(mine)),
        roofs=roofs,
        roofline=tuple(roofline.points(mine, roofs)),
        training=tuple(tables.training(mine)),
        learning=tuple(tables.learning(mine)),
        curves=tuple(tables.curves(mine)),
        gaps=tuple(tables.gaps(mine)),
        facts=tuple(machine_facts.facts(run.machine)) if run else (),
        noise=tuple(machine_facts.noise(mine)),
        core_speed=tuple(machine_facts.core_speed(mine)),
        noisy_rows=tuple(machine_facts.noisy_rows(mine)),
        memory=tuple(machine_facts.memory(mine)),
    )
