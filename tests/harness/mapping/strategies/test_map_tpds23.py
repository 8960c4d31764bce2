import pytest
from hypothesis import given
from hypothesis import strategies as st

from placerl.harness import platforms
from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import Entry, PerformanceTable, Problem, Target
from placerl.harness.mapping.strategies.map_tpds23 import MapTpds23

PROBLEM = Problem(batch_size=256, item_words=27, actors=16)
PLATFORM = platforms.load("map-tpds23")


def table(learner_s: dict[str, float], rmm_s: dict[str, float]) -> PerformanceTable:
    """A table whose replay management time is split evenly between sampling and update."""

    def entry(primitive: str, name: str, time_s: float) -> Entry:
        return Entry(primitive, Target.parse(name), 256, time_s, time_s, time_s, Provenance.MEASURED)

    return PerformanceTable(
        [entry("learner.step", name, time_s) for name, time_s in learner_s.items()]
        + [
            entry(f"sum_tree.{op}", name, time_s / 2)
            for name, time_s in rmm_s.items()
            for op in ("sample", "update")
        ]
    )


def test_everything_on_the_fpga_when_it_is_fastest_at_both() -> None:
    """MAP Table V, CartPole: F-F-F."""
    choice = MapTpds23().choose(
        table({"torch": 5e-3, "torch:cuda": 1e-3, "fpga:u200": 1e-5}, {"native": 1e-5, "fpga:u200": 1e-6}),
        PROBLEM,
        PLATFORM,
    )
    assert str(choice.mapping) == "fpga:u200-fpga:u200-fpga:u200"
    assert choice.gps == pytest.approx(1e5)


def test_gpu_is_pruned_for_the_rmm_when_another_device_keeps_up_with_the_learner() -> None:
    """MAP Algorithm 3 lines 6-7: the GPU's own tree is fastest, yet would slow the learner."""
    choice = MapTpds23().choose(
        table({"torch:cuda": 1e-3}, {"cuda": 1e-5, "native": 9e-4}), PROBLEM, PLATFORM
    )
    assert str(choice.mapping) == "torch:cuda-native-cuda"
    assert choice.gps == pytest.approx(1e3)


def test_gpu_keeps_the_rmm_when_no_other_device_keeps_up() -> None:
    choice = MapTpds23().choose(
        table({"torch:cuda": 1e-3}, {"cuda": 1e-4, "native": 1e-2}), PROBLEM, PLATFORM
    )
    assert str(choice.mapping) == "torch:cuda-cuda-cuda"
    assert choice.gps == pytest.approx(1 / 1.1e-3), "learner and replay management share the GPU"


def test_storage_goes_where_the_least_traffic_crosses_devices() -> None:
    """B x E words to the learner outweigh N_actor x E from the actors unless the actors are many."""
    times = table({"torch:cuda": 1e-3}, {"native": 1e-4})
    few, many = Problem(256, 27, actors=16), Problem(256, 27, actors=512)
    assert str(MapTpds23().choose(times, few, PLATFORM).mapping.storage) == "cuda"
    assert str(MapTpds23().choose(times, many, PLATFORM).mapping.storage) == "cpu"


def test_storage_stays_where_the_table_says_that_one_can_be() -> None:
    entries = [*table({"torch:cuda": 1e-3}, {"native": 1e-4})]
    entries.append(Entry("storage.gather", Target("cpu"), 256, 1e-4, 1e-4, 1e-4, Provenance.MEASURED))
    assert str(MapTpds23().choose(PerformanceTable(entries), PROBLEM, PLATFORM).mapping.storage) == "cpu"


def test_equation_3_takes_the_slower_of_learner_and_replay_management() -> None:
    times = table({"torch": 1e-3}, {"native": 4e-3})
    found = MapTpds23().choose(times, PROBLEM, PLATFORM)
    assert found.gps == pytest.approx(250)
    assert found.terms_s == pytest.approx({"learner": 1e-3, "rmm": 4e-3})
    assert [name for name, _ in found.cells] == ["learner.step", "sum_tree.sample", "sum_tree.update"]


def test_on_a_processor_that_both_share_the_two_still_overlap() -> None:
    """Only a GPU that both share adds the times up (MAP VI-B step 2)."""
    found = MapTpds23().choose(table({"fpga:u200": 3e-3}, {"fpga:u200": 2e-3}), PROBLEM, PLATFORM)
    assert found.gps == pytest.approx(1 / 3e-3)


def test_of_targets_that_keep_up_the_one_with_the_fewest_devices_wins_though_it_is_slower() -> None:
    """MAP VII-D: under Equation 3 they are equal; the actors are on the CPU in any case."""
    times = table({"torch:cuda": 1e-3}, {"native": 9e-4, "fpga:u200": 1e-6})
    assert str(MapTpds23().choose(times, PROBLEM, PLATFORM).mapping.rmm) == "native"
    times = table({"fpga:u200": 1e-3}, {"native": 1e-6, "fpga:u200": 9e-4})
    assert str(MapTpds23().choose(times, PROBLEM, PLATFORM).mapping.rmm) == "fpga:u200"


def test_of_equals_on_the_same_devices_the_faster_one_wins() -> None:
    times = table({"torch": 1e-3}, {"flat": 5e-4, "native": 4e-4})
    assert str(MapTpds23().choose(times, PROBLEM, PLATFORM).mapping.rmm) == "native"


def test_where_none_keeps_up_the_fastest_wins_whatever_its_device() -> None:
    times = table({"torch": 1e-3}, {"native": 3e-3, "fpga:u200": 2e-3})
    assert str(MapTpds23().choose(times, PROBLEM, PLATFORM).mapping.rmm) == "fpga:u200"


def test_a_target_that_takes_as_long_as_the_learner_keeps_up() -> None:
    times = table({"torch:cuda": 1e-3}, {"cuda": 1e-5, "native": 1e-3})
    assert str(MapTpds23().choose(times, PROBLEM, PLATFORM).mapping.rmm) == "native"


def test_another_gpu_is_not_pruned_for_the_rmm() -> None:
    times = table({"torch:cuda:0": 1e-3}, {"cuda:1": 1e-5, "native": 2e-3})
    assert str(MapTpds23().choose(times, PROBLEM, PLATFORM).mapping.rmm) == "cuda:1"


def test_the_priorities_of_a_batch_decide_where_the_storage_s_other_traffic_is_equal() -> None:
    """Of B x E words to the learner and as many from the actors: the device of the replay management wins."""
    equal = Problem(batch_size=8, item_words=4, actors=8)
    times = table({"torch": 1e-3}, {"fpga:u200": 9e-4})
    assert str(MapTpds23().choose(times, equal, PLATFORM).mapping.storage) == "cpu"
    lone = Problem(batch_size=8, item_words=4, actors=9)
    times = table({"fpga:u200": 1e-3}, {"fpga:u200": 9e-4})
    assert str(MapTpds23().choose(times, lone, PLATFORM).mapping.storage) == "fpga:u200"
    assert str(MapTpds23().choose(times, Problem(8, 4, actors=11), PLATFORM).mapping.storage) == "cpu"


times_s = st.floats(1e-7, 1e-1)


@given(times_s, times_s, times_s, times_s)
def test_without_a_gpu_the_greedy_choice_is_the_best_under_equation_3(
    a: float, b: float, c: float, d: float
) -> None:
    performance = table({"torch": a, "fpga:u200": b}, {"native": c, "fpga:u200": d})
    best_gps = 1 / max(min(a, b), min(c, d))
    assert MapTpds23().choose(performance, PROBLEM, PLATFORM).gps == pytest.approx(best_gps)


def test_no_profiled_learner_is_an_error_that_says_so() -> None:
    with pytest.raises(ValueError, match=r"no target has a time for learner\.step"):
        MapTpds23().choose(table({}, {"native": 1e-5}), PROBLEM, PLATFORM)
    with pytest.raises(ValueError, match=r"no target has a time for sum_tree\.sample and sum_tree\.update"):
        MapTpds23().choose(table({"torch": 1e-5}, {}), PROBLEM, PLATFORM)
