import pytest

from placerl.harness import platforms
from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import Entry, Exhaustive, Mapping, PerformanceTable, Problem, Target
from placerl.harness.mapping.strategies.primitive_sum import PrimitiveSum

TIMES_S = {
    ("learner.step", "torch"): 1e-3,
    ("learner.step", "native"): 5e-4,
    ("sum_tree.sample", "native"): 1e-4,
    ("sum_tree.sample", "flat"): 8e-5,
    ("sum_tree.update", "native"): 2e-4,
    ("sum_tree.update", "flat"): 9e-4,
    ("sum_tree.insert", "native"): 4e-6,
    ("sum_tree.insert", "flat"): 5e-6,
    ("storage.gather", "cpu"): 3e-4,
    ("storage.insert", "cpu"): 1e-5,
    ("actor.infer", "torch"): 2e-5,
    ("actor.infer", "native"): 2e-5,
    ("environment.step", "cpu"): 3e-5,
}
PROBLEM = Problem(256, 27, update_interval=4)
PLATFORM = platforms.load("map-tpds23")


def table(times_s: dict[tuple[str, str], float]) -> PerformanceTable:
    return PerformanceTable(
        Entry(name, Target.parse(target), 256, time_s, time_s, time_s, Provenance.MEASURED)
        for (name, target), time_s in times_s.items()
    )


@pytest.mark.parametrize(
    ("mapping", "step_s"),
    [
        ("torch-native-cpu", 1e-3 + 1e-4 + 2e-4 + 3e-4 + 4 * (1e-5 + 4e-6 + 2e-5 + 3e-5)),
        ("native-flat-cpu", 5e-4 + 8e-5 + 9e-4 + 3e-4 + 4 * (1e-5 + 5e-6 + 2e-5 + 3e-5)),
    ],
)
def test_it_adds_every_term_and_counts_actor_calls(mapping: str, step_s: float) -> None:
    prediction = PrimitiveSum().predict(table(TIMES_S), PROBLEM, PLATFORM, Mapping.parse(mapping))
    assert 1 / prediction.gps == pytest.approx(step_s)
    assert sum(prediction.terms_s.values()) == pytest.approx(step_s)
    assert prediction.cells == tuple(dict.fromkeys(prediction.cells))
    assert len(prediction.cells) == len(prediction.terms_s) == 8
    assert prediction.provenance is Provenance.MODELLED
    assert prediction.inputs is Provenance.MEASURED


def test_the_exhaustive_search_chooses_the_best_of_all_mappings() -> None:
    strategy = Exhaustive("primitive-sum", PrimitiveSum())
    assert str(strategy.choose(table(TIMES_S), PROBLEM, PLATFORM).mapping) == "native-native-cpu"


def test_a_mapping_with_a_term_that_was_not_profiled_is_left_out() -> None:
    times_s = {cell: time_s for cell, time_s in TIMES_S.items() if cell != ("actor.infer", "native")}
    strategy = Exhaustive("primitive-sum", PrimitiveSum())
    assert str(strategy.choose(table(times_s), PROBLEM, PLATFORM).mapping) == "torch-native-cpu"


def test_a_table_without_a_complete_mapping_is_an_error() -> None:
    with pytest.raises(ValueError, match="no mapping"):
        Exhaustive("primitive-sum", PrimitiveSum()).choose(
            table({("learner.step", "torch"): 1e-3}), PROBLEM, PLATFORM
        )
