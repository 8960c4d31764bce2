"""PRL Table 4: what of the examples is counted."""

import shutil
from pathlib import Path

import pytest

from placerl.harness.papers import Outcome
from placerl.harness.papers.prl import table_4
from tests.harness.papers.rows import verdict


def test_an_algorithm_of_ones_own_changes_in_the_mappings_name_alone(tmp_path: Path) -> None:
    found = verdict("PRL-T4", tmp_path).finding
    assert found.outcome is Outcome.CONSISTENT
    assert len(found.ours) == 4
    for lines, divergence in zip(found.ours[::2], found.ours[1::2], strict=True):
        assert 12 < lines.value < 100
        assert 0 < divergence.value < 4 / lines.value  # one line of each side is its own


@pytest.mark.parametrize(
    ("more", "outcome"), [("", Outcome.CONSISTENT), ("import os\nprint(os)\n", Outcome.NO_VERDICT)]
)
def test_files_that_differ_in_more_than_the_mapping_are_not_portable(
    more: str, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(table_4.EXAMPLES, tmp_path / "examples")
    with (tmp_path / "examples" / "policy_gradient_fpga.py").open("a") as file:
        file.write(more)
    monkeypatch.setattr(table_4, "EXAMPLES", tmp_path / "examples")
    assert verdict("PRL-T4", tmp_path).finding.outcome is outcome
