"""PAL VI-H: what the layout gains, and the tree's size against the paper's own node count."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from harness.core.progress import silent
from harness.papers import Outcome
from harness.papers.number import Number, from_text
from harness.papers.pal import section_6_h
from tests.harness.papers.pal.test_figure_9_tree import tree_rows
from tests.harness.papers.rows import verdict


def test_an_experiment_measures_every_configuration() -> None:
    rows = section_6_h.layout(0.0, silent)
    assert [(row.details["aligned"], row.details["null"]) for row in rows] == [
        (True, False),
        (True, True),
        (False, False),
        (False, True),
    ]
    assert {(row.suite, row.primitive, row.batch_size) for row in rows} == {
        ("claim", "sum_tree.sample_and_update", 64)
    }
    details = [(row.details["experiment"], row.details["threads"], row.details["capacity"]) for row in rows]
    assert set(details) == {("layout", 1, 1_000_000)}
    assert {row.details["fanout"] for row in rows} == {16}
    assert all(row.status != "failed" for row in rows), [row.reason for row in rows]


@pytest.mark.parametrize(
    ("gain", "itself", "outcome"),
    [
        (1.01, 1.0, Outcome.IN_KIND),
        (0.97, 1.0, Outcome.IN_KIND),
        (0.95, 1.0, Outcome.NO_VERDICT),
        (0.8, 1.0, Outcome.NOT_REPRODUCED),  # aligned groups take a quarter longer: a loss
        (1.05, 1.0, Outcome.NO_VERDICT),
        (1.5, 1.0, Outcome.NOT_REPRODUCED),
        (1.5, 1.6, Outcome.NO_VERDICT),
        (1.01, 1.2, Outcome.NO_VERDICT),
    ],
)
def test_the_aligned_layout_gains_little(
    gain: float, itself: float, outcome: Outcome, tmp_path: Path
) -> None:
    rows = [
        row
        for time, aligned in ((1.0, True), (gain, False))
        for row in tree_rows(1_000_000, 16, 1e-6 * time, itself * 1e-6, experiment="layout", aligned=aligned)
    ]
    found = verdict("PAL-VI-H-layout", tmp_path, *rows)
    assert found.finding.outcome is outcome
    assert found.finding.ours[0].value == pytest.approx(100 * (gain - 1))


def test_the_whole_tree_is_hundreds_of_times_larger(tmp_path: Path) -> None:
    found = verdict("PAL-VI-H", tmp_path).finding
    assert found.outcome is Outcome.INCONSISTENT
    assert found.ours[0].value == pytest.approx(4063.49, abs=0.01)
    assert found.ours[0].quantity == "size of the tree of a million priorities, K = 64"


def test_a_tree_of_the_stated_size_would_be_consistent(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(*keys: str) -> tuple[Number, ...]:
        leaves, limit = from_text(*keys)
        return leaves, replace(limit, value=1000 * limit.value)

    monkeypatch.setattr(section_6_h, "from_text", changed)
    assert section_6_h.tree_memory(pd.DataFrame()).outcome is Outcome.CONSISTENT
