"""Gathers the figures about CPU, GPU and FPGA over all machines: those of a store, and those of the committed runs.

The page of a report and the page in `docs/results` show the same. What the committed runs measured on machines that a
reader does not have stands next to what was measured here, each number with its machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pandas as pd

from placerl.harness.core.suites import Suite
from placerl.harness.papers import device_figures, machines
from placerl.harness.papers.base import Verdict
from placerl.harness.papers.device_figures import DeviceFigure, Tables
from placerl.harness.papers.device_table import Entry
from placerl.harness.papers.device_times import GPU, OPERATIONS
from placerl.harness.report import machine_facts
from placerl.harness.report.content import Content
from placerl.harness.report.machine_facts import letters
from placerl.harness.store import reference
from placerl.harness.store.reference import Reference
from placerl.harness.store.store import RunRecord


@dataclass(frozen=True)
class Evidence:
    """The tables and the verdicts of some machines, the machine of the last run first.

    Attributes:
        machines: description of each machine by its fingerprint.
        tables: its tables.
        verdicts: its verdicts on the claims on the figures about devices, with the best of each device.
        as_in_the_papers: those with implementations of the papers' kind.
    """

    machines: dict[str, Mapping[str, Any]]
    tables: dict[str, Tables]
    verdicts: dict[str, Sequence[Verdict]]
    as_in_the_papers: dict[str, Sequence[Verdict]]


@dataclass(frozen=True)
class Devices:
    """What a page shows: the figures, and the machines that their numbers name.

    Attributes:
        figures: the figures about devices, paper by paper.
        machines: description of each machine by its fingerprint.
        letters: its letter.
    """

    figures: Sequence[DeviceFigure]
    machines: Mapping[str, Mapping[str, Any]]
    letters: Mapping[str, str]

    def machine(self, entry: Entry, kind: str) -> str:
        """Return the letter of the machine that measured a number, with the device's name; empty if it needs none."""
        if not entry.machine:
            return ""
        name = machine_facts.device_name(self.machines[entry.machine], "cpu" if kind != GPU else GPU)
        return " ".join(filter(None, (self.letters[entry.machine], name)))


def evidence(frame: pd.DataFrame, runs: Sequence[RunRecord]) -> Evidence:
    """Return what measurements say on the figures about devices, machine by machine.

    Args:
        frame: the measurements of all these runs, and others that depend on no machine.
    """
    described = {run.fingerprint: run.machine for run in runs}
    every = {} if frame.empty else machines.by_machine(machines.last_of_machines(frame))
    frames = {machine: own for machine, own in every.items() if machine in described}
    # Where nothing was measured the papers' numbers stand alone.
    frames = frames or {"": frame.iloc[:0]}
    return Evidence(
        {machine: described[machine] for machine in frames if machine in described},
        {machine: device_figures.tables_of(machine, own) for machine, own in frames.items()},
        {machine: device_figures.verdicts_of(own) for machine, own in frames.items()},
        {machine: device_figures.as_in_the_papers(own) for machine, own in frames.items()},
    )


def of_references(references: Sequence[Reference]) -> Devices:
    """Return the figures over the machines of committed runs."""
    runs = [one.run for one in references]
    return _together(evidence(reference.all_rows(references), runs), runs)


def of_content(content: Content) -> Devices:
    """Return the figures over the machines of a report's store and of all committed runs."""
    theirs, runs = _committed()
    own = evidence(content.everything, content.runs)
    # A machine of both counts with the runs of the store; its own machines come first.
    both = Evidence(
        own.machines | theirs.machines | own.machines,
        own.tables | theirs.tables | own.tables,
        own.verdicts | theirs.verdicts | own.verdicts,
        own.as_in_the_papers | theirs.as_in_the_papers | own.as_in_the_papers,
    )
    return _together(both, (*content.runs, *runs))


@cache  # the committed runs stay the same, and a process may write several reports
def _committed() -> tuple[Evidence, tuple[RunRecord, ...]]:
    references = reference.load(kept=_is_read)
    runs = tuple(one.run for one in references)
    return evidence(reference.all_rows(references), runs), runs


def _is_read(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Return which measurements the figures read: a fifth of those of the committed runs."""
    timed = (rows["suite"] == Suite.PROFILE) & rows["primitive"].isin(OPERATIONS)
    trained = (rows["suite"] == Suite.VALIDATION) & (rows["quantity"] == "gradient_steps_per_s")
    return timed | trained | rows["suite"].isin((Suite.SIMULATED_PROFILE, Suite.CLAIM, Suite.COMPARE))


def _together(found: Evidence, runs: Sequence[RunRecord]) -> Devices:
    verdicts, printed = machines.joint(found.verdicts), machines.joint(found.as_in_the_papers)
    figures = device_figures.figures(list(found.tables.values()), verdicts, printed)
    return Devices(
        figures, found.machines, letters([run for run in runs if run.fingerprint in found.machines])
    )
