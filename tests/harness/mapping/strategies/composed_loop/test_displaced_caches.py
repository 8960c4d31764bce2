import pytest

from placerl.harness.mapping import Mapping, Problem
from placerl.harness.mapping.strategies.composed_loop import ComposedLoop
from tests.harness.mapping.strategies.composed_loop.profiles import PIECES_S, PLATFORM, table

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
    prediction = ComposedLoop().predict(profile, Problem(32, 27), PLATFORM, Mapping.parse("torch-flat-cpu"))
    named = {(name, str(target)) for name, target in prediction.cells}
    assert named >= {
        ("beside_replay.collect", "flat"),
        ("beside_replay.collect", "native"),
        ("cold_round.collect", "native"),
        ("cold_round.collect", "torch"),
    }
    assert len(prediction.cells) == len(set(prediction.cells))
