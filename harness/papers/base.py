"""Defines claims of papers, findings and verdicts.

A claim is one quantitative statement, table or figure of a paper. Its check is code that computes a finding from the
store's rows; claim and finding together are a verdict. A check never guesses: without the rows that it needs, the
outcome is `not run`, and the finding names what is missing.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.core.provenance import Provenance, weakest
from harness.papers.number import Number, merge_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Outcome(StrEnum):
    """The result of checking a claim; `docs/verdicts.md` defines what each outcome requires."""

    REPRODUCED = "reproduced"
    IN_KIND = "reproduced in kind"  # the paper's order and direction hold, the factor differs
    CONSISTENT = "consistent"  # follows from the paper's own numbers, from counting or from a formula
    NOT_REPRODUCED = "not reproduced"
    INCONSISTENT = "inconsistent in the paper"
    NOT_RUN = "not run"
    NO_VERDICT = "no verdict"  # the noise exceeds the difference, or a lost figure could explain it


SHOWN_HERE = (Outcome.REPRODUCED, Outcome.IN_KIND, Outcome.NOT_REPRODUCED)
"""The outcomes that only a number measured or simulated by this project can give."""


@dataclass(frozen=True)
class Finding:
    """The result of checking a claim.

    Attributes:
        outcome: the outcome.
        ours: this project's numbers, or numbers that follow from the paper's own.
        explanation: how the numbers lead to the outcome, in one or two sentences.
        needs: what is missing; set if and only if the outcome is `not run`.
    """

    outcome: Outcome
    ours: tuple[Number, ...] = ()
    explanation: str = ""
    needs: str = ""

    def __post_init__(self) -> None:
        if bool(self.needs) != (self.outcome is Outcome.NOT_RUN):
            raise ValueError(f"needs: found {self.needs!r}; allowed: set exactly for {Outcome.NOT_RUN}")
        if self.outcome not in (Outcome.NOT_RUN, Outcome.NO_VERDICT) and not self.ours:
            raise ValueError(f"ours: found none; allowed for {self.outcome}: at least one number")
        shown = any(n.provenance in (Provenance.MEASURED, Provenance.SIMULATED) for n in self.ours)
        if self.outcome in SHOWN_HERE and not shown:
            found = ", ".join(sorted({str(number.provenance) for number in self.ours}))
            raise ValueError(
                f"ours: found {found} numbers; allowed for {self.outcome}: at least one measured or simulated"
            )


def unless_suspect(finding: Finding) -> Finding:
    """Return the finding with the outcome "no verdict" if one of its numbers is impossible (`Number.suspect`).

    Otherwise, or if the claim was not run, return the finding unchanged.
    """
    reasons = [f"{n.quantity}: {n.suspect}" for n in finding.ours if n.suspect]
    if not reasons or finding.outcome is Outcome.NOT_RUN:
        return finding
    return replace(
        finding,
        outcome=Outcome.NO_VERDICT,
        explanation=f"{finding.explanation} Suspect: {'; '.join(reasons)}.".strip(),
    )


def among_themselves(
    agree: bool, ours: tuple[Number, ...], said: str = "", *, needs: str, apart: str = "", could_be: str = ""
) -> Finding:
    """Return a finding from a paper's own numbers: they can contradict a statement, but never reproduce it.

    Args:
        agree: whether the paper's numbers support the statement.
        ours: the numbers computed from them.
        said: explanation of the result.
        needs: what a measurement of the statement would need.
        apart: explanation if the numbers do not agree; by default `said`.
        could_be: possible explanation for numbers that do not agree: a lost figure or table, rounding, an unstated
            convention. If it is given there is no verdict; empty if nothing could explain them.
    """
    if agree:
        text = f"The paper's own numbers agree. {said}".strip()
        return Finding(Outcome.CONSISTENT, ours, f"{text} A measurement would need {needs}.")
    if could_be:
        return Finding(Outcome.NO_VERDICT, ours, f"{apart or said} {could_be}".strip())
    return Finding(Outcome.INCONSISTENT, ours, apart or said)


def by_a_model(agrees: bool, ours: tuple[Number, ...], said: str, *, unknown: str) -> Finding:
    """Return a finding from counting or a formula: it can agree, but neither reproduce nor refute a statement.

    Args:
        agrees: whether the modelled numbers support the statement.
        ours: the modelled numbers.
        said: how they compare with the paper's.
        unknown: a sentence about what the model leaves out; added if they do not agree.
    """
    if agrees:
        return Finding(Outcome.CONSISTENT, ours, said)
    return Finding(Outcome.NO_VERDICT, ours, f"{said} {unknown}".strip())


Check = Callable[[pd.DataFrame], Finding]
Draw = Callable[[pd.DataFrame], "Figure | None"]


@dataclass(frozen=True)
class Claim:
    """One statement of a paper.

    Attributes:
        key: such as "MAP-T5" (a table), "MAP-F13" (a figure) or "PAL-VI-H" (a section).
        place: place in the paper, without the paper's key.
        statement: the statement, in short.
        published: its numbers; empty if only a lost figure or table showed them.
        needs: the measurements that the check needs, as text.
        check: computes the finding from the rows of a run; None if this project cannot measure these rows yet.
        reads: the cells (pieces of the plan) whose rows the check reads, or from which these rows are made, as
            beginnings of their keys ("claim/FIX-F7", "profile"); `*` matches anything ("compare/*/sb3").
        commands: commands that measure what it needs, if that is not `placerl reproduce --only KEY`.
        everywhere: whether the check reads the rows of all machines of a store instead of one.
        draw: draws a figure in the paper's own axes from the rows that the check reads, shown on the claim's page;
            returns None if the rows are not sufficient.
    """

    key: str
    place: str
    statement: str
    published: tuple[Number, ...]
    needs: str
    check: Check | None = None
    reads: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    everywhere: bool = False
    draw: Draw | None = None

    @property
    def paper(self) -> str:
        """Key of the paper."""
        return self.key.partition("-")[0]

    def needs_cell(self, key: str) -> bool:
        """Return whether the check reads rows of the cell (a piece of the plan) with this key."""
        return any(fnmatchcase(f"{key}/", f"{beginning}/*") for beginning in self.reads)

    def evaluate(self, frame: pd.DataFrame) -> "Verdict":
        """Run the check on the rows of a run, and return the verdict.

        Args:
            frame: the rows, as `Store.frame()` returns them.
        """
        check = self.check or (lambda _: Finding(Outcome.NOT_RUN, needs=self.needs))
        return Verdict(self, unless_suspect(check(frame)))


@dataclass(frozen=True)
class Verdict:
    """A claim and the result of checking it, for readers and for files."""

    claim: Claim
    finding: Finding

    @property
    def key(self) -> str:
        """The claim's key."""
        return self.claim.key

    @property
    def paper(self) -> str:
        """The key of the claim's paper."""
        return self.claim.paper

    @property
    def place(self) -> str:
        """The paper's key and the place in the paper, such as "MAP VII-B, Fig. 10"."""
        return f"{self.claim.paper} {self.claim.place}"

    @property
    def statement(self) -> str:
        """The paper's statement, in short."""
        return self.claim.statement

    @property
    def published(self) -> str:
        """The paper's numbers as text, or a note that its text gives none."""
        return "; ".join(map(str, self.claim.published)) or "not in the text"

    @property
    def ours(self) -> str:
        """This project's numbers, as text."""
        return "; ".join(f"{n.quantity}: {n}" for n in self.finding.ours)

    @property
    def verdict(self) -> str:
        """The outcome as text, with what is missing if it was not run."""
        needs = f": needs {self.needs}" if self.needs else ""
        return f"{self.finding.outcome}{needs}"

    @property
    def needs(self) -> str:
        """What is missing if the claim was not run; otherwise empty."""
        return self.finding.needs

    @property
    def provenance(self) -> str:
        """The weakest provenance among this project's numbers; empty if there are none."""
        ours = self.finding.ours
        return str(weakest(*(number.provenance for number in ours))) if ours else ""

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain data: texts, and numbers with their unit and provenance."""
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
        """Index labels of the rows that the verdict was computed from."""
        return merge_rows(self.finding.ours)
