import pytest

from placerl.harness import platforms
from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import (
    STRATEGIES,
    VALIDATED,
    Entry,
    Exhaustive,
    Loop,
    Mapping,
    PerformanceTable,
    Prediction,
    Problem,
    Target,
)
from placerl.harness.mapping.base import Platform
from placerl.harness.mapping.strategies.map_tpds23 import MapTpds23

PROBLEM = Problem(32, 27)
PLATFORM = platforms.load("map-tpds23")
EMPTY = PerformanceTable([])


class Model:
    """Predicts a number for each mapping; of one without a number a term was not profiled."""

    name = "model"
    loop = Loop.STRICT

    def __init__(self, **gps: float) -> None:
        self.gps = {name.replace("_", "-"): value for name, value in gps.items()}

    def predict(
        self, table: PerformanceTable, problem: Problem, platform: Platform, mapping: Mapping
    ) -> Prediction:
        return Prediction(mapping, self.name, self.gps[str(mapping)], {}, (), Provenance.MEASURED)


def chosen(names: list[str], **gps: float) -> str:
    strategy = Exhaustive("all", Model(**gps), lambda table: [Mapping.parse(name) for name in names])
    return str(strategy.choose(EMPTY, PROBLEM, PLATFORM).mapping)


def test_the_highest_prediction_is_chosen_wherever_it_stands() -> None:
    names = ["a-x-cpu", "b-x-cpu", "c-x-cpu"]
    assert chosen(names, a_x_cpu=1, b_x_cpu=3, c_x_cpu=2) == "b-x-cpu"


def test_of_equals_the_first_by_name_is_chosen_whatever_the_order() -> None:
    for names in (["b-x-cpu", "a-x-cpu"], ["a-x-cpu", "b-x-cpu"]):
        assert chosen(names, a_x_cpu=1, b_x_cpu=1) == "a-x-cpu"


def test_a_mapping_that_the_model_cannot_predict_is_left_out() -> None:
    assert chosen(["a-x-cpu", "b-x-cpu", "c-x-cpu"], c_x_cpu=1) == "c-x-cpu"
    with pytest.raises(ValueError, match="no mapping has times for all of its terms"):
        chosen(["a-x-cpu"])


def test_it_is_judged_by_the_loop_of_its_model() -> None:
    assert Exhaustive("all", Model()).loop is Loop.STRICT
    assert Exhaustive("all", MapTpds23()).loop is Loop.RELAXED


def test_by_default_it_tries_every_mapping_of_the_table() -> None:
    rows = [("learner.step", "torch", 2e-3), ("learner.step", "native", 1e-3)]
    rows += [(f"sum_tree.{op}", "native", 1e-4) for op in ("sample", "update")]
    table = PerformanceTable(
        Entry(name, Target(target), 32, s, s, s, Provenance.MEASURED) for name, target, s in rows
    )
    assert str(Exhaustive("all", MapTpds23()).choose(table, PROBLEM, PLATFORM).mapping) == "native-native-cpu"


def test_the_strategies_are_known_by_their_names() -> None:
    assert all(name == strategy.name for name, strategy in VALIDATED.items())
    assert set(VALIDATED) - set(STRATEGIES) == {"strict-loop", "overlapped-loop", "relaxed-loop"}
