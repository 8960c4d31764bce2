import pytest

from harness import platform_model, validate, workload
from harness.errors import UserError
from harness.mapping import STRATEGIES
from harness.measurement import Measurement
from harness.progress import silent


@pytest.fixture(scope="module")
def rows() -> list[Measurement]:
    """A cell with a replay that fills in no time, one round of it."""
    item = workload.override(workload.load("cartpole-dqn"), "replay.capacity", 3000, "test")
    return validate.validate(item, 32, 1e-3, silent, platform_model.this_machine())


@pytest.mark.slow
def test_every_mapping_runs_and_every_strategy_is_set_beside_it(rows: list[Measurement]) -> None:
    assert not [row.reason for row in rows if row.status == "failed"]
    assert {row.suite for row in rows} == {"validation"}
    achieved = {row.device: row for row in rows if row.quantity == "gradient_steps_per_s"}
    item = workload.load("cartpole-dqn")
    assert set(achieved) == {str(mapping) for mapping in validate.mappings(item)}
    assert "native-native-cpu" in achieved
    predicted = [row for row in rows if row.quantity == "predicted_gradient_steps_per_s"]
    for strategy in ("composed-loop", "map-tpds23", "strict-loop"):
        assert {row.device for row in predicted if row.backend == strategy} == set(achieved)
    for row in predicted:
        assert row.details["error"] == pytest.approx(row.value / achieved[row.device].value - 1)


@pytest.mark.slow
def test_the_default_strategy_has_an_error_for_every_term_that_the_runtime_counts(
    rows: list[Measurement],
) -> None:
    composed = {
        row.device: set(row.details["term_errors"])
        for row in rows
        if row.backend == "composed-loop" and row.quantity == "predicted_gradient_steps_per_s"
    }
    assert composed["native-native-cpu"] == {"actor", "insert", "step", "loop"}
    assert composed["torch-native-cpu"] == {
        "actor",
        "insert",
        "sample and gather",
        "learner",
        "update",
        "loop",
    }


@pytest.mark.slow
def test_regret_and_portability_are_those_of_the_mappings_that_ran(rows: list[Measurement]) -> None:
    achieved = [row.value for row in rows if row.quantity == "gradient_steps_per_s"]
    regrets = {row.backend: row.value for row in rows if row.quantity == "regret"}
    assert set(regrets) <= set(STRATEGIES)
    assert "composed-loop" in regrets
    assert all(0 <= lost < 1 for lost in regrets.values())
    found = {row.backend: row.value for row in rows if row.quantity == "portability"}
    assert found["placerl"] == pytest.approx(32 * len(achieved) / sum(1 / gps for gps in achieved))
    assert found["sb3"] == 0, "it has no native learner"


def test_terms_that_the_model_joins_are_joined_before_they_are_compared() -> None:
    predicted = {"actor": 6.0, "sample and gather": 2.0, "step": 1.0, "elsewhere": 1.0}
    achieved = {"environment": 2.0, "infer": 2.0, "sample": 1.5, "gather": 0.5, "step": 2.0}
    assert validate.term_errors(predicted, achieved) == {
        "actor": 0.5,
        "sample and gather": 0.0,
        "step": -0.5,
    }


def test_the_quick_grid_fits_into_eight_minutes() -> None:
    assert sum(cell.estimate_s for cell in validate.cells("quick")) <= 8 * 60
    with pytest.raises(UserError, match="--tier"):
        validate.cells("hasty")
