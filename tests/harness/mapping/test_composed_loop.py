import pytest

from harness import platform_model
from harness.mapping import (
    STRATEGIES,
    ComposedLoop,
    Entry,
    Loop,
    Mapping,
    PerformanceTable,
    Problem,
    Target,
)
from harness.provenance import Provenance

PLATFORM = platform_model.load("map-tpds23")
PIECES_S = {
    ("round.collect", "torch"): 60e-6,
    ("round.collect", "native"): 50e-6,
    ("round.insert", "native"): 2e-6,
    ("round.insert", "flat"): 20e-6,
    ("round.sample", "native"): 10e-6,
    ("round.sample", "flat"): 100e-6,
    ("round.update", "native"): 5e-6,
    ("round.update", "flat"): 50e-6,
    ("round.learn", "torch"): 1e-3,
    ("round.learn", "native"): 5e-4,
    ("fused_round.collect", "native"): 45e-6,
    ("fused_round.insert", "native"): 1.5e-6,
    ("fused_round.steps", "native"): 4e-4,
    ("round.runtime", "cpu"): 3e-6,
    ("fused_round.runtime", "cpu"): 1e-6,
}


def table(times_s: dict[tuple[str, str], float]) -> PerformanceTable:
    return PerformanceTable(
        Entry(name, Target.parse(target), 32, time_s, time_s, time_s, Provenance.MEASURED)
        for (name, target), time_s in times_s.items()
    )


@pytest.mark.parametrize(
    ("mapping", "round_s"),
    [
        ("native-native-cpu", 45e-6 + 1.5e-6 + 4e-4 + 1e-6),
        ("torch-native-cpu", 60e-6 + 2e-6 + 10e-6 + 1e-3 + 5e-6 + 3e-6),
        ("native-flat-cpu", 50e-6 + 20e-6 + 100e-6 + 5e-4 + 50e-6 + 3e-6),
    ],
)
def test_a_gradient_step_is_the_sum_of_the_pieces_that_the_runtime_calls(
    mapping: str, round_s: float
) -> None:
    prediction = ComposedLoop().predict(table(PIECES_S), Problem(32, 27), PLATFORM, Mapping.parse(mapping))
    assert 1 / prediction.gps == pytest.approx(round_s)


DISTURBED_S = {
    ("cold_round.update", "native"): 45e-6,
    ("cold_round.update", "flat"): 90e-6,
    ("cold_round.runtime", "cpu"): 13e-6,
    ("cold_round.collect", "native"): 100e-6,
    ("cold_round.collect", "torch"): 110e-6,
    ("beside_learner.update", "native"): 5e-6,
    ("beside_learner.update", "torch"): 35e-6,
    ("beside_learner.runtime", "native"): 3e-6,
    ("beside_learner.runtime", "torch"): 7e-6,
    ("beside_replay.collect", "native"): 50e-6,
    ("beside_replay.collect", "flat"): 90e-6,
    ("beside_replay.runtime", "native"): 3e-6,
    ("beside_replay.runtime", "flat"): 9e-6,
}


def more_s(mapping: str, disturbed_s: dict[tuple[str, str], float]) -> float:
    """What partners add to a round."""
    problem, placed = Problem(32, 27), Mapping.parse(mapping)
    alone, beside = (
        ComposedLoop().predict(table(pieces), problem, PLATFORM, placed)
        for pieces in (PIECES_S, PIECES_S | disturbed_s)
    )
    return 1 / beside.gps - 1 / alone.gps


@pytest.mark.parametrize(
    ("mapping", "expected_s"), [("native-flat-cpu", 40e-6 + 6e-6), ("torch-native-cpu", 30e-6 + 4e-6)]
)
def test_of_a_native_part_is_known_what_a_partner_adds(mapping: str, expected_s: float) -> None:
    """The replay's parts are slower after a step in PyTorch, the actor after a tree in PyTorch, the loop after both."""
    assert more_s(mapping, DISTURBED_S) == pytest.approx(expected_s)


def test_any_other_part_goes_as_far_from_warm_to_cold_as_the_native_one() -> None:
    """Of the caches the tree takes 40 of 50 us from the actor, the learner 30 of 40 us from the update."""
    collect_s, update_s = (PIECES_S[name] for name in (("round.collect", "torch"), ("round.update", "flat")))
    expected_s = 4 / 5 * (110e-6 - collect_s) + 3 / 4 * (90e-6 - update_s) + 6e-6
    assert more_s("torch-flat-cpu", DISTURBED_S) == pytest.approx(expected_s)


@pytest.mark.parametrize(("shown_s", "taken"), [(500e-6, 1.0), (20e-6, 0.0)])
def test_a_partner_takes_no_more_than_the_caches_and_no_less_than_nothing(
    shown_s: float, taken: float
) -> None:
    pieces = DISTURBED_S | {("beside_replay.collect", "flat"): shown_s}
    without = {name: s for name, s in pieces.items() if name[0] != "cold_round.collect"}
    found_s = more_s("torch-flat-cpu", pieces) - more_s("torch-flat-cpu", without)
    assert found_s == pytest.approx(taken * (110e-6 - PIECES_S["round.collect", "torch"]))


STRICT_S = {
    ("strict_round.insert", "native"): 4e-6,
    ("strict_round.sample", "native"): 30e-6,
    ("strict_round.update", "native"): 9e-6,
}


def test_the_strict_loop_fuses_nothing() -> None:
    native, flat = Mapping.parse("native-native-cpu"), Mapping.parse("native-flat-cpu")
    strict = ComposedLoop(Loop.STRICT)
    made = strict.predict(table(PIECES_S | STRICT_S), Problem(32, 27), PLATFORM, native)
    assert 1 / made.gps == pytest.approx(50e-6 + 4e-6 + 30e-6 + 5e-4 + 9e-6 + 3e-6)
    fused = ComposedLoop().predict(table(PIECES_S), Problem(32, 27), PLATFORM, flat)
    assert strict.predict(table(PIECES_S | STRICT_S), Problem(32, 27), PLATFORM, flat).gps == fused.gps


OVERLAPPED_S = {
    ("overlapped_round.collect", "cpu"): 2e-3,
    ("overlapped_round.insert", "native"): 20e-6,
    ("overlapped_round.publish", "native"): 10e-6,
    ("overlapped_round.publish", "torch"): 50e-6,
    ("overlapped_round.steps", "native"): 10e-3,
}


@pytest.mark.parametrize(
    ("mapping", "iteration_s"),
    [
        ("native-native-cpu", 10e-3 + 20e-6 + 10e-6 + 1e-6),
        ("torch-native-cpu", 32 * (10e-6 + 1e-3 + 5e-6) + 20e-6 + 50e-6 + 32 * 3e-6),
    ],
)
def test_actors_beside_the_rest_are_hidden_behind_it(mapping: str, iteration_s: float) -> None:
    made = ComposedLoop(Loop.OVERLAPPED)
    placed = Mapping.parse(mapping)
    found = made.predict(table(PIECES_S | OVERLAPPED_S), Problem(32, 27), PLATFORM, placed)
    assert 32 / found.gps == pytest.approx(iteration_s)
    slow = PIECES_S | OVERLAPPED_S | {("overlapped_round.collect", "cpu"): 90e-3}
    found = made.predict(table(slow), Problem(32, 27), PLATFORM, placed)
    assert 32 / found.gps > 90e-3


def test_what_happens_once_a_round_is_shared_by_its_gradient_steps() -> None:
    """Two actors and an update interval of 1: a round is one vector step and two gradient steps."""
    problem = Problem(32, 27, actors=2)
    assert (problem.round_vector_steps, problem.round_gradient_steps) == (1, 2)
    unfused = ComposedLoop().predict(table(PIECES_S), problem, PLATFORM, Mapping.parse("torch-native-cpu"))
    assert 1 / unfused.gps == pytest.approx((60e-6 + 2e-6 + 3e-6) / 2 + 10e-6 + 1e-3 + 5e-6)
    fused = ComposedLoop().predict(table(PIECES_S), problem, PLATFORM, Mapping.parse("native-native-cpu"))
    assert 1 / fused.gps == pytest.approx((45e-6 + 1.5e-6 + 4e-4 + 1e-6) / 2)


def test_on_policy_a_gradient_step_is_charged_its_share_of_the_iteration() -> None:
    """N=4, T=512, M=512, K=10: 40 gradient steps an iteration (PPO 2.1)."""
    pieces = {
        ("round.collect", "native"): 200e-6,
        ("round.prepare", "cpu"): 1e-3,
        ("round.learn", "native"): 300e-6,
    }
    problem = Problem(512, 27, actors=4, trajectory_length=512, epochs=10)
    chosen = STRATEGIES["composed-loop"].choose(table(pieces), problem, PLATFORM)
    assert str(chosen.mapping) == "native-native-cpu"
    assert 1 / chosen.gps == pytest.approx((512 * 200e-6 + 1e-3) / 40 + 300e-6)


def test_the_default_strategy_takes_the_fastest_of_all_mappings() -> None:
    chosen = STRATEGIES["composed-loop"].choose(table(PIECES_S), Problem(32, 27), PLATFORM)
    assert str(chosen.mapping) == "native-native-cpu"
    without_fusion = {cell: time_s for cell, time_s in PIECES_S.items() if cell[1] != "native"}
    without_fusion |= {("round.learn", "native"): 2e-3, ("round.collect", "native"): 50e-6}
    chosen = STRATEGIES["composed-loop"].choose(table(without_fusion), Problem(32, 27), PLATFORM)
    assert str(chosen.mapping) == "torch-flat-cpu"


@pytest.mark.parametrize("loop", [Loop.FUSED, Loop.OVERLAPPED])
def test_a_simulated_learners_weights_come_over_its_link(loop: Loop) -> None:
    pieces = PIECES_S | {("round.collect", "fpga"): 50e-6, ("overlapped_round.insert", "native"): 2e-6}
    learn = Entry("round.learn", Target("fpga"), 32, 1e-3, 1e-3, 1e-3, Provenance.SIMULATED)
    profile = PerformanceTable([*table(pieces), learn])
    few, many = (
        ComposedLoop(loop).predict(
            profile, Problem(32, 27, acting_words=words), PLATFORM, Mapping.parse("fpga-native-cpu")
        )
        for words in (0, 1_000_000)
    )
    link_s = 4_000_000 / PLATFORM.bytes_per_s("fpga", "cpu")
    steps = 8 if loop is Loop.OVERLAPPED else 1
    assert few.terms_s["publish"] == 0
    assert many.terms_s["publish"] == pytest.approx(link_s / steps)
    assert 1 / many.gps - 1 / few.gps == pytest.approx(link_s / steps)
