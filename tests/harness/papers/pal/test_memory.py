"""PAL VI-H's size of the tree against the paper's own node count."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from harness.papers import Outcome
from harness.papers.number import Number, from_text
from harness.papers.pal import claims
from tests.harness.papers.test_verdicts import verdict


def test_the_whole_tree_is_hundreds_of_times_larger(tmp_path: Path) -> None:
    found = verdict("PAL-VI-H", tmp_path).finding
    assert found.outcome is Outcome.INCONSISTENT
    assert found.ours[0].value == pytest.approx(4063.49, abs=0.01)


def test_a_tree_of_the_stated_size_would_be_consistent(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(*keys: str) -> tuple[Number, ...]:
        leaves, limit = from_text(*keys)
        return leaves, replace(limit, value=1000 * limit.value)

    monkeypatch.setattr(claims, "from_text", changed)
    assert claims.tree_memory(pd.DataFrame()).outcome is Outcome.CONSISTENT
