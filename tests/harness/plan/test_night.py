"""The plan of the tier `night`: its pieces, their order, and how long each test lasts."""

from dataclasses import replace

import pytest

from placerl.harness.measure.sequential import LOOKS
from placerl.harness.papers.legs import PIECE_S
from placerl.harness.plan import night
from placerl.harness.store.cell import Cell

CELLS = night.cells()


def test_every_piece_takes_at_most_20_minutes_and_stands_behind_what_it_needs() -> None:
    seen: set[str] = set()
    for cell in CELLS:
        assert cell.estimate_s <= PIECE_S, cell.key
        assert seen.issuperset(cell.needs), cell.key
        assert cell.key not in seen
        seen.add(cell.key)


def test_what_the_next_look_of_a_test_needs_comes_before_what_any_later_one_does() -> None:
    looks = [cell.look for cell in CELLS]
    assert looks == sorted(looks)
    assert set(looks) == set(range(1, len(LOOKS) + 1))


@pytest.mark.parametrize(
    ("trainings", "curves"),
    [
        ("FIX-F7/halfcheetah-ddpg", 4),
        ("FIX-F7-sweep/halfcheetah-ddpg", 3),
        ("MAP-F10/hopper-ddpg", 3),
        ("MAP-F10/cartpole-ddpg", 3),
        ("PRL-F9/cartpole-dqn", 2),
        ("PRL-F9/mountaincar-ddpg", 2),
    ],
)
def test_every_claim_about_reward_has_its_curves_and_five_seeds_at_the_first_look(
    trainings: str, curves: int
) -> None:
    last = [cell.key for cell in CELLS if night.trainings_of(cell) == trainings and "leg" not in cell.key]
    assert len(last) == curves * LOOKS[-1]
    first = [cell for cell in CELLS if cell.key in last and cell.look == 1]
    assert len(first) == curves * LOOKS[0]


def test_the_comparisons_of_convergence_are_pieces_of_it() -> None:
    assert any(cell.key.startswith("claim/PAL-F8/ant-ddpg/") for cell in CELLS)


def test_the_time_to_the_next_look_and_to_the_last_one_are_told() -> None:
    def cell(key: str, look: int) -> Cell:
        return replace(CELLS[0], key=f"claim/A-1/x/{key}", estimate_s=10, look=look)

    left = [cell("a", 1), cell("b", 1), cell("c", 2), replace(cell("d", 3), key="claim/B-1/x/d")]
    assert list(night.looks(left)) == [("A-1/x", 20, 30), ("B-1/x", 10, 10)]
