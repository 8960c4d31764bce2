"""Names what checking a statement of a paper can result in."""

from enum import StrEnum


class Outcome(StrEnum):
    """The result of checking a claim, a statement of a paper; `docs/verdicts.md` defines what each result requires.

    `REPRODUCED`, `IN_KIND` (the paper's order and direction hold, but the factor differs) and `NOT_REPRODUCED` need a
    number that this project measured or simulated. `DEPENDS` needs machines whose numbers contradict each other: a
    single machine never gives it. `CONSISTENT` follows from counting or from a formula, or holds under one of two
    readings that the paper admits. `NO_VERDICT` means that noise exceeds the difference, or that a lost figure could
    explain it, and `NOT_RUN` that measurements to which the statement applies are missing.
    """

    REPRODUCED = "reproduced"
    IN_KIND = "reproduced in kind"  # the paper's order and direction hold, the factor differs
    CONSISTENT = "consistent"  # follows from counting or a formula, or under one reading
    NOT_REPRODUCED = "not reproduced"
    DEPENDS = "depends on the machine"  # some machines show it, others refute it
    NOT_RUN = "not run"
    NO_VERDICT = "no verdict"  # the noise exceeds the difference, or a lost figure could explain it
