import pytest

from placerl.harness.mapping import Loop, Mapping, Problem
from placerl.harness.mapping.strategies.composed_loop import ComposedLoop
from tests.harness.mapping.strategies.composed_loop.profiles import (
    OVERLAPPED_S,
    PIECES_S,
    PLATFORM,
    RELAXED_S,
    table,
)


@pytest.mark.parametrize(
    ("mapping", "iteration_s"),
    [
        ("native-native-cpu", 10e-3 + 20e-6 + 10e-6 + 1e-6),
        ("torch-native-cpu", 32 * (10e-6 + 1e-3 + 5e-6) + 20e-6 + 50e-6 + 32 * 3e-6),
    ],
)
def test_actors_beside_the_rest_are_hidden_behind_it(mapping: str, iteration_s: float) -> None:
    prediction = ComposedLoop(Loop.OVERLAPPED)
    placed = Mapping.parse(mapping)
    found = prediction.predict(table(PIECES_S | OVERLAPPED_S), Problem(32, 27), PLATFORM, placed)
    assert 32 / found.gps == pytest.approx(iteration_s)
    slow = PIECES_S | OVERLAPPED_S | {("overlapped_round.collect", "cpu"): 90e-3}
    found = prediction.predict(table(slow), Problem(32, 27), PLATFORM, placed)
    assert 32 / found.gps > 90e-3


@pytest.mark.parametrize(
    ("mapping", "iteration_s"),
    [
        # 100 us of sampling and updating behind 420 us of learning; the rest is the host's
        ("native-native-cpu", 32 * 420e-6 + 20e-6 + 10e-6 + 1e-6),
        # a manager in a Python thread takes turns with the learner
        ("torch-native-cpu", 32 * (10e-6 + 1e-3 + 5e-6) + 20e-6 + 50e-6 + 32 * 30e-6),
        ("native-flat-cpu", 32 * (100e-6 + 5e-4 + 50e-6) + 32 * 20e-6 + 10e-6 + 32 * 30e-6),
    ],
)
def test_native_threads_hide_the_replay_manager_and_other_threads_do_not(
    mapping: str, iteration_s: float
) -> None:
    pieces = PIECES_S | OVERLAPPED_S | RELAXED_S
    prediction = ComposedLoop(Loop.RELAXED)
    found = prediction.predict(table(pieces), Problem(32, 27), PLATFORM, Mapping.parse(mapping))
    assert 32 / found.gps == pytest.approx(iteration_s)


def test_a_slower_replay_manager_sets_the_pace_of_the_relaxed_loop() -> None:
    pieces = PIECES_S | OVERLAPPED_S | RELAXED_S | {("relaxed_round.sample", "native"): 560e-6}
    placed = Mapping.parse("native-native-cpu")
    prediction = ComposedLoop(Loop.RELAXED).predict(table(pieces), Problem(32, 27), PLATFORM, placed)
    assert 1 / prediction.gps == pytest.approx(560e-6 + 40e-6)


def test_what_happens_once_a_round_is_shared_by_its_gradient_steps() -> None:
    """Two actors and an update interval of 1: a round is one vector step and two gradient steps."""
    problem = Problem(32, 27, actors=2)
    assert (problem.round_vector_steps, problem.round_gradient_steps) == (1, 2)
    unfused = ComposedLoop().predict(table(PIECES_S), problem, PLATFORM, Mapping.parse("torch-native-cpu"))
    assert 1 / unfused.gps == pytest.approx((60e-6 + 2e-6 + 3e-6) / 2 + 10e-6 + 1e-3 + 5e-6)
    fused = ComposedLoop().predict(table(PIECES_S), problem, PLATFORM, Mapping.parse("native-native-cpu"))
    assert 1 / fused.gps == pytest.approx((45e-6 + 1.5e-6 + 4e-4 + 1e-6) / 2)
