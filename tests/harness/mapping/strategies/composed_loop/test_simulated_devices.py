import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import Entry, Loop, Mapping, PerformanceTable, Problem, Target
from placerl.harness.mapping.strategies.composed_loop import ComposedLoop
from placerl.harness.mapping.strategies.composed_loop.lookup import CPU
from tests.harness.mapping.strategies.composed_loop.profiles import (
    PIECES_S,
    PLATFORM,
    PROFILE,
    predicted,
    table,
)


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
            "update": 4e-3 + 32 * 4 / 4e6,
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
            "update": 4e-3 + 32 * 4 / 1e6,
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
            "update": 10e-3 + 32 * 4 / 2e6,
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
        assert found.terms_s["update"] == pytest.approx(10e-3 + 32 * 4 / 2e6)
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
    assert found.terms_s["update"] == pytest.approx(4e-3 + 32 * 4 / 1e6)
    assert found.terms_s["loop"] == pytest.approx((13e-3 + 1e-3) / 2), "the host's own loop does know them"
