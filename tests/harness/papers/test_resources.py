"""Verdicts on the papers' tables of resources."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers import Outcome, resources
from placerl.harness.papers.fix import table_1 as fix_table_1
from placerl.harness.papers.map import table_6 as map_table_6
from placerl.harness.papers.ppo import table_1 as ppo_table_1
from placerl.primitives.fpga.tools import counted
from tests.harness.papers.rows import verdict


def test_cells_that_were_never_counted_are_not_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counted, "committed", lambda: {})
    assert "needs cells counted by Yosys" in verdict("FIX-T1", tmp_path).verdict


@pytest.mark.parametrize("wrong", [{"row": "PEEs"}, {"columns": {"luts": "LUTs"}}])
def test_a_misspelt_cell_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(KeyError):
        replace(fix_table_1.ELEMENTS, **wrong).published()


@pytest.mark.parametrize(
    ("factor", "outcome"),
    [
        (0.49, Outcome.NO_VERDICT),
        (0.5, Outcome.CONSISTENT),
        (2.0, Outcome.CONSISTENT),
        (2.01, Outcome.NO_VERDICT),
    ],
)
def test_two_designs_are_alike_within_a_factor_of_two(
    factor: float, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one resource; the others are as published."""

    def ours(item: resources.Counterpart) -> dict[str, float]:
        published = item.published()
        return published | {name: factor * published[name] for name in list(published)[-1:]}

    monkeypatch.setattr(resources.Counterpart, "ours", ours)
    found = verdict("FIX-T1", tmp_path).finding
    could_be = "does not say whether the row holds the adders"
    assert found.outcome is outcome
    assert f"{factor:.2g}x. Ours: " in found.explanation
    assert (could_be in found.explanation) == (outcome is Outcome.NO_VERDICT)
    assert {number.provenance for number in found.ours} == {Provenance.MODELLED}


def test_fixs_elements_are_compared_with_the_row_of_its_elements(tmp_path: Path) -> None:
    found = verdict("FIX-T1", tmp_path)
    assert {number.quantity.split(":")[0] for number in found.claim.published} == {"PEs"}
    assert found.finding.outcome is Outcome.CONSISTENT
    assert found.finding.ours[2].value == 4 * 512
    words = [(number.quantity.rpartition(": ")[2], number.unit) for number in found.finding.ours]
    assert words == [("LUTs", "count"), ("flip-flops", "count"), ("DSPs", "count")]
    assert all(f"{name} " in found.finding.explanation for name, _ in words)
    said, _, rule = found.finding.explanation.partition(" A count ")
    assert "count" not in said
    assert rule == "within a factor of 2 of the printed one agrees."
    assert found.finding.ours[0].quantity == "PEs, ours: LUTs"
    blocks = "512 x processing-element width=32 configurable=true"
    assert found.finding.ours[0].source == f"{blocks}; {fix_table_1.SOURCE}"


def test_the_papers_folders_state_their_rows() -> None:
    stated = resources.counterparts()
    assert [item.table for item in stated] == ["map_table_6"] * 2 + ["ppo_table_1"] + ["fix_table_1"] * 2
    beside = [item for _, items in resources.rows() for item in items]
    assert sorted(item.row for item in beside) == sorted(item.row for item in stated)


def copies(item: resources.Counterpart) -> dict[str, int]:
    return {f"{share.parts}{share.subject.split()[0]}": share.copies for share in item.shares}


def test_map_s_replay_manager_has_every_block_for_each_sub_tree_that_its_row_names() -> None:
    manager, learner = map_table_6.COUNTERPARTS
    sub_trees = int(manager.row.removeprefix("RMM (S=").removesuffix(")"))
    assert set(copies(manager).values()) == {sub_trees}
    for share in manager.shares:
        stated = dict(word.split("=") for word in share.subject.split()[1:])
        assert int(stated.get("banks", sub_trees)) == sub_trees
        assert 2 ** int(stated["levels"]) * sub_trees == 2**20, "leaves in all"
    assert copies(learner) == {"learner-pipeline": 2, "forward_learner-pipeline": 2}, "actor and critic"


def test_fix_s_and_ppo_s_rows_are_of_two_cores_of_16_by_16_elements() -> None:
    assert copies(fix_table_1.ELEMENTS) == {"processing-element": 2 * 16 * 16}
    assert copies(fix_table_1.ADAM) == {"adam-unit": 1}
    (cores,) = ppo_table_1.COUNTERPARTS
    assert "side=16" in cores.shares[0].subject
    assert copies(cores) == {"gemm-core": 2, "adam-unit": 16}, "16 weights a cycle"
