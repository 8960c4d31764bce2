"""Defines claims of papers, findings and verdicts.

A claim is one quantitative statement, table or figure of a paper: a class that states what must be measured, and
computes a finding from stored measurements; claim and finding together are a verdict. A claim never guesses: without
the measurements that it needs, the outcome is `not run`, and the finding names what is missing.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import pandas as pd

from placerl.harness.core.outcome import Outcome as Outcome
from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.papers import charts
from placerl.harness.papers.cells import TierLimits
from placerl.harness.papers.number import Number, merge_rows
from placerl.harness.store.cell import Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SHOWN_HERE = (Outcome.REPRODUCED, Outcome.IN_KIND, Outcome.NOT_REPRODUCED)
"""The outcomes that only a number measured or simulated by this project can give."""


@dataclass(frozen=True)
class Finding:
    """The result of checking a claim, a statement of a paper.

    Attributes:
        ours: this project's numbers, or numbers that follow from the paper's own.
        explanation: how the numbers lead to the outcome, in one or two sentences.
        needs: what is missing; set if and only if the outcome is `not run`.
        decides: the one thing that would decide an outcome `no verdict`, as a noun phrase; without it the explanation
            says it.
    """

    outcome: Outcome
    ours: tuple[Number, ...] = ()
    explanation: str = ""
    needs: str = ""
    decides: str = ""

    def __post_init__(self) -> None:
        if bool(self.needs) != (self.outcome is Outcome.NOT_RUN):
            raise ValueError(f"needs: found {self.needs!r}; allowed: set exactly for {Outcome.NOT_RUN}")
        if self.decides and self.outcome is not Outcome.NO_VERDICT:
            raise ValueError(f"decides: found {self.decides!r}; allowed: only for {Outcome.NO_VERDICT}")
        if self.outcome not in (Outcome.NOT_RUN, Outcome.NO_VERDICT) and not self.ours:
            raise ValueError(f"ours: found none; allowed for {self.outcome}: at least one number")
        shown = any(n.provenance in (Provenance.MEASURED, Provenance.SIMULATED) for n in self.ours)
        if self.outcome in SHOWN_HERE and not shown:
            found = ", ".join(sorted({str(number.provenance) for number in self.ours}))
            raise ValueError(
                f"ours: found {found} numbers; allowed for {self.outcome}: at least one measured or simulated"
            )


def unless_suspect(finding: Finding) -> Finding:
    """Return the finding, with the outcome "no verdict" if one of its numbers is impossible (`Number.suspect`).

    A finding that was not run, or has no such number, is returned unchanged.
    """
    reasons = [f"{n.quantity}: {n.suspect}" for n in finding.ours if n.suspect]
    if not reasons or finding.outcome is Outcome.NOT_RUN:
        return finding
    return replace(
        finding,
        outcome=Outcome.NO_VERDICT,
        explanation=f"{finding.explanation} Suspect: {'; '.join(reasons)}.".strip(),
    )


def decided(shown: object, refuted: object) -> Outcome:
    """Return "reproduced in kind" if a statement is shown, else whether it is refuted or undecided."""
    return Outcome.IN_KIND if shown else Outcome.NOT_REPRODUCED if refuted else Outcome.NO_VERDICT


def by_a_model(agrees: bool, ours: tuple[Number, ...], said: str, *, unknown: str) -> Finding:
    """Return a finding from counting or a formula: it can agree, but neither reproduce nor refute a statement.

    Args:
        unknown: a sentence about what the model leaves out; added to `said` if the numbers do not agree.
    """
    if agrees:
        return Finding(Outcome.CONSISTENT, ours, said)
    return Finding(Outcome.NO_VERDICT, ours, f"{said} {unknown}".strip())


class Claim:
    """One statement of a paper: a subclass in the file of its figure, table or section says everything about it.

    A subclass without a `key` of its own is no claim, and holds what several claims share: `clocks.AtBothClocks` and
    `slow_links.AtBothLatencies` judge under two assumptions, where the paper does not state which one holds.

    Attributes:
        key: such as "MAP-T5" (a table), "MAP-F13" (a figure) or "PAL-V-B" (a section).
        place: place in the paper, without the paper's key.
        position: position among the claims of its paper.
        published: the paper's numbers for the statement; empty if only a lost figure or table showed them.
        needs: what judging needs, as text.
        decides: what would decide `no verdict`, where the finding does not say it (`Finding.decides`).
        measured_by: functions that return the cells (pieces of the plan) of a tier that measure what is judged; claims
            may share some.
        reads: other cells whose measurements are judged, as beginnings of the cells' keys ("profile"); `*` matches
            anything ("compare/*/sb3").
        commands: commands that measure what judging needs, if that is not `placerl reproduce --only KEY`.
        everywhere: whether the measurements of all machines of a store are judged instead of those of one.
    """

    key: str
    place: str
    position: int
    statement: str
    published: tuple[Number, ...] = ()
    needs: str = "nothing"
    decides: str = ""
    measured_by: tuple[Callable[[TierLimits], list[Cell]], ...] = ()
    reads: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    everywhere: bool = False

    def judge(self, frame: pd.DataFrame) -> Finding:
        """Compute the finding from stored measurements; "not run" without those that it needs."""
        raise NotImplementedError

    def panels(self, frame: pd.DataFrame) -> charts.Panels:
        """Return what the figure in the paper's own axes shows, from top to bottom; nothing if there is no figure."""
        return ()

    def finding(self, frame: pd.DataFrame) -> Finding:
        """Return what `judge` finds; under two assumptions, where a claim has them, what follows from both."""
        return self.judge(frame)

    def evaluate(self, frame: pd.DataFrame) -> "Verdict":
        """Return the verdict that stored measurements give."""
        finding = self.finding(frame)
        if finding.outcome is Outcome.NO_VERDICT and not finding.decides:
            finding = replace(finding, decides=self.decides)
        return Verdict(self, unless_suspect(finding))

    def draw(self, frame: pd.DataFrame) -> "Figure | None":
        """Draw the figure in the paper's own axes, shown on the claim's page; None if measurements do not suffice."""
        return charts.chart(*self.panels(frame))

    @property
    def paper(self) -> str:
        """Return the key of the paper, such as "MAP": the beginning of the claim's key."""
        return self.key.partition("-")[0]

    @property
    def is_measured(self) -> bool:
        """Return whether measurements are judged, or only what follows from formulas and counts."""
        return bool(self.measured_by or self.reads)

    def cells(self, tier: TierLimits) -> list[Cell]:
        """Return the claim's own cells (pieces of the plan) in a tier."""
        return [cell for cells in self.measured_by for cell in cells(tier)]

    def needs_cells(self, keys: Iterable[str], tier: TierLimits) -> set[str]:
        """Return which cells (pieces of the plan) hold measurements that are judged."""
        own = {cell.key for cell in self.cells(tier)}
        return {
            key
            for key in keys
            if key in own or any(fnmatchcase(f"{key}/", f"{beginning}/*") for beginning in self.reads)
        }


@dataclass(frozen=True)
class Verdict:
    """A claim, which is a statement of a paper, and the result of checking it."""

    claim: Claim
    finding: Finding

    @property
    def key(self) -> str:
        """Return the claim's key, such as "MAP-T5"."""
        return self.claim.key

    @property
    def paper(self) -> str:
        """Return the key of the claim's paper, such as "MAP"."""
        return self.claim.paper

    @property
    def place(self) -> str:
        """Return the paper's key and the place in the paper, such as "MAP VII-B, Fig. 10"."""
        return f"{self.claim.paper} {self.claim.place}"

    @property
    def statement(self) -> str:
        """Return the paper's statement, in short."""
        return self.claim.statement

    @property
    def published(self) -> str:
        """Return the paper's numbers as text, or a note that its text gives none."""
        return "; ".join(map(str, self.claim.published)) or "not in the text"

    @property
    def ours(self) -> str:
        """Return this project's numbers as text."""
        return "; ".join(f"{n.quantity}: {n}" for n in self.finding.ours)

    @property
    def verdict(self) -> str:
        """Return the outcome as text, with what is missing if the claim was not run."""
        needs = f": needs {self.needs}" if self.needs else ""
        return f"{self.finding.outcome}{needs}"

    @property
    def needs(self) -> str:
        """Return what is missing if the claim was not run; otherwise empty."""
        return self.finding.needs

    @property
    def provenance(self) -> str:
        """Return the weakest provenance (measured, simulated, modelled or published) among this project's numbers.

        It is empty if there are no such numbers.
        """
        ours = self.finding.ours
        return str(weakest(*(number.provenance for number in ours))) if ours else ""

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain data, which can be written as JSON.

        Returns:
            The texts "key", "place", "statement", "verdict" (the outcome), "explanation", "needs" and "provenance",
            and the lists "published" and "ours" of numbers, each with its value, unit and provenance.
        """
        finding = self.finding
        return {
            "key": self.key,
            "place": self.place,
            "statement": self.statement,
            "published": [asdict(number) for number in self.claim.published],
            "ours": [asdict(number) for number in finding.ours],
            "verdict": str(finding.outcome),
            "explanation": finding.explanation,
            "needs": self.needs,
            "provenance": self.provenance,
        }

    @property
    def rows(self) -> tuple[int, ...]:
        """Return the index labels of the stored measurements that the verdict was computed from."""
        return merge_rows(self.finding.ours)
