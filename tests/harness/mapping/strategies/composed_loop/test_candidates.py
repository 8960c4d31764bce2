from placerl.harness.mapping import STRATEGIES, Problem
from placerl.harness.mapping.strategies.composed_loop import composed_candidates
from placerl.harness.mapping.strategies.composed_loop.lookup import CPU
from tests.harness.mapping.strategies.composed_loop.profiles import (
    PIECES_S,
    PLATFORM,
    PROFILE,
    STORED_S,
    table,
)


def test_the_default_strategy_takes_the_fastest_of_all_mappings() -> None:
    chosen = STRATEGIES["composed-loop"].choose(table(PIECES_S), Problem(32, 27), PLATFORM)
    assert str(chosen.mapping) == "native-native-cpu"
    without_fusion = {cell: time_s for cell, time_s in PIECES_S.items() if cell[1] != "native"}
    without_fusion |= {("round.learn", "native"): 2e-3, ("round.collect", "native"): 50e-6}
    chosen = STRATEGIES["composed-loop"].choose(table(without_fusion), Problem(32, 27), PLATFORM)
    assert str(chosen.mapping) == "torch-flat-cpu"


def test_candidates_store_on_the_host_and_with_a_simulated_replay_on_its_device_too() -> None:
    assert list(map(str, composed_candidates(PROFILE))) == [
        "fpga-fpga-cpu",
        "fpga-fpga-fpga",
        "fpga-native-cpu",
        "fpga-native-fpga",
        "native-fpga-cpu",
        "native-fpga-fpga",
        "native-native-cpu",
    ]


def test_candidates_store_on_a_device_with_a_learner_there() -> None:
    assert not [one for one in composed_candidates(table(PIECES_S)) if one.storage != CPU]
    stored = composed_candidates(table(PIECES_S | STORED_S))
    assert [str(one) for one in stored if one.storage != CPU] == ["opencl-native-opencl"]
    chosen = STRATEGIES["composed-loop"]
    best = chosen.choose(table(PIECES_S | STORED_S), Problem(32, 27), PLATFORM)
    assert str(best.mapping) == "opencl-native-opencl"
