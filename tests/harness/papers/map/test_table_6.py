"""MAP Table VI, each outcome from changed numbers."""

from pathlib import Path

import pytest

from harness.core.provenance import Provenance
from harness.papers import Finding, Outcome, resources
from harness.papers.map import table_6
from harness.papers.number import Number
from tests.harness.papers.map.test_tables import NOTHING, in_table
from tests.harness.papers.test_verdicts import verdict


def test_shares_of_one_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict("MAP-T6", tmp_path).finding.outcome is Outcome.NO_VERDICT
    in_table(monkeypatch, "DDPG learner", "LUT share", 61.0, table_6)
    assert table_6.table_6(NOTHING).outcome is Outcome.CONSISTENT


@pytest.mark.parametrize(
    ("counted", "outcome"),
    [
        (Outcome.IN_KIND, Outcome.IN_KIND),
        (Outcome.NOT_REPRODUCED, Outcome.NO_VERDICT),  # the table names neither tree nor network
        (Outcome.NOT_RUN, Outcome.NOT_RUN),
    ],
)
def test_cells_of_designs_of_unknown_size(
    counted: Outcome, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Number("LUTs", 1.0, "count", Provenance.SIMULATED)
    made = Finding(counted, (ours,), "Over it.", needs="Yosys" if counted is Outcome.NOT_RUN else "")
    monkeypatch.setattr(resources, "check", lambda *_: lambda _: made)
    assert table_6.table_6_cells(NOTHING).outcome is outcome
