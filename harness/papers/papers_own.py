"""Defines what restricts measurements to implementations of a paper's kind, for a second finding of a claim."""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from placerl.harness.papers.base import Claim


@dataclass(frozen=True)
class PapersOwn:
    """What restricts measurements to implementations of the paper's kind.

    By default a claim is judged with the best of each device today, which the paper may not have had.

    Attributes:
        words: the paper's implementations, as text.
        of: returns the measurements without those of other implementations.
    """

    words: str
    of: Callable[[pd.DataFrame], pd.DataFrame]


class AlsoAsInThePaper(Claim):
    """What claims share that have a second finding, from implementations of the paper's kind."""

    as_in_the_paper: PapersOwn
