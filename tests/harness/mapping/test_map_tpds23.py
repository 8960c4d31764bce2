import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import platform_model
from harness.mapping import Entry, MapTpds23, PerformanceTable, Problem, Target
from harness.provenance import Provenance

PROBLEM = Problem(batch_size=256, item_words=27, actors=16)
PLATFORM = platform_model.load("map-tpds23")


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


times_s = st.floats(1e-7, 1e-1)


@given(times_s, times_s, times_s, times_s)
def test_without_a_gpu_the_greedy_choice_is_the_best_under_equation_3(
    a: float, b: float, c: float, d: float
) -> None:
    performance = table({"torch": a, "fpga:u200": b}, {"native": c, "fpga:u200": d})
    best_gps = 1 / max(min(a, b), min(c, d))
    assert MapTpds23().choose(performance, PROBLEM, PLATFORM).gps == pytest.approx(best_gps)


def test_no_profiled_learner_is_an_error_that_says_so() -> None:
    with pytest.raises(ValueError, match=r"learner\.step"):
        MapTpds23().choose(table({}, {"native": 1e-5}), PROBLEM, PLATFORM)
