import pytest
from hypothesis import given
from hypothesis import strategies as st

from placerl.harness import platforms
from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import Entry, Mapping, PerformanceTable, Problem, Target
from placerl.harness.mapping.strategies.actors_learners import ActorsLearners, allocate

PLATFORM = platforms.load("pal21")


def test_equation_5_holds_exactly_where_the_curves_meet() -> None:
    """PAL VI-G with a ratio of 1: 300 collected and 100 consumed a core on 8 cores need 2 and 6."""
    allocation = allocate(lambda cores: 300 * cores, lambda cores: 100 * cores, 8, update_interval=1)
    assert (allocation.actor_cores, allocation.learner_cores) == (2, 6)
    assert allocation.gradient_steps_per_s == 600
    assert allocation.imbalance == 0


def test_the_update_interval_asks_for_more_collection() -> None:
    allocation = allocate(lambda cores: 100 * cores, lambda cores: 100 * cores, 8, update_interval=3)
    assert (allocation.actor_cores, allocation.learner_cores) == (6, 2)


def test_cores_beyond_saturation_are_not_taken() -> None:
    """PAL VI-E: beyond some cores the accelerator is the bottleneck."""
    allocation = allocate(lambda cores: 100 * cores, lambda cores: 100 * min(cores, 3), 8, update_interval=1)
    assert (allocation.actor_cores, allocation.learner_cores) == (3, 3)


def test_one_core_cannot_be_shared_out() -> None:
    with pytest.raises(ValueError, match="cores: found 1"):
        allocate(lambda cores: 1, lambda cores: 1, 1, 1)


rates = st.floats(1, 1e5)


@given(rates, rates, st.integers(2, 12), st.integers(1, 8))
def test_no_allocation_trains_faster(collect: float, consume: float, cores: int, interval: int) -> None:
    allocation = allocate(lambda x: collect * x, lambda x: consume * x, cores, interval)
    assert allocation.actor_cores + allocation.learner_cores <= cores
    for actors in range(1, cores):
        reached = min(collect * actors / interval, consume * (cores - actors))
        assert reached <= allocation.gradient_steps_per_s * (1 + 1e-9)


def test_two_cores_are_enough() -> None:
    allocation = allocate(lambda cores: 50 * cores, lambda cores: 200 * cores, 2, update_interval=1)
    assert (allocation.actor_cores, allocation.learner_cores) == (1, 1)
    assert (allocation.gradient_steps_per_s, allocation.imbalance) == (50, 0.75)


def test_of_equally_fast_allocations_the_best_balanced_wins_though_it_takes_more_cores() -> None:
    allocation = allocate(lambda cores: 100, lambda cores: 300 - 50 * cores, 4, update_interval=1)
    assert (allocation.actor_cores, allocation.learner_cores) == (1, 3)
    assert allocation.imbalance == pytest.approx(1 / 3)


def test_of_equally_fast_and_balanced_allocations_the_smallest_wins() -> None:
    allocation = allocate(lambda cores: 100, lambda cores: 100, 5, update_interval=1)
    assert (allocation.actor_cores, allocation.learner_cores) == (1, 1)


TIMES_S = {
    ("environment.step", "cpu"): 60e-6,
    ("actor.infer", "native"): 30e-6,
    ("storage.insert", "cpu"): 5e-6,
    ("sum_tree.insert", "native"): 5e-6,
    ("sum_tree.sample", "native"): 50e-6,
    ("storage.gather", "cpu"): 40e-6,
    ("learner.step", "native"): 200e-6,
    ("sum_tree.update", "native"): 10e-6,
}


def table(times_s: dict[tuple[str, str], float]) -> PerformanceTable:
    return PerformanceTable(
        Entry(name, Target.parse(target), 32, time_s, time_s, time_s, Provenance.MEASURED)
        for (name, target), time_s in times_s.items()
    )


def test_the_strategy_shares_out_the_cores_of_the_platform() -> None:
    found = ActorsLearners().choose(table(TIMES_S), Problem(32, 27), PLATFORM)
    assert str(found.mapping) == "native-native-cpu"
    assert found.settings == {"actor_cores": 2, "learner_cores": 6}
    assert found.gps == pytest.approx(2 / 100e-6)
    assert found.terms_s == pytest.approx({"actors": 100e-6 / 2, "learners": 300e-6 / 6})
    assert set(found.cells) == {(name, Target.parse(target)) for name, target in TIMES_S}
    assert found.inputs is Provenance.MEASURED


def test_the_actors_term_is_of_all_steps_between_two_gradient_steps() -> None:
    found = ActorsLearners().choose(table(TIMES_S), Problem(32, 27, update_interval=3), PLATFORM)
    assert found.settings == {"actor_cores": 4, "learner_cores": 4}
    assert found.terms_s == pytest.approx({"actors": 3 * 100e-6 / 4, "learners": 300e-6 / 4})


def test_a_learner_on_a_device_of_its_own_is_no_faster_with_more_host_cores() -> None:
    on_gpu = {("actor.infer", "torch:cuda"): 30e-6, ("learner.step", "torch:cuda"): 100e-6}
    mapping = Mapping.parse("torch:cuda-native-cpu")
    found = ActorsLearners().predict(table(TIMES_S | on_gpu), Problem(32, 27), PLATFORM, mapping)
    assert found.settings == {"actor_cores": 1, "learner_cores": 1}
    assert found.gps == pytest.approx(1 / 200e-6)
    assert found.terms_s == pytest.approx({"actors": 100e-6, "learners": 200e-6})


def test_the_mapping_whose_best_allocation_trains_fastest_is_chosen() -> None:
    slower = {("actor.infer", "torch"): 30e-6, ("learner.step", "torch"): 400e-6}
    found = ActorsLearners().choose(table(TIMES_S | slower), Problem(32, 27), PLATFORM)
    assert str(found.mapping) == "native-native-cpu"


def test_mappings_that_lack_a_time_of_acting_are_left_out() -> None:
    faster = {("learner.step", "torch"): 1e-6}  # whose inference was not profiled
    found = ActorsLearners().choose(table(TIMES_S | faster), Problem(32, 27), PLATFORM)
    assert str(found.mapping) == "native-native-cpu"


@pytest.mark.parametrize("lacking", TIMES_S)
def test_a_table_that_lacks_a_time_for_every_mapping_is_refused(lacking: tuple[str, str]) -> None:
    without = {cell: time_s for cell, time_s in TIMES_S.items() if cell != lacking}
    with pytest.raises(ValueError, match="no mapping has times for environment"):
        ActorsLearners().choose(table(without), Problem(32, 27), PLATFORM)


def test_transitions_are_inserted_where_they_are_gathered() -> None:
    on_board = {("storage.insert", "opencl"): 25e-6, ("storage.gather", "opencl"): 60e-6}
    mapping = Mapping.parse("native-native-opencl")
    found = ActorsLearners().predict(table(TIMES_S | on_board), Problem(32, 27), PLATFORM, mapping)
    assert {("storage.insert", mapping.storage), ("storage.gather", mapping.storage)} < set(found.cells)
    assert found.terms_s["actors"] * found.settings["actor_cores"] == pytest.approx(120e-6)
    with pytest.raises(KeyError):
        ActorsLearners().predict(table(TIMES_S), Problem(32, 27), PLATFORM, mapping)
