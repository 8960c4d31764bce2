from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from placerl.harness.measure.sequential import (
    ERROR_RATE,
    LOOKS,
    Decision,
    decide,
    interquartile_mean,
    look_of,
)

LIMIT = 0.9
CLAIMS = 200
WEIGHTS = (1.0, -LIMIT, LIMIT - 1)
Draw = Callable[[np.random.Generator, float, int], NDArray[np.float64]]


def _normal(rng: np.random.Generator, middle: float, seeds: int) -> NDArray[np.float64]:
    return rng.normal(middle, 0.1, seeds)


def _skewed(rng: np.random.Generator, middle: float, seeds: int) -> NDArray[np.float64]:
    return middle + 0.1 * (0.75 - rng.exponential(1.0, seeds))


def _with_failures(rng: np.random.Generator, middle: float, seeds: int) -> NDArray[np.float64]:
    """One seed in ten learns nothing."""
    return np.where(rng.random(seeds) < 0.1, rng.normal(0.1, 0.05, seeds), rng.normal(middle, 0.05, seeds))


def _decisions(draw: Draw, share: float) -> list[Decision]:
    rng, seeds = np.random.default_rng(int(share * 100)), LOOKS[-1]
    return [
        decide(WEIGHTS, [draw(rng, share, seeds), draw(rng, 1.0, seeds), rng.normal(0.0, 0.02, seeds)])
        for _ in range(CLAIMS)
    ]


@pytest.mark.parametrize("draw", [_normal, _skewed, _with_failures])
def test_of_200_simulated_claims_at_most_the_stated_share_is_decided_wrongly(draw: Draw) -> None:
    # Errors are binomial: 200 claims of which each is wrong with the stated rate have more than this in 1 of 100 cases.
    most = ERROR_RATE * CLAIMS + 2.33 * (ERROR_RATE * (1 - ERROR_RATE) * CLAIMS) ** 0.5
    true, false, limiting = (_decisions(draw, share) for share in (1.0, 0.75, LIMIT))
    assert sum(one.above is False for one in true) <= most
    assert sum(one.above is True for one in false) <= most
    assert sum(one.above is not None for one in limiting) <= most  # where either answer is wrong


def test_clear_claims_are_decided_at_the_first_looks_and_close_ones_mostly_at_the_last() -> None:
    clear, close = _decisions(_normal, 1.5), _decisions(_normal, 0.8)
    assert np.mean([one.seeds <= LOOKS[1] and one.above is True for one in clear]) > 0.9
    assert np.mean([one.above is False for one in close]) > 0.4
    assert np.mean([one.seeds == LOOKS[-1] for one in close]) > 0.4


def test_seeds_after_the_look_that_decided_change_nothing() -> None:
    rng = np.random.default_rng(1)
    clear = [rng.normal(1.5, 0.1, 20), rng.normal(1.0, 0.1, 20), rng.normal(0.0, 0.02, 20)]
    first = decide(WEIGHTS, [one[:5] for one in clear])
    assert first == Decision(True, 5)
    assert first.ended
    assert (
        decide(WEIGHTS, [one[:12] * (1 if place else -1) for place, one in enumerate(clear)]).above is False
    )
    contrary = [np.concatenate([one[:5], -one[5:]]) for one in clear]
    assert decide(WEIGHTS, contrary) == first


def test_it_does_not_look_before_the_fewest_seeds_of_the_shortest_series() -> None:
    assert decide((1.0, -1.0), [[1.0] * 20, [0.0] * 4]) == Decision(None, 0)
    assert decide((1.0, -1.0), [[1.0] * 6, [0.0] * 20]) == Decision(True, 5)


def test_equal_returns_are_undecided_to_the_end() -> None:
    decision = decide((1.0, -1.0), [[1.0] * 20, [1.0] * 20])
    assert decision == Decision(None, 20)
    assert decision.ended


def test_statements_that_are_decided_together_share_the_error_rate() -> None:
    rng = np.random.default_rng(3)
    pairs = [([*rng.normal(0.11, 0.1, 20)], [*rng.normal(0.0, 0.1, 20)]) for _ in range(40)]
    alone, together = (
        sum(decide((1.0, -1.0), pair, statements).above is not None for pair in pairs)
        for statements in (1, 10)
    )
    assert together < alone


def test_a_seed_belongs_to_the_first_look_that_uses_it() -> None:
    assert [look_of(position) for position in (0, 4, 5, 6, 7, 19)] == [1, 1, 2, 2, 3, 5]


def test_the_interquartile_mean_leaves_out_the_outer_quarters() -> None:
    assert interquartile_mean([0, 1, 2, 3, 4, 5, 6, 1000]) == (2 + 3 + 4 + 5) / 4
