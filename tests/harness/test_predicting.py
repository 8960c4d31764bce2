import pytest

from harness import predicting, workload
from harness.measurement import Measurement
from harness.provenance import Provenance

TIMES_S = {
    ("sum_tree.sample", "native"): 1e-5,
    ("sum_tree.update", "native"): 1e-5,
    ("sum_tree.insert", "native"): 1e-6,
    ("sum_tree.sample", "reference"): 1e-3,
    ("sum_tree.update", "reference"): 1e-3,
    ("sum_tree.insert", "reference"): 1e-4,
    ("storage.gather", "cpu"): 1e-4,
    ("storage.insert", "cpu"): 1e-5,
    ("learner.step", "torch"): 1e-3,
    ("actor.infer", "torch"): 1e-5,
    ("environment.step", "cpu"): 1e-5,
}


def row(primitive: str, target: str, time_s: float | None) -> Measurement:
    failed = {"status": "failed", "reason": "wrong"} if time_s is None else {}
    return Measurement(
        suite="profile",
        workload="hopper-ddpg",
        primitive=primitive,
        backend=target,
        batch_size=256,
        quantity="time_per_call",
        unit="s",
        provenance=Provenance.MEASURED,
        value=time_s,
        details={"target": target},
        **failed,
    )


PROFILE = [row(primitive, target, time_s) for (primitive, target), time_s in TIMES_S.items()]


def test_predictions_are_modelled_and_name_their_inputs() -> None:
    rows = predicting.measurements(workload.load("hopper-ddpg"), 256, PROFILE)
    assert {item.provenance for item in rows} == {Provenance.MODELLED}
    assert {item.details["inputs"] for item in rows} == {"measured"}
    assert {item.backend for item in rows} == set(predicting.STRATEGIES)


def test_each_strategy_chooses_exactly_one_mapping() -> None:
    rows = predicting.measurements(workload.load("hopper-ddpg"), 256, PROFILE)
    for strategy in predicting.STRATEGIES:
        assert str(predicting.chosen_mapping(rows, strategy)) == "torch-native-cpu"
        assert sum(item.details["chosen"] for item in rows if item.backend == strategy) == 1


def test_map_equation_3_from_the_rows() -> None:
    rows = predicting.measurements(workload.load("hopper-ddpg"), 256, PROFILE)
    gps = {item.details["mapping"]: item.value for item in rows if item.backend == "map-tpds23"}
    assert gps == pytest.approx({"torch-native-cpu": 1000, "torch-reference-cpu": 500})


def test_a_primitive_that_failed_is_not_mapped_to() -> None:
    profile = [item for item in PROFILE if item.backend != "native"] + [
        row("sum_tree.sample", "native", None)
    ]
    rows = predicting.measurements(workload.load("hopper-ddpg"), 256, profile)
    assert {item.details["mapping"] for item in rows} == {"torch-reference-cpu"}


def test_item_words_are_those_of_a_hopper_transition() -> None:
    """Two observations of 11, an action of 3, a reward, a flag: E of MAP VI-B."""
    assert predicting.problem_of(workload.load("hopper-ddpg"), 256).item_words == 2 * 11 + 3 + 2
