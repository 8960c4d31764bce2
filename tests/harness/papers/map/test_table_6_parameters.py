"""MAP's design parameters next to those that our exploration chooses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from placerl.harness.papers import Outcome
from placerl.harness.papers.map import table_6_parameters
from placerl.harness.papers.number import Number, from_cell
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.explore import map_replay
from placerl.primitives.learner.fpga import pipeline, pipeline_resources
from tests.harness.papers.rows import verdict

NOTHING = pd.DataFrame()


def in_table(monkeypatch: pytest.MonkeyPatch, row: str, column: str, value: float) -> None:
    """Has a cell of a table hold another number, for what a module reads."""

    def changed(table: str, *place: str) -> Number:
        found = from_cell(table, *place)
        return replace(found, value=value) if place == (row, column) else found

    monkeypatch.setattr(table_6_parameters, "from_cell", changed)


def test_the_choices_are_those_of_the_exploration(tmp_path: Path) -> None:
    found = verdict("MAP-T6-parameters", tmp_path).finding
    assert found.outcome is Outcome.NO_VERDICT
    limit = pipeline_resources.available(catalogue.device("u200"))
    actor, critic = (11, 256, 256, 3), (14, 256, 256, 1)
    hopper = pipeline.designs({"actor": actor, "critic": critic}, 32, limit)
    chosen = {number.quantity: number.value for number in found.ours}
    assert chosen["Hopper, batch size 32: DP"] == hopper[0].pipelines
    tree = map_replay.replay_design(16384, 1_000_000, 2, catalogue.device("u200"))
    assert chosen["batch size 16384: S"] == tree.banks
    assert f"S is at most {tree.banks}, printed 32, bound by {tree.bound_by}" in found.explanation
    as_printed = next(design for design in hopper if design.pipelines == 2)
    over = as_printed.formula_cycles / hopper[0].formula_cycles
    assert f"DP = 2 takes {over:.3g} times the cycles" in found.explanation


@pytest.fixture
def every_dp_is_4(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = table_6_parameters.ExploredLearner(4, 100, 150, "DSPs")
    monkeypatch.setattr(table_6_parameters, "explored", lambda *_: learner)


@pytest.mark.usefixtures("every_dp_is_4")
@pytest.mark.parametrize(
    ("printed", "banks", "outcome"),
    [
        (4, 32, Outcome.CONSISTENT),
        (4, 16, Outcome.NO_VERDICT),
        (2, 32, Outcome.NO_VERDICT),
    ],
)
def test_both_must_be_as_printed(
    printed: int, banks: int, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_table(monkeypatch, "hardware parameters", "data parallel factor (DP)", float(printed))
    explored = map_replay.replay_design

    def with_banks(*arguments: Any) -> map_replay.ReplayDesign:
        return replace(explored(*arguments), banks=banks)

    monkeypatch.setattr(map_replay, "replay_design", with_banks)
    assert table_6_parameters.ParametersAreExplored().judge(NOTHING).outcome is outcome


@pytest.mark.parametrize(
    ("printed_cycles", "said"), [(150, "takes 1.5 times the cycles"), (None, "does not fit")]
)
def test_what_the_printed_choice_costs(
    printed_cycles: int | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = table_6_parameters.ExploredLearner(4, 100, printed_cycles, "DSPs")
    monkeypatch.setattr(table_6_parameters, "explored", lambda *_: learner)
    explanation = table_6_parameters.ParametersAreExplored().judge(NOTHING).explanation
    assert f"Hopper at batch size 32 has DP = 4, bound by DSPs; DP = 2 {said}" in explanation
