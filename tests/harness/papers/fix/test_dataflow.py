"""FIX's dataflow: which of its stated numbers each reading contradicts."""

import pandas as pd
import pytest

from placerl.harness.papers.base import Outcome
from placerl.harness.papers.fix import dataflow
from placerl.primitives.fpga.cycles.fixar_dataflows import DATAFLOWS, FixarDataflow


@pytest.mark.parametrize(
    ("flow", "against"),
    list(
        zip(
            DATAFLOWS,
            [
                ("memory",),
                ("rate", "utilisation"),
                ("rate", "utilisation", "weights a cycle"),
                ("memory", "weights a cycle"),
                ("utilisation", "weights a cycle"),
            ],
            strict=True,
        )
    ),
    ids=lambda value: value.name if isinstance(value, FixarDataflow) else "",
)
def test_what_each_reading_contradicts(flow: FixarDataflow, against: tuple[str, ...]) -> None:
    assert dataflow.conflicts(flow) == against


def test_without_a_reading_that_fits_there_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    found = dataflow.OneDataflowExplains().judge(pd.DataFrame())
    assert found.outcome is Outcome.NO_VERDICT
    assert len(found.ours) == 3 * len(DATAFLOWS)
    monkeypatch.setattr(dataflow, "conflicts", lambda flow: ("rate",) if flow.vectors else ())
    assert dataflow.OneDataflowExplains().judge(pd.DataFrame()).outcome is Outcome.CONSISTENT
