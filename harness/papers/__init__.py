"""Checks statements of published papers with the measurements in a store, and gives each statement a verdict.

A store is the file that holds the measurements of this project's runs. A paper is a folder of this package, whose
modules define its statements (claims), each as a class; no other file names the folder.
"""

from functools import cache

import pandas as pd

from placerl.harness.core.errors import UserError
from placerl.harness.papers import discovery
from placerl.harness.papers.base import Claim, Finding, Outcome, Verdict
from placerl.harness.papers.cells import TierLimits
from placerl.harness.papers.evidence import last_attempts
from placerl.harness.store.cell import Cell

__all__ = ["Claim", "Finding", "Outcome", "Verdict", "cells", "claims", "evaluate", "titles"]


def titles() -> dict[str, str]:
    """Return the titles of the papers by their keys, such as "MAP", in the order of a report."""
    return {paper.key: paper.title for paper in discovery.papers()}


def cells(tier: TierLimits) -> list[Cell]:
    """Return the cells (pieces of the plan) that measure what the papers' claims need, each once, paper by paper."""
    return list({cell.key: cell for claim in discovery.claims() for cell in claim.cells(tier)}.values())


def claims(only: str = "", *, option: str = "--only") -> list[Claim]:
    """Return every claim, a statement of a paper that is checked, paper by paper in the order of a report.

    Args:
        only: a paper's key ("MAP"), a claim's key ("MAP-T5"), or what several keys begin with up to a hyphen
            ("MAP-F12"); empty for all.
        option: the option that `only` was given with, for the message.

    Raises:
        UserError: no claim's key begins with `only`.
    """
    every = discovery.claims()
    chosen = [claim for claim in every if f"{claim.key}-".startswith(f"{only}-" if only else "")]
    if not chosen:
        paper = only.partition("-")[0]
        near = (
            ", ".join(claim.key for claim in every if claim.paper == paper) or "a claim's key, such as MAP-T5"
        )
        keys = list(titles())
        names = [*keys, *(claim.key for claim in every)]
        raise UserError("command line", option, repr(only), f"{', '.join(keys)}; {near}", names=names)
    return chosen


def evaluate(frame: pd.DataFrame, only: str = "", everywhere: pd.DataFrame | None = None) -> list[Verdict]:
    """Check claims (statements of papers) on stored measurements, and return a verdict on each.

    Args:
        frame: the measurements of a store (`Store.frame`).
        only: which claims, as in `claims`; empty for all.
        everywhere: the measurements of every machine, for claims about several machines; by default `frame`.

    Returns:
        One verdict per claim. An error in a check is raised and never becomes a verdict.

    Raises:
        UserError: no claim is chosen.
    """
    here = last_attempts(frame)
    machines = cache(lambda: last_attempts(frame if everywhere is None else everywhere, of_any_code=True))
    return [claim.evaluate(machines() if claim.everywhere else here) for claim in claims(only)]
