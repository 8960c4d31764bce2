"""What a claim and a verdict are.

A claim is one quantitative statement, table or figure of a paper; its check is code over the store's rows. A
check never falls back on a guess: without the rows that it needs the verdict is `not run`, and says what is
missing.
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
    """What became of a claim; `docs/verdicts.md` says what each outcome requires."""

    REPRODUCED = "reproduced"
    IN_KIND = "reproduced in kind"  # the paper's order and direction hold, the factor differs
    CONSISTENT = "consistent"  # follows from the paper's own numbers, from counting or from a formula
    NOT_REPRODUCED = "not reproduced"
    INCONSISTENT = "inconsistent in the paper"
    NOT_RUN = "not run"
    NO_VERDICT = "no verdict"  # the noise exceeds the difference, or a lost figure could explain it


SHOWN_HERE = (Outcome.REPRODUCED, Outcome.IN_KIND, Outcome.NOT_REPRODUCED)
"""Outcomes that need a number which this project measured or simulated, and which could have come out otherwise."""


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes:
        outcome: the verdict.
        ours: this project's numbers, or what follows from the paper's own.
        explanation: how the numbers lead to the outcome, in a sentence or two.
        needs: what is missing; set exactly when the outcome is `not run`.
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
    """Return the finding, or no verdict when it rests on a number that cannot be (`Number.suspect`)."""
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
    """Return what a paper's own numbers say of one another: they can contradict a statement, and reproduce nothing.

    Args:
        agree: whether they bear the statement out.
        ours: what follows from them.
        said: how.
        needs: what a measurement of the statement would need.
        apart: said instead where they do not agree.
        could_be: what could explain numbers that do not agree: a lost figure or table, rounding, a convention that the
            paper does not state. There is no verdict then; empty where nothing could explain them.
    """
    if agree:
        text = f"The paper's own numbers agree. {said}".strip()
        return Finding(Outcome.CONSISTENT, ours, f"{text} A measurement would need {needs}.")
    if could_be:
        return Finding(Outcome.NO_VERDICT, ours, f"{apart or said} {could_be}".strip())
    return Finding(Outcome.INCONSISTENT, ours, apart or said)


def by_a_model(agrees: bool, ours: tuple[Number, ...], said: str, *, unknown: str) -> Finding:
    """Return what counting or a formula says of a statement: it can agree, and neither reproduce nor refute.

    Args:
        agrees: whether the modelled numbers bear the statement out.
        ours: the modelled numbers.
        said: how they compare with the paper's.
        unknown: what the model does not know, a sentence; added where they do not agree.
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
        place: where the paper makes it, without the paper's key.
        statement: what it says, in short.
        published: the numbers it gives; empty where only a lost figure or table showed them.
        needs: what a run must have measured for the check.
        check: the verdict's code; None where this project cannot make those rows yet.
        reads: what the keys of the cells begin with whose rows the check reads, or those rows are made of
            ("claim/FIX-F7", "profile"); `*` stands for anything ("compare/*/sb3").
        commands: what measures what it needs, where that is not `placerl reproduce --only KEY`.
        everywhere: whether the check reads the rows of every machine of a store, not of one alone.
        draw: makes a figure in the paper's own axes out of the rows that the check reads; it returns None where they
            do not suffice. Its claim's page shows the figure.
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
        """The paper's key."""
        return self.key.partition("-")[0]

    def needs_cell(self, key: str) -> bool:
        """Whether the check reads rows of the cell of that key."""
        return any(fnmatchcase(f"{key}/", f"{beginning}/*") for beginning in self.reads)

    def evaluate(self, frame: pd.DataFrame) -> "Verdict":
        """The verdict from the rows of a run (the columns of `Store.frame()`)."""
        check = self.check or (lambda _: Finding(Outcome.NOT_RUN, needs=self.needs))
        return Verdict(self, unless_suspect(check(frame)))


@dataclass(frozen=True)
class Verdict:
    """A claim and what became of it."""

    claim: Claim
    finding: Finding

    @property
    def key(self) -> str:
        """The claim's key."""
        return self.claim.key

    @property
    def paper(self) -> str:
        """The paper's key."""
        return self.claim.paper

    @property
    def place(self) -> str:
        """Paper and place."""
        return f"{self.claim.paper} {self.claim.place}"

    @property
    def statement(self) -> str:
        """What the paper says, in short."""
        return self.claim.statement

    @property
    def published(self) -> str:
        """The paper's numbers, for a reader."""
        return "; ".join(map(str, self.claim.published)) or "not in the text"

    @property
    def ours(self) -> str:
        """This project's numbers, for a reader."""
        return "; ".join(f"{n.quantity}: {n}" for n in self.finding.ours)

    @property
    def verdict(self) -> str:
        """The outcome, with what is missing when it was not run."""
        needs = f": needs {self.needs}" if self.needs else ""
        return f"{self.finding.outcome}{needs}"

    @property
    def needs(self) -> str:
        """What is missing; empty unless it was not run."""
        return self.finding.needs

    @property
    def provenance(self) -> str:
        """The weakest provenance among this project's numbers; empty where there are none."""
        ours = self.finding.ours
        return str(weakest(*(number.provenance for number in ours))) if ours else ""

    def to_json(self) -> dict[str, Any]:
        """As plain data: texts, and numbers with their unit and provenance."""
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
