from dataclasses import replace
from typing import ClassVar

import pytest

from harness import platforms
from harness.core.provenance import Provenance
from harness.mapping import STRATEGIES, Entry, Loop, Mapping, PerformanceTable, Prediction, Problem, Target
from harness.mapping.strategies.composed_loop import CPU, ComposedLoop, composed_candidates

PLATFORM = platforms.load("map-tpds23")
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


RELAXED_S = {
    ("relaxed_round.sample", "native"): 60e-6,
    ("relaxed_round.learn", "native"): 420e-6,
    ("relaxed_round.update", "native"): 40e-6,
    ("relaxed_round.runtime", "cpu"): 30e-6,
}


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
    made = ComposedLoop(Loop.RELAXED)
    found = made.predict(table(pieces), Problem(32, 27), PLATFORM, Mapping.parse(mapping))
    assert 32 / found.gps == pytest.approx(iteration_s)


def test_a_profile_without_the_runtime_of_a_python_thread_uses_that_of_the_loop() -> None:
    pieces = {
        cell: s
        for cell, s in (PIECES_S | OVERLAPPED_S | RELAXED_S).items()
        if "relaxed_round.r" not in cell[0]
    }
    found = ComposedLoop(Loop.RELAXED).predict(
        table(pieces), Problem(32, 27), PLATFORM, Mapping.parse("torch-native-cpu")
    )
    assert found.terms_s["loop"] == pytest.approx(3e-6)


def test_a_slower_replay_manager_sets_the_pace_of_the_relaxed_loop() -> None:
    pieces = PIECES_S | OVERLAPPED_S | RELAXED_S | {("relaxed_round.sample", "native"): 560e-6}
    placed = Mapping.parse("native-native-cpu")
    found = ComposedLoop(Loop.RELAXED).predict(table(pieces), Problem(32, 27), PLATFORM, placed)
    assert 1 / found.gps == pytest.approx(560e-6 + 40e-6)


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


@pytest.mark.parametrize("provenance", [Provenance.SIMULATED, Provenance.MODELLED])
@pytest.mark.parametrize("loop", [Loop.FUSED, Loop.OVERLAPPED])
def test_a_simulated_learners_weights_come_over_its_link(loop: Loop, provenance: Provenance) -> None:
    pieces = PIECES_S | {("round.collect", "fpga"): 50e-6, ("overlapped_round.insert", "native"): 2e-6}
    learn = Entry("round.learn", Target("fpga"), 32, 1e-3, 1e-3, 1e-3, provenance)
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


class Links:
    """A platform whose host and FPGA have a memory and a link of these speeds."""

    name = "made"
    cpu_cores = 8
    SPEEDS: ClassVar = {("cpu", "fpga"): 1e6, ("fpga", "cpu"): 2e6, ("fpga", "fpga"): 4e6}

    def latency_s(self, source: str, target: str) -> float:
        return 0.0

    def bytes_per_s(self, source: str, target: str) -> float:
        return self.SPEEDS[source, target]


def simulated(times_s: dict[tuple[str, str], float]) -> list[Entry]:
    return [
        Entry(name, Target.parse(target), 32, time_s, time_s, time_s, Provenance.SIMULATED)
        for (name, target), time_s in times_s.items()
    ]


ON_DEVICE_S = {
    ("round.insert", "fpga"): 1e-3,
    ("round.sample", "fpga"): 2e-3,
    ("round.learn", "fpga"): 30e-3,
    ("round.update", "fpga"): 4e-3,
}
ON_HOST_S = {
    ("round.collect", "fpga"): 5e-3,
    ("round.collect", "native"): 6e-3,
    ("round.learn", "native"): 7e-3,
    ("round.insert", "native"): 8e-3,
    ("round.sample", "native"): 9e-3,
    ("round.update", "native"): 10e-3,
    ("round.gather", "cpu"): 11e-3,
    ("round.write", "cpu"): 12e-3,
    ("round.runtime", "cpu"): 13e-3,
    ("overlapped_round.insert", "fpga"): 14e-3,
    ("overlapped_round.insert", "native"): 15e-3,
    ("overlapped_round.collect", "cpu"): 16e-3,
    ("overlapped_round.publish", "native"): 17e-3,
    ("overlapped_round.write", "cpu"): 18e-3,
}
PROFILE = PerformanceTable([*table(ON_HOST_S), *simulated(ON_DEVICE_S)])
# Of two actors and an update interval of 1, so that a round has two gradient steps; 32 items of 100 bytes.
SMALL = Problem(32, 25, actors=2, acting_words=50)


def predicted(mapping: str, loop: Loop = Loop.FUSED, profile: PerformanceTable = PROFILE) -> Prediction:
    return ComposedLoop(loop).predict(profile, SMALL, Links(), Mapping.parse(mapping))


def test_everything_on_a_simulated_device_pays_for_its_links_and_its_memory() -> None:
    found = predicted("fpga-fpga-fpga")
    assert found.terms_s == pytest.approx(
        {
            "actor": 5e-3 / 2,
            "publish": 50 * 4 / 2e6 / 2,
            "insert": (1e-3 + 2 * 12 / 1e6 + 2 * 100 / 1e6) / 2,
            "sample": 2e-3,
            "gather": (32 * 8 + 3200) / 4e6,
            "learner": 30e-3 + 3200 / 4e6 + 32 * 4 / 4e6,
            "update": 4e-3 + 32 * 12 / 4e6,
            "loop": 13e-3 / 2,
        }
    )
    assert found.inputs is Provenance.SIMULATED
    assert ("round.sample", Target("fpga")) in found.cells


def test_a_simulated_replay_beside_a_storage_on_the_host_has_it_gather_and_write() -> None:
    found = predicted("native-fpga-cpu")
    assert found.terms_s == pytest.approx(
        {
            "actor": 6e-3 / 2,
            "insert": (1e-3 + 2 * 12 / 1e6) / 2,
            "write": 12e-3 / 2,
            "sample": 2e-3,
            "gather": 11e-3 + 32 * 8 / 2e6,
            "learner": 7e-3 + 32 * 4 / 2e6,
            "update": 4e-3 + 32 * 12 / 1e6,
            "loop": 13e-3 / 2,
        }
    )
    assert {("round.gather", CPU), ("round.write", CPU)} <= set(found.cells)


def test_a_simulated_learner_beside_a_replay_on_the_host_has_its_batch_brought() -> None:
    found = predicted("fpga-native-cpu")
    assert found.terms_s == pytest.approx(
        {
            "actor": 5e-3 / 2,
            "publish": 50 * 4 / 2e6 / 2,
            "insert": 8e-3 / 2,
            "sample and gather": 9e-3,
            "learner": 30e-3 + 3200 / 1e6 + 32 * 4 / 1e6,
            "update": 10e-3 + 32 * 12 / 2e6,
            "loop": 13e-3 / 2,
        }
    )


def test_a_storage_beside_a_simulated_learner_gathers_for_a_replay_on_the_host() -> None:
    """Separate calls of the replay take 8, 20 and 10 ms, of which the host's gathering was 11 ms."""
    apart_s = {
        f"strict_round.{part}": s for part, s in (("insert", 8e-3), ("sample", 20e-3), ("update", 10e-3))
    }
    apart = table({(name, "native"): s for name, s in apart_s.items()})
    for loop, inserted_s in ((Loop.FUSED, 8e-3 / 2), (Loop.OVERLAPPED, 15e-3 / 8)):
        found = predicted("fpga-native-fpga", loop, PerformanceTable([*PROFILE, *apart]))
        assert found.terms_s["insert"] == pytest.approx(inserted_s)
        assert found.terms_s["write"] == pytest.approx(100 / 1e6)
        assert found.terms_s["sample and gather"] == pytest.approx(20e-3 - 11e-3)
        assert found.terms_s["gather"] == pytest.approx(32 * 8 / 1e6 + 3200 / 4e6)
        assert found.terms_s["learner"] == pytest.approx(30e-3 + 3200 / 4e6 + 32 * 4 / 1e6)
        assert found.terms_s["update"] == pytest.approx(10e-3 + 32 * 12 / 2e6)
    assert predicted("fpga-native-fpga").terms_s["sample and gather"] == 0, "never less than nothing"


def test_what_the_strict_round_gathered_is_taken_off_its_own_sampling() -> None:
    apart_s = {(f"strict_round.{part}", "native"): 20e-3 for part in ("insert", "sample", "update")}
    apart = table(apart_s | {("strict_round.gather", "cpu"): 4e-3})
    found = predicted("fpga-native-fpga", profile=PerformanceTable([*PROFILE, *apart]))
    assert found.terms_s["sample and gather"] == pytest.approx(20e-3 - 4e-3)


def test_between_two_simulated_parts_the_host_has_times_of_its_own() -> None:
    among = table({("simulated_round.collect", "fpga"): 51e-3, ("simulated_round.runtime", "cpu"): 53e-3})
    profile = PerformanceTable([*PROFILE, *among])
    found = predicted("fpga-fpga-cpu", profile=profile)
    assert found.terms_s["actor"] == pytest.approx(51e-3 / 2)
    assert found.terms_s["loop"] == pytest.approx(53e-3 / 2)
    assert found.terms_s["gather"] == pytest.approx(11e-3 + 32 * 8 / 2e6), "which was not timed there"
    for mapping in ("fpga-native-cpu", "native-fpga-cpu"):
        assert predicted(mapping, profile=profile).terms_s == predicted(mapping).terms_s


def test_the_strict_loop_uses_the_native_parts_of_its_own_round() -> None:
    strict_s = {f"strict_round.{part}": 1e-3 * k for k, part in enumerate(("collect", "learn", "sample"), 1)}
    profile = table(
        PIECES_S
        | {(name, "native"): s for name, s in strict_s.items()}
        | {("strict_round.insert", "native"): 4e-3, ("strict_round.update", "native"): 5e-3}
    )
    found = ComposedLoop(Loop.STRICT).predict(
        profile, Problem(32, 27), PLATFORM, Mapping.parse("native-native-cpu")
    )
    assert 1 / found.gps == pytest.approx(15e-3 + 3e-6)
    other = ComposedLoop(Loop.STRICT).predict(
        profile, Problem(32, 27), PLATFORM, Mapping.parse("torch-native-cpu")
    )
    assert other.terms_s["learner"] == pytest.approx(1e-3)


def test_on_the_host_alone_there_is_no_link() -> None:
    found = predicted("native-native-cpu")
    assert 2 / found.gps == pytest.approx(6e-3 + 8e-3 + 2 * (9e-3 + 7e-3 + 10e-3) + 13e-3)
    assert found.inputs is Provenance.MEASURED


def test_actors_beside_a_simulation_step_once_a_round_where_no_process_was_profiled() -> None:
    """An iteration has 8 gradient steps, which are 4 rounds of two."""
    found = predicted("fpga-native-cpu", Loop.OVERLAPPED)
    assert found.terms_s["actor"] == pytest.approx(4 * 5e-3 / 8)
    assert found.terms_s["insert"] == pytest.approx(15e-3 / 8)
    assert found.terms_s["learner"] == pytest.approx(30e-3 + 3200 / 1e6 + 32 * 4 / 1e6)
    assert found.terms_s["publish"] == pytest.approx(50 * 4 / 2e6 / 8)
    assert found.terms_s["loop"] == pytest.approx(4 * 13e-3 / 8)
    replay = predicted("native-fpga-cpu", Loop.OVERLAPPED)
    assert replay.terms_s["write"] == pytest.approx(18e-3 / 8)
    assert replay.terms_s["insert"] == pytest.approx((14e-3 + 8 * 12 / 1e6) / 8)


def test_actors_whose_collection_beside_a_learner_was_profiled_take_that() -> None:
    beside = table({("overlapped_round.collect", "fpga"): 1.0})
    found = predicted("fpga-native-cpu", Loop.OVERLAPPED, PerformanceTable([*PROFILE, *beside]))
    assert found.terms_s["actor"] == pytest.approx(1.0 / 8)


def test_in_a_process_an_iteration_has_32_gradient_steps_and_hands_the_weights_over_once() -> None:
    found = predicted("native-native-cpu", Loop.OVERLAPPED)
    assert found.terms_s["actor"] == pytest.approx(16e-3 / 32)
    assert found.terms_s["publish"] == pytest.approx(17e-3 / 32)
    assert found.terms_s["sample and gather"] == pytest.approx(9e-3)


def test_a_device_s_clock_does_not_know_the_host_s_caches() -> None:
    """What a native part would take longer beside a simulated one is not added to the simulated part."""
    beside_s = {
        (f"beside_learner.{part}", "native"): 1e-3 for part in ("insert", "sample", "update", "runtime")
    }
    beside_s |= {
        (f"beside_learner.{part}", "torch"): 2e-3 for part in ("insert", "sample", "update", "runtime")
    }
    beside_s |= {(f"cold_round.{part}", "native"): 3e-3 for part in ("insert", "sample", "update")}
    beside_s |= {(f"cold_round.{part}", "fpga"): 9.0 for part in ("insert", "sample", "update")}
    beside_s |= {
        ("cold_round.runtime", "cpu"): 4e-3,
        ("round.collect", "torch"): 0.1,
        ("round.learn", "torch"): 0.2,
    }
    found = predicted("torch-fpga-cpu", profile=PerformanceTable([*PROFILE, *table(beside_s)]))
    assert found.terms_s["insert"] == pytest.approx((1e-3 + 2 * 12 / 1e6) / 2)
    assert found.terms_s["update"] == pytest.approx(4e-3 + 32 * 12 / 1e6)
    assert found.terms_s["loop"] == pytest.approx((13e-3 + 1e-3) / 2), "the host's own loop does know them"


def test_a_part_is_never_faster_than_nothing_nor_than_alone() -> None:
    """A native part that measures faster beside a partner: noise, which must not turn a time negative."""
    faster = DISTURBED_S | {
        ("beside_learner.runtime", "torch"): 3e-6 - 1.0,
        ("beside_learner.update", "torch"): 4e-6,
    }
    assert more_s("torch-native-cpu", faster) == pytest.approx(-3e-6 - 1e-6)
    less = {("cold_round.collect", "torch"): 1e-6}  # colder than warm by noise
    without = {
        name: s for name, s in DISTURBED_S.items() if name[0] != "cold_round.collect" or name[1] != "torch"
    }
    assert more_s("torch-flat-cpu", DISTURBED_S | less) == pytest.approx(more_s("torch-flat-cpu", without))


def test_caches_that_show_nothing_when_emptied_are_not_taken() -> None:
    same = DISTURBED_S | {("cold_round.collect", "native"): DISTURBED_S["beside_replay.collect", "native"]}
    without = {name: s for name, s in DISTURBED_S.items() if name[0] != "cold_round.collect"}
    assert more_s("torch-flat-cpu", same) == pytest.approx(more_s("torch-flat-cpu", without))


def test_a_prediction_names_the_cells_of_the_partners_that_it_used() -> None:
    profile = table(PIECES_S | DISTURBED_S)
    found = ComposedLoop().predict(profile, Problem(32, 27), PLATFORM, Mapping.parse("torch-flat-cpu"))
    named = {(name, str(target)) for name, target in found.cells}
    assert named >= {
        ("beside_replay.collect", "flat"),
        ("beside_replay.collect", "native"),
        ("cold_round.collect", "native"),
        ("cold_round.collect", "torch"),
    }
    assert len(found.cells) == len(set(found.cells))


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


STORED_S = {
    ("opencl_round.collect", "opencl"): 70e-6,
    ("opencl_round.learn", "opencl"): 3e-4,
    ("opencl_round.insert", "native"): 21e-6,
    ("opencl_round.sample", "native"): 31e-6,
    ("opencl_round.update", "native"): 6e-6,
}


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
        found = ComposedLoop(Loop.OVERLAPPED).predict(profile, Problem(32, 27), PLATFORM, mapping)
        assert found.terms_s["actor"] == pytest.approx(actor_s / 32)
        assert found.terms_s["publish"] == pytest.approx(30e-6 / 32)
        assert 32 / found.gps == pytest.approx(max(12e-3 + 30e-6, actor_s) + 20e-6 + 1e-6, rel=0.01)


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
        found = ComposedLoop(loop).predict(table(pieces | more), problem, PLATFORM, placed)
        shown_s = 32 * (31e-6 + 3e-4 + 6e-6) + inserted_s + 25e-6
        assert found.terms_s["insert"] == pytest.approx(inserted_s / 32)
        assert 32 / found.gps == pytest.approx(shown_s, rel=0.02)


def test_without_the_learner_they_are_those_profiled_without_it() -> None:
    profiled, mapping = table(PIECES_S | STORED_S | APART_S), Mapping.parse("torch-opencl-opencl")
    prediction = ComposedLoop().predict(profiled, Problem(32, 27), PLATFORM, mapping)
    assert 1 / prediction.gps == pytest.approx(80e-6 + 9e-4 + 8e-5 + 7e-5 + 9e-5 + 3e-6)
    stored = [str(one) for one in composed_candidates(profiled) if one.storage != CPU]
    assert stored == ["opencl-native-opencl", "torch-opencl-opencl"]


def test_candidates_store_on_a_device_with_a_learner_there() -> None:
    assert not [one for one in composed_candidates(table(PIECES_S)) if one.storage != CPU]
    stored = composed_candidates(table(PIECES_S | STORED_S))
    assert [str(one) for one in stored if one.storage != CPU] == ["opencl-native-opencl"]
    chosen = STRATEGIES["composed-loop"]
    best = chosen.choose(table(PIECES_S | STORED_S), Problem(32, 27), PLATFORM)
    assert str(best.mapping) == "opencl-native-opencl"


def test_steps_of_one_call_need_learner_replay_and_storage_in_one_place() -> None:
    pieces = PIECES_S | {("fused_round.steps", "torch"): 1e-9}
    problem = Problem(32, 27)
    for mapping, fused in (("native-native-cpu", True), ("torch-native-cpu", False)):
        found = ComposedLoop().predict(table(pieces), problem, PLATFORM, Mapping.parse(mapping))
        assert ("step" in found.terms_s) == fused


def test_a_learner_in_fixed_point_has_fused_steps_of_its_own() -> None:
    mapping, problem = Mapping.parse("native[fixed32]-native-cpu"), Problem(32, 27)
    own = {(name, str(mapping.learner)): 2e-4 for name in ("fused_round.collect", "fused_round.steps")}
    found = ComposedLoop().predict(table(PIECES_S | own), problem, PLATFORM, mapping)
    assert ("fused_round.steps", mapping.learner) in found.cells
    assert ("fused_round.insert", mapping.rmm) in found.cells
    apart = {("round.collect", str(mapping.learner)): 1e-4, ("round.learn", str(mapping.learner)): 1e-4}
    found = ComposedLoop().predict(table(PIECES_S | apart), problem, PLATFORM, mapping)
    assert "step" not in found.terms_s


class Cores(Links):
    """The same with some cores."""

    def __init__(self, cores: int) -> None:
        self.cpu_cores = cores


# Of 32 gradient steps: actors 8 ms, fused steps 4 ms, the hand-over 1.5 ms.
BESIDE_S = {
    ("fused_round.steps", "native"): 1e-3,
    ("fused_round.runtime", "cpu"): 0.3e-3,
    ("overlapped_round.collect", "cpu"): 8e-3,
    ("overlapped_round.insert", "native"): 1e-3,
    ("overlapped_round.publish", "native"): 0.2e-3,
    ("overlapped_round.steps", "native"): 4e-3,
    ("relaxed_round.sample", "native"): 0.05e-3,
    ("relaxed_round.learn", "native"): 0.2e-3,
    ("relaxed_round.update", "native"): 0.05e-3,
}


@pytest.mark.parametrize(
    ("loop", "cores", "threads", "round_s"),
    [
        (Loop.OVERLAPPED, 1, 1, 8e-3 + 4e-3 + 1.5e-3),
        (Loop.OVERLAPPED, 2, 1, 8e-3 + 1.3e-3),  # the actors set the pace, and the weights go out meanwhile
        (Loop.OVERLAPPED, 1, 2, 8e-3 + 4e-3 + 1.5e-3),  # threads without a core hold nobody up
        (Loop.RELAXED, 1, 1, 8e-3 + 32 * 0.3e-3 + 1.5e-3),
        (Loop.RELAXED, 2, 1, 8e-3 + 32 * 0.1e-3),  # actors and manager share a core
        (Loop.RELAXED, 8, 1, 8e-3 + 1.3e-3),
    ],
)
def test_what_runs_in_parallel_takes_no_less_than_its_cores_need(
    loop: Loop, cores: int, threads: int, round_s: float
) -> None:
    problem = Problem(32, 27, learner_threads=threads)
    mapping = Mapping.parse("native-native-cpu")
    found = ComposedLoop(loop).predict(table(BESIDE_S), problem, Cores(cores), mapping)
    assert 32 / found.gps == pytest.approx(round_s)


HANDED_S = {("beside_actors.request", "native"): 0.05e-3, ("beside_actors.receive", "native"): 0.1e-3}


@pytest.mark.parametrize(
    ("steps_s", "factor"),
    [
        (4e-3, 1.0),
        (5e-3, 1.25),  # the steps are the shorter ones, and take 1.25 times as long all the time
        (3e-3, 1.0),  # faster than alone: noise
    ],
)
def test_busy_cores_slow_each_other_down_as_the_steps_beside_the_actors_show(
    steps_s: float, factor: float
) -> None:
    pieces = table(BESIDE_S | HANDED_S | {("beside_actors.steps", "native"): steps_s})
    mapping = Mapping.parse("native-native-cpu")
    found = ComposedLoop(Loop.OVERLAPPED).predict(pieces, Problem(32, 27), Cores(8), mapping)
    # The actors take longer while the 4 ms of steps go on, and set the pace.
    acting_s = 8e-3 + (factor - 1) * 4e-3
    assert 32 / found.gps == pytest.approx(acting_s + 1.3e-3)
    assert found.terms_s["step"] == pytest.approx(factor * 4e-3 / 32)
    assert ("beside_actors.steps", Target("native")) in found.cells
    single = ComposedLoop(Loop.OVERLAPPED).predict(pieces, Problem(32, 27), Cores(1), mapping)
    assert single.terms_s["step"] == pytest.approx(4e-3 / 32), "on one core nothing runs in parallel"
    relaxed = ComposedLoop(Loop.RELAXED).predict(pieces, Problem(32, 27), Cores(8), mapping)
    for term, alone_s in (("learner", 0.2e-3), ("sample and gather", 0.05e-3), ("update", 0.05e-3)):
        assert relaxed.terms_s[term] == pytest.approx(factor * alone_s)


def test_longer_steps_are_slowed_down_while_the_actors_act() -> None:
    """Steps of 16 ms take 18 ms, as the 8 ms of acting become 10 ms: both are slowed down by 1.25 meanwhile."""
    longer_s = {("overlapped_round.steps", "native"): 16e-3, ("beside_actors.steps", "native"): 18e-3}
    pieces = BESIDE_S | HANDED_S | longer_s
    mapping = Mapping.parse("native-native-cpu")
    found = ComposedLoop(Loop.OVERLAPPED).predict(table(pieces), Problem(32, 27), Cores(8), mapping)
    assert found.terms_s["step"] == pytest.approx(18e-3 / 32)
    assert found.terms_s["actor"] == pytest.approx(10e-3 / 32)
    assert found.terms_s["loop"] == pytest.approx((0.3e-3 + 0.15e-3) / 32), (
        "with the actors' request and answer"
    )


@pytest.mark.parametrize(
    ("acting_s", "steps_s", "factor"),
    [
        (0.7e-3, 160e-3, 1.0),  # the steps' noise, 10 ms, is 14 times as long as acting
        (30e-3, 165e-3, 1.5),
        (30e-3, 195e-3, 2.0),  # 45 ms for 30 ms of acting: more than taking turns would cost
    ],
)
def test_noise_of_long_steps_does_not_slow_down_two_threads(
    acting_s: float, steps_s: float, factor: float
) -> None:
    pieces = BESIDE_S | HANDED_S
    pieces |= {("overlapped_round.steps", "native"): 150e-3, ("beside_actors.steps", "native"): steps_s}
    pieces[("overlapped_round.collect", "cpu")] = acting_s
    mapping = Mapping.parse("native-native-cpu")
    relaxed = ComposedLoop(Loop.RELAXED).predict(table(pieces), Problem(32, 27), Cores(8), mapping)
    assert relaxed.terms_s["learner"] == pytest.approx(factor * 0.2e-3)
    replay_and_learner_s = 32 * (0.05e-3 + 0.2e-3 + 0.05e-3)
    added_s = (factor - 1) * min(replay_and_learner_s, acting_s)
    assert relaxed.terms_s["actor"] == pytest.approx((acting_s + added_s) / 32)


def test_parts_in_turn_need_one_core() -> None:
    found = [
        ComposedLoop()
        .predict(table(PIECES_S), Problem(32, 27), Cores(cores), Mapping.parse("torch-flat-cpu"))
        .gps
        for cores in (1, 8)
    ]
    assert found[0] == found[1]


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
    alone = ComposedLoop().predict(table(pieces), problem, Links(), mapping)
    assert 8 / alone.gps == pytest.approx(16 * 1e-3 + 3e-3 + 8 * 2e-3)
    pooled = table(pieces | {("iteration.collect", "native"): 5e-3})
    assert 8 / ComposedLoop().predict(pooled, problem, Links(), mapping).gps == pytest.approx(24e-3)
