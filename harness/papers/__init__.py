"""Statements of the five papers, and their verdicts as code over the store's rows."""

import pandas as pd

from harness.core.errors import UserError
from harness.papers.base import Claim, Finding, Outcome, Verdict
from harness.papers.evidence import last_attempts
from harness.papers.published import PAPERS

__all__ = ["Claim", "Finding", "Outcome", "Verdict", "claims", "evaluate"]


def claims(only: str = "") -> list[Claim]:
    """Every claim, paper by paper in the order of `published.PAPERS`.

    Args:
        only: a paper's key ("MAP"), a claim's ("MAP-T5") or what several begin with ("MAP-F12"); or all.

    Raises:
        UserError: no claim's key begins so.
    """
    from harness.papers.fix import claims as fixar21
    from harness.papers.map import claims as map_tpds23
    from harness.papers.pal import claims as pal21
    from harness.papers.ppo import claims as ppoaccel
    from harness.papers.prl import claims as pearl24

    modules = (map_tpds23, pal21, pearl24, ppoaccel, fixar21)
    every = [claim for module in modules for claim in module.CLAIMS]
    chosen = [claim for claim in every if f"{claim.key}-".startswith(f"{only}-" if only else "")]
    if not chosen:
        paper = only.partition("-")[0]
        near = (
            ", ".join(claim.key for claim in every if claim.paper == paper) or "a claim's key, such as MAP-T5"
        )
        names = [*PAPERS, *(claim.key for claim in every)]
        raise UserError("command line", "--only", repr(only), f"{', '.join(PAPERS)}; {near}", names=names)
    return chosen


def evaluate(frame: pd.DataFrame, only: str = "", everywhere: pd.DataFrame | None = None) -> list[Verdict]:
    """The verdict on every claim.

    Args:
        frame: the rows of a run, as `Store.frame()` gives them; of a cell that was measured again the last
            attempt counts.
        only: as for `claims`.
        everywhere: the rows of every machine, for claims about several; `frame` when left out.

    Returns:
        One verdict a claim; a check that fails for a reason of its own raises, it never becomes a verdict.
    """
    last = last_attempts(frame)
    every = last if everywhere is None else last_attempts(everywhere)
    return [claim.evaluate(every if claim.everywhere else last) for claim in claims(only)]
