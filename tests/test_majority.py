"""The rule by which tests judge trained agents, against counting by hand."""

from itertools import product
from math import comb

import pytest

from tests.majority import ALLOWED, error_bound, majority


@pytest.mark.parametrize("outcomes", list(product([False, True], repeat=5)))
def test_it_is_what_most_say(outcomes: tuple[bool, ...]) -> None:
    assert majority(outcomes, of=5) == (sum(outcomes) >= 3)


@pytest.mark.parametrize("said", [False, True])
def test_it_takes_no_more_than_decide_it(said: bool) -> None:
    outcomes = iter([said, not said, said, said, said, said, said, said, said])
    assert majority(outcomes) is said
    assert len(list(outcomes)) == 3


def test_without_a_majority_it_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^outcomes: found 5; allowed: enough for a majority of 9"):
        majority([True, True, False, False, True])


def test_the_bound_by_hand() -> None:
    most = 1 - 0.05 ** (1 / 56)  # no error in 56: Clopper and Pearson in closed form
    by_hand = sum(comb(9, k) * most**k * (1 - most) ** (9 - k) for k in range(5, 10))
    assert error_bound(0, 56) == pytest.approx(by_hand)
    assert error_bound(0, 47) < ALLOWED < error_bound(0, 46)
    assert error_bound(1, 74) < ALLOWED < error_bound(1, 73)
    assert error_bound(3, 3) == 1
