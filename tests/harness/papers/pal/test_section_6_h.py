"""PAL VI-H: what the layout gains."""

from pathlib import Path

import pytest

from placerl.harness.core.progress import silent
from placerl.harness.papers import Outcome
from placerl.harness.papers.pal import section_6_h
from tests.harness.old_form import details_of
from tests.harness.papers.pal.test_figure_9_tree import tree_rows
from tests.harness.papers.rows import verdict


def test_an_experiment_measures_every_configuration() -> None:
    rows = section_6_h.layout(0.0, silent)
    assert [(details_of(row)["aligned"], details_of(row)["null"]) for row in rows] == [
        (True, False),
        (True, True),
        (False, False),
        (False, True),
    ]
    assert {(row.suite, row.primitive, row.batch_size) for row in rows} == {
        ("claim", "sum_tree.sample_and_update", 64)
    }
    details = [
        (details_of(row)["experiment"], details_of(row)["threads"], details_of(row)["capacity"])
        for row in rows
    ]
    assert set(details) == {("layout", 1, 1_000_000)}
    assert {details_of(row)["fanout"] for row in rows} == {16}
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
    if outcome is Outcome.NOT_REPRODUCED:
        assert ("a loss" in found.finding.explanation) == (gain < 1)


def test_a_layout_of_which_one_side_was_not_timed_has_not_run(tmp_path: Path) -> None:
    rows = tree_rows(1_000_000, 16, 1e-6, 1e-6, experiment="layout", aligned=True)
    assert verdict("PAL-VI-H-layout", tmp_path, *rows).finding.outcome is Outcome.NOT_RUN
