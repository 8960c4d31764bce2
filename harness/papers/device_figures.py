"""Joins the tables of CPU, GPU and FPGA (`device_table`) of several machines, figure by figure.

No machine here has a CPU, a GPU and an FPGA that were all measured at every size. Next to each other the numbers of
several machines, each with the name of its machine, show what the papers' figures show. Verdicts need more: they
compare what one machine measured (`harness.papers.machines`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from placerl.harness.core.outcome import Outcome
from placerl.harness.papers import discovery
from placerl.harness.papers.base import Claim, Verdict
from placerl.harness.papers.device_table import DeviceTable, Entry, OfDevices
from placerl.harness.papers.machines import JointVerdict, of_no_machine
from placerl.harness.papers.number import Number
from placerl.harness.papers.papers_own import AlsoAsInThePaper

Tables = Mapping[str, Sequence[DeviceTable]]
"""The tables of one machine by the key of the claim that has them."""


@dataclass(frozen=True)
class DeviceFigure:
    """The tables of one figure or table of a paper.

    Attributes:
        claims: the verdicts on what the paper says of the figure, over all machines, with the best of each device.
        tables: its tables, with the numbers of all machines.
        second_findings: the paper's implementations, as text, and the outcome with these, by the key of the claim; only
            where a claim is also judged so.
    """

    claims: tuple[JointVerdict, ...]
    tables: tuple[DeviceTable, ...]
    second_findings: Mapping[str, tuple[str, Outcome]]

    @property
    def key(self) -> str:
        """Return the key of the figure's first claim, such as "MAP-F11"."""
        return self.claims[0].claim.key

    @property
    def place(self) -> str:
        """Return the paper's key and the place of the figure, such as "MAP VII-C, Fig. 12"."""
        claim = self.claims[0].claim
        return f"{claim.paper} {claim.place}"


def by_figure() -> list[list[Claim]]:
    """Return the claims on each figure about devices, paper by paper; one or more of a figure's have tables."""
    places: dict[tuple[str, str], list[Claim]] = {}
    for claim in discovery.claims():
        places.setdefault((claim.paper, claim.place), []).append(claim)
    return [some for some in places.values() if any(isinstance(claim, OfDevices) for claim in some)]


def tables_of(machine: str, frame: pd.DataFrame) -> Tables:
    """Return the tables of one machine, whose numbers name the machine if they depend on it.

    Args:
        frame: the measurements that are judged on it (`machines.by_machine`).
    """
    return {
        claim.key: [_of_machine(table, machine, frame) for table in claim.device_tables(frame)]
        for some in by_figure()
        for claim in some
        if isinstance(claim, OfDevices)
    }


def verdicts_of(frame: pd.DataFrame) -> list[Verdict]:
    """Return the verdicts of one machine on the claims on these figures, with the best of each device."""
    return [claim.evaluate(frame) for some in by_figure() for claim in some]


def as_in_the_papers(frame: pd.DataFrame) -> list[Verdict]:
    """Return the verdicts of one machine with implementations of the papers' kind, on the claims that have them."""
    return [
        claim.evaluate(claim.as_in_the_paper.of(frame))
        for some in by_figure()
        for claim in some
        if isinstance(claim, AlsoAsInThePaper)
    ]


def figures(
    machines: Sequence[Tables], verdicts: Iterable[JointVerdict], as_in_the_paper: Iterable[JointVerdict]
) -> list[DeviceFigure]:
    """Return the figures about devices, paper by paper.

    Args:
        verdicts, as_in_the_paper: those of `verdicts_of` and of `as_in_the_papers` over all machines.
    """
    judged = {one.claim.key: one for one in verdicts}
    printed = {one.claim.key: one for one in as_in_the_paper}
    return [
        DeviceFigure(
            tuple(judged[claim.key] for claim in some),
            tuple(
                _joined(tables)
                for claim in some
                if isinstance(claim, OfDevices)
                for tables in zip(*(machine[claim.key] for machine in machines), strict=True)
            ),
            {
                claim.key: (claim.as_in_the_paper.words, printed[claim.key].outcome)
                for claim in some
                if isinstance(claim, AlsoAsInThePaper) and claim.key in printed
            },
        )
        for some in by_figure()
    ]


def _of_machine(table: DeviceTable, machine: str, frame: pd.DataFrame) -> DeviceTable:
    def named(entry: Entry) -> Entry:
        runs = _runs(entry.number, frame)
        return replace(entry, machine=machine, run=max(runs)) if runs else entry

    ours = {
        kind: {size: [named(entry) for entry in some] for size, some in by_size.items()}
        for kind, by_size in table.ours.items()
    }
    return replace(table, ours=ours)


def _runs(number: Number, frame: pd.DataFrame) -> list[str]:
    """Return when the runs began that a number is from; none if it depends on no machine."""
    rows = frame.loc[list(number.rows), ["suite", "experiment", "unit", "started_at"]]
    return [str(row.started_at) for row in rows.itertuples() if not of_no_machine(row)]


def _joined(tables: Sequence[DeviceTable]) -> DeviceTable:
    """Return one table with the numbers of several; what depends on no machine is in each, and counts once."""
    ours: dict[str, dict[int, list[Entry]]] = {}
    seen = set()
    for table in tables:
        for kind, by_size in table.ours.items():
            for size, some in by_size.items():
                for entry in some:
                    same = kind, size, entry.how, entry.number.value
                    if same not in seen:
                        seen.add(same)
                        ours.setdefault(kind, {}).setdefault(size, []).append(entry)
    stated = {size: text for table in reversed(tables) for size, text in table.stated.items()}
    return replace(tables[0], ours=ours, stated=stated)
