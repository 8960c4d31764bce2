"""MAP Table VI, each outcome from changed numbers."""

from pathlib import Path

import pytest

from harness.papers import Outcome
from harness.papers.map import table_6
from tests.harness.papers.map.test_tables import NOTHING, in_table
from tests.harness.papers.rows import verdict


def test_shares_of_one_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict("MAP-T6", tmp_path).finding.outcome is Outcome.NO_VERDICT
    in_table(monkeypatch, "DDPG learner", "LUT share", 61.0, table_6)
    assert table_6.table_6(NOTHING).outcome is Outcome.CONSISTENT
