"""Defines the contents of a report: the rows of the tables that the page and the exported files share.

Every number is a `Number`, with unit, provenance and the stored measurements that it came from; the page shows no
other numbers. Throughputs and portabilities are only in the files.
"""

import hashlib
from dataclasses import dataclass

import pandas as pd

from placerl.harness.papers import Verdict
from placerl.harness.papers.evidence import records
from placerl.harness.papers.number import Number
from placerl.harness.report.rows.libraries import BaselineComparison, BaselineVersions, Learning
from placerl.harness.report.rows.mappings import Choice, PredictedThroughput
from placerl.harness.report.rows.primitives import DeviceRoof, PrimitiveTime, RooflinePoint
from placerl.harness.report.rows.runs import Change, Fact, Gap, NoisyRows
from placerl.harness.report.rows.trainings import Portability, Throughput, TrainingCurve, TrainingResult
from placerl.harness.store.reference import Reference
from placerl.harness.store.store import RunRecord


@dataclass(frozen=True)
class Content:
    """The contents of a report on one machine, which the page and the exported files show.

    The attributes that are not listed here hold the rows of the report's tables, such as `primitives`.

    Attributes:
        run: the run of the report, the last one of its machine; None if the store has none.
        runs: every run of the store.
        reference: the committed run that is shown for comparison; None if there is none.
        changes: changes of the quantities that the run and the reference both have.
        measurements: the measurements of the run and of runs of other tiers with the same code on the same machine,
            one per row, and those of all runs, of the store or committed, that depend on no machine. If something was
            measured several times, only the last attempt is kept. The index labels are those of `everything`.
        core_speed: how much of the timed work ran at full core speed; empty if no measurement states it.
        noisy_rows: numbers of noisy measurements of each kind, then of all; empty if nothing was timed.
        memory: peak memory of these runs; empty if the store is too old to hold it.
        everything: the measurements of the whole store, for verdicts that use several machines, then those of committed
            runs that depend on no machine and that the store lacks. These runs have numbers below 0.
    """

    run: RunRecord | None
    runs: tuple[RunRecord, ...]
    measurements: pd.DataFrame
    everything: pd.DataFrame
    verdicts: tuple[Verdict, ...]
    predictions: tuple[PredictedThroughput, ...]
    choices: tuple[Choice, ...]
    comparisons: tuple[BaselineComparison, ...]
    baseline_versions: tuple[BaselineVersions, ...]
    throughputs: tuple[Throughput, ...]
    portabilities: tuple[Portability, ...]
    primitives: tuple[PrimitiveTime, ...]
    roofs: tuple[DeviceRoof, ...]
    roofline: tuple[RooflinePoint, ...]
    training: tuple[TrainingResult, ...]
    learning: tuple[Learning, ...]
    curves: tuple[TrainingCurve, ...]
    gaps: tuple[Gap, ...]
    facts: tuple[Fact, ...]
    noise: tuple[Number, ...]
    reference: Reference | None = None
    changes: tuple[Change, ...] = ()
    core_speed: tuple[Number, ...] = ()
    noisy_rows: tuple[NoisyRows, ...] = ()
    memory: tuple[Number, ...] = ()

    def lenders(self, verdict: Verdict) -> list[str]:
        """Return the other runs whose measurements a verdict uses, as text; such measurements depend on no machine.

        A claim about several machines is about all runs, so that none lends to it.
        """
        if verdict.claim.everywhere:
            return []
        own = self.run and (self.run.revision, self.run.fingerprint)
        rows = self.everything.loc[list(verdict.rows)]
        others = {
            (row.started_at[:10], row.revision[:12], "committed run" if row.run < 0 else "run")
            for row in records(rows[["started_at", "revision", "fingerprint", "run"]])
            if (row.revision, row.fingerprint) != own
        }
        return [f"{kind} of {day}, revision {revision}" for day, revision, kind in sorted(others)]

    @property
    def slug(self) -> str:
        """Return the name of the folder that holds the pages and files of the machine.

        It is a hash, because an untrusted fingerprint must not choose a file name.
        """
        name = self.run.fingerprint if self.run else ""
        return hashlib.sha256(name.encode()).hexdigest()[:12]
