"""The factors that PPO gives in passing (5.3.1), judged from made-up rows."""

from pathlib import Path

import pytest

from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from placerl.harness.papers.ppo import environment_steps, shared_trunk
from tests.harness.old_form import details_of, replace
from tests.harness.papers.ppo.test_environment_steps import environment_rows
from tests.harness.papers.ppo.test_shared_trunk import gradient_steps
from tests.harness.papers.rows import frame_of


@pytest.mark.parametrize("experiment", ["", "z"], ids=["before", "after"])
def test_rows_of_another_experiment_are_left_out(experiment: str, tmp_path: Path) -> None:
    def other(rows: list[Row]) -> list[Row]:
        return [replace(row, details=details_of(row) | {"experiment": experiment}) for row in rows]

    steps = frame_of(tmp_path / "steps", *environment_rows(4, 8.0), *other(environment_rows(4, 1.0)))
    assert environment_steps.EnvironmentStepsDiffer().judge(steps).outcome is Outcome.IN_KIND
    networks = frame_of(tmp_path / "networks", *gradient_steps(2.0), *other(gradient_steps(0.5)))
    assert shared_trunk.SharedNetworksTrainFaster().judge(networks).outcome is Outcome.REPRODUCED
