import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import platform_model
from harness.mapping import ActorsLearners, Entry, PerformanceTable, Problem, Target
from harness.mapping.actors_learners import allocate
from harness.provenance import Provenance

PLATFORM = platform_model.load("pal21")


def test_equation_5_holds_exactly_where_the_curves_meet() -> None:
    """PAL VI-G with a ratio of 1: 300 collected and 100 consumed a core on 8 cores need 2 and 6."""
    found = allocate(lambda cores: 300 * cores, lambda cores: 100 * cores, 8, update_interval=1)
    assert (found.actor_cores, found.learner_cores) == (2, 6)
    assert found.gradient_steps_per_s == 600
    assert found.imbalance == 0


def test_the_update_interval_asks_for_more_collection() -> None:
    found = allocate(lambda cores: 100 * cores, lambda cores: 100 * cores, 8, update_interval=3)
    assert (found.actor_cores, found.learner_cores) == (6, 2)


def test_cores_beyond_saturation_are_not_taken() -> None:
    """PAL VI-E: beyond some cores the accelerator is the bottleneck."""
    found = allocate(lambda cores: 100 * cores, lambda cores: 100 * min(cores, 3), 8, update_interval=1)
    assert (found.actor_cores, found.learner_cores) == (3, 3)


def test_one_core_cannot_be_shared_out() -> None:
    with pytest.raises(ValueError, match="cores: found 1"):
        allocate(lambda cores: 1, lambda cores: 1, 1, 1)


rates = st.floats(1, 1e5)


@given(rates, rates, st.integers(2, 12), st.integers(1, 8))
def test_no_allocation_trains_faster(collect: float, consume: float, cores: int, interval: int) -> None:
    found = allocate(lambda x: collect * x, lambda x: consume * x, cores, interval)
    assert found.actor_cores + found.learner_cores <= cores
    for actors in range(1, cores):
        reached = min(collect * actors / interval, consume * (cores - actors))
        assert reached <= found.gradient_steps_per_s * (1 + 1e-9)


def test_the_strategy_shares_out_the_cores_of_the_platform() -> None:
    times_s = {
        ("environment.step", "cpu"): 60e-6,
        ("actor.infer", "native"): 30e-6,
        ("storage.insert", "cpu"): 5e-6,
        ("sum_tree.insert", "native"): 5e-6,
        ("sum_tree.sample", "native"): 50e-6,
        ("storage.gather", "cpu"): 40e-6,
        ("learner.step", "native"): 200e-6,
        ("sum_tree.update", "native"): 10e-6,
    }
    table = PerformanceTable(
        Entry(name, Target.parse(target), 32, time_s, time_s, time_s, Provenance.MEASURED)
        for (name, target), time_s in times_s.items()
    )
    found = ActorsLearners().choose(table, Problem(32, 27), PLATFORM)
    assert str(found.mapping) == "native-native-cpu"
    assert found.settings == {"actor_cores": 2, "learner_cores": 6}
    assert found.gps == pytest.approx(2 / 100e-6)
