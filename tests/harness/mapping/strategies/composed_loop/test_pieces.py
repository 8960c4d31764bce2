from dataclasses import replace

import pytest

from placerl.harness.mapping import STRATEGIES, Loop, Mapping, Problem
from placerl.harness.mapping.strategies.composed_loop import ComposedLoop, composed_candidates
from placerl.harness.mapping.strategies.composed_loop.lookup import CPU
from tests.harness.mapping.strategies.composed_loop.profiles import (
    LINKS,
    OVERLAPPED_S,
    PIECES_S,
    PLATFORM,
    RELAXED_S,
    STORED_S,
    predicted,
    table,
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


def test_a_profile_without_the_runtime_of_a_python_thread_uses_that_of_the_loop() -> None:
    pieces = {
        cell: s
        for cell, s in (PIECES_S | OVERLAPPED_S | RELAXED_S).items()
        if "relaxed_round.r" not in cell[0]
    }
    prediction = ComposedLoop(Loop.RELAXED).predict(
        table(pieces), Problem(32, 27), PLATFORM, Mapping.parse("torch-native-cpu")
    )
    assert prediction.terms_s["loop"] == pytest.approx(3e-6)


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


def test_the_strict_loop_uses_the_native_parts_of_its_own_round() -> None:
    strict_s = {f"strict_round.{part}": 1e-3 * k for k, part in enumerate(("collect", "learn", "sample"), 1)}
    profile = table(
        PIECES_S
        | {(name, "native"): s for name, s in strict_s.items()}
        | {("strict_round.insert", "native"): 4e-3, ("strict_round.update", "native"): 5e-3}
    )
    prediction = ComposedLoop(Loop.STRICT).predict(
        profile, Problem(32, 27), PLATFORM, Mapping.parse("native-native-cpu")
    )
    assert 1 / prediction.gps == pytest.approx(15e-3 + 3e-6)
    other = ComposedLoop(Loop.STRICT).predict(
        profile, Problem(32, 27), PLATFORM, Mapping.parse("torch-native-cpu")
    )
    assert other.terms_s["learner"] == pytest.approx(1e-3)


def test_in_a_process_an_iteration_has_32_gradient_steps_and_hands_the_weights_over_once() -> None:
    found = predicted("native-native-cpu", Loop.OVERLAPPED)
    assert found.terms_s["actor"] == pytest.approx(16e-3 / 32)
    assert found.terms_s["publish"] == pytest.approx(17e-3 / 32)
    assert found.terms_s["sample and gather"] == pytest.approx(9e-3)


APART_S = {
    ("opencl_apart_round.collect", "torch"): 80e-6,
    ("opencl_apart_round.learn", "torch"): 9e-4,
    ("opencl_apart_round.insert", "opencl"): 8e-5,
    ("opencl_apart_round.sample", "opencl"): 7e-5,
    ("opencl_apart_round.update", "opencl"): 9e-5,
}


def test_parts_with_learner_and_storage_on_one_device_are_those_profiled_there() -> None:
    placed, problem = Mapping.parse("opencl-native-opencl"), Problem(32, 27)
    stored = table(PIECES_S | STORED_S)
    for loop in (Loop.FUSED, Loop.STRICT):
        prediction = ComposedLoop(loop).predict(stored, problem, PLATFORM, placed)
        assert 1 / prediction.gps == pytest.approx(70e-6 + 21e-6 + 31e-6 + 3e-4 + 6e-6 + 3e-6)
    for left_out in STORED_S:
        with pytest.raises(KeyError):
            ComposedLoop().predict(
                table({cell: s for cell, s in (PIECES_S | STORED_S).items() if cell != left_out}),
                problem,
                PLATFORM,
                placed,
            )
    with pytest.raises(KeyError, match="overlapped"):
        ComposedLoop(Loop.OVERLAPPED).predict(stored, problem, PLATFORM, placed)


def test_actors_that_compute_in_fixed_point_take_seconds_of_their_own() -> None:
    learner = "native[fixed32]"
    own = {(f"overlapped_round.{part}", learner): s for part, s in (("steps", 12e-3), ("publish", 30e-6))}
    own |= {("fused_round.steps", learner): 4e-4}
    mapping = Mapping.parse(f"{learner}-native-cpu")
    for more, actor_s in (({}, 2e-3), ({("overlapped_round.collect", learner): 90e-3}, 90e-3)):
        profile = table(PIECES_S | OVERLAPPED_S | own | more)
        prediction = ComposedLoop(Loop.OVERLAPPED).predict(profile, Problem(32, 27), PLATFORM, mapping)
        assert prediction.terms_s["actor"] == pytest.approx(actor_s / 32)
        assert prediction.terms_s["publish"] == pytest.approx(30e-6 / 32)
        assert 32 / prediction.gps == pytest.approx(max(12e-3 + 30e-6, actor_s) + 20e-6 + 1e-6, rel=0.01)


@pytest.mark.parametrize("loop", [Loop.OVERLAPPED, Loop.RELAXED])
def test_the_storage_on_a_device_is_overlapped_too(loop: Loop) -> None:
    """An iteration of 32 rounds inserts once, in 40 us if that was profiled.

    In the relaxed loop an insertion also copies the batches that wait and were sampled since the last one, 4 us each.
    """
    own = {("overlapped_round.publish", "opencl"): 25e-6}
    pieces = PIECES_S | STORED_S | OVERLAPPED_S | own
    placed, problem = Mapping.parse("opencl-native-opencl"), Problem(32, 27)
    pieces |= {("storage.gather", "opencl"): 4e-6}
    once = {("opencl_overlapped_round.insert", "native"): 40e-6}
    for insertion_s, copies, ahead, more in (
        (40e-6, 32, 50, once),
        (40e-6, 7, 7, once),
        (32 * 21e-6, 32, 50, {}),
    ):
        inserted_s = insertion_s
        if loop is Loop.RELAXED:
            inserted_s += copies * 4e-6
        problem = replace(problem, ahead=ahead)
        prediction = ComposedLoop(loop).predict(table(pieces | more), problem, PLATFORM, placed)
        shown_s = 32 * (31e-6 + 3e-4 + 6e-6) + inserted_s + 25e-6
        assert prediction.terms_s["insert"] == pytest.approx(inserted_s / 32)
        assert 32 / prediction.gps == pytest.approx(shown_s, rel=0.02)


def test_without_the_learner_they_are_those_profiled_without_it() -> None:
    profiled, mapping = table(PIECES_S | STORED_S | APART_S), Mapping.parse("torch-opencl-opencl")
    prediction = ComposedLoop().predict(profiled, Problem(32, 27), PLATFORM, mapping)
    assert 1 / prediction.gps == pytest.approx(80e-6 + 9e-4 + 8e-5 + 7e-5 + 9e-5 + 3e-6)
    stored = [str(one) for one in composed_candidates(profiled) if one.storage != CPU]
    assert stored == ["opencl-native-opencl", "torch-opencl-opencl"]


def test_steps_of_one_call_need_learner_replay_and_storage_in_one_place() -> None:
    pieces = PIECES_S | {("fused_round.steps", "torch"): 1e-9}
    problem = Problem(32, 27)
    for mapping, fused in (("native-native-cpu", True), ("torch-native-cpu", False)):
        prediction = ComposedLoop().predict(table(pieces), problem, PLATFORM, Mapping.parse(mapping))
        assert ("step" in prediction.terms_s) == fused


def test_a_round_in_one_call_is_the_sum_of_its_parts_and_needs_no_other_piece() -> None:
    whole_s = {
        ("native_round.collect", "native"): 1e-6,
        ("native_round.insert", "native"): 2e-6,
        ("native_round.steps", "native"): 3e-6,
        ("native_round.runtime", "cpu"): 4e-6,
    }
    problem, mapping = Problem(32, 27, actors=4), Mapping.parse("native-native-cpu")
    prediction = ComposedLoop().predict(table(PIECES_S | whole_s), problem, PLATFORM, mapping)
    assert 1 / prediction.gps == pytest.approx(10e-6 / 4)
    assert {name for name, _ in prediction.cells} == {name for name, _ in whole_s}
    strict = ComposedLoop(Loop.STRICT).predict(table(PIECES_S | whole_s), problem, PLATFORM, mapping)
    assert not {name for name, _ in strict.cells} & {name for name, _ in whole_s}


def test_an_iteration_in_one_call_is_the_sum_of_its_parts() -> None:
    whole_s = {
        ("native_iteration.collect", "native"): 1e-3,
        ("native_iteration.prepare", "native"): 2e-3,
        ("native_iteration.learn", "native"): 3e-3,
        ("native_iteration.runtime", "cpu"): 4e-3,
    }
    problem = Problem(32, 27, actors=4, trajectory_length=64, epochs=2)
    mapping = Mapping.parse("native-native-cpu")
    prediction = ComposedLoop().predict(table(PIECES_S | whole_s), problem, PLATFORM, mapping)
    assert 1 / prediction.gps == pytest.approx(10e-3 / 16)
    assert prediction.terms_s["learner"] == pytest.approx(3e-3 / 16)


def test_a_learner_in_fixed_point_has_fused_steps_of_its_own() -> None:
    mapping, problem = Mapping.parse("native[fixed32]-native-cpu"), Problem(32, 27)
    own = {(name, str(mapping.learner)): 2e-4 for name in ("fused_round.collect", "fused_round.steps")}
    prediction = ComposedLoop().predict(table(PIECES_S | own), problem, PLATFORM, mapping)
    assert ("fused_round.steps", mapping.learner) in prediction.cells
    assert ("fused_round.insert", mapping.rmm) in prediction.cells
    apart = {("round.collect", str(mapping.learner)): 1e-4, ("round.learn", str(mapping.learner)): 1e-4}
    prediction = ComposedLoop().predict(table(PIECES_S | apart), problem, PLATFORM, mapping)
    assert "step" not in prediction.terms_s


def test_overlapped_iterations_are_as_long_as_the_problem_says() -> None:
    assert Problem(32, 27).overlapped_rounds() == 32
    assert Problem(32, 27, overlapped_gradient_steps=5, actors=2).overlapped_rounds() == 3
    assert Problem(32, 27, overlapped_gradient_steps=5).overlapped_rounds(simulated=True) == 8


def test_actors_in_processes_collect_an_iteration_at_once() -> None:
    pieces = {
        ("round.collect", "native"): 1e-3,
        ("round.learn", "native"): 2e-3,
        ("round.prepare", "cpu"): 3e-3,
    }
    problem, mapping = (
        Problem(8, 10, actors=2, trajectory_length=16, epochs=2),
        Mapping.parse("native-native-cpu"),
    )
    alone = ComposedLoop().predict(table(pieces), problem, LINKS, mapping)
    assert 8 / alone.gps == pytest.approx(16 * 1e-3 + 3e-3 + 8 * 2e-3)
    told = table(pieces | {("iteration.runtime", "cpu"): 1e-3})
    assert 8 / ComposedLoop().predict(told, problem, LINKS, mapping).gps == pytest.approx(36e-3)
    pooled = table(pieces | {("iteration.collect", "native"): 5e-3})
    assert 8 / ComposedLoop().predict(pooled, problem, LINKS, mapping).gps == pytest.approx(24e-3)
