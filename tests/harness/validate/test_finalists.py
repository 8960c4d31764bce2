"""A final gives its rounds to the trainings that may still be the fastest."""

from placerl.harness.measure.statistics import FEWEST_SAMPLES
from placerl.harness.validate.finalists import Finalists

PIECES = {"fast": ["step", "act"], "close": ["act"], "slow": ["act", "call"]}
COST_S = dict.fromkeys(("fast", "close", "slow", "step", "act", "call"), 1.0)


def seconds(rounds: int, **each: float) -> dict[str, dict[int, float]]:
    return {
        name: {number: s * (1 + 0.01 * (number % 2)) for number in range(rounds)} for name, s in each.items()
    }


def test_what_is_clearly_slower_is_left_out_with_its_pieces() -> None:
    final = Finalists(PIECES)
    few = seconds(FEWEST_SAMPLES - 1, fast=1.0, close=1.001, slow=4.5)
    assert final(few, COST_S, 0.0) == set(COST_S), "whatever the time"
    later = seconds(FEWEST_SAMPLES, fast=1.0, close=1.001, slow=4.5)
    assert final(later, COST_S, 4.0) == {"fast", "close", "step", "act"}
    assert final.left == ["fast", "close"]


def test_the_final_ends_with_its_time_or_with_one_that_is_left() -> None:
    rounds = seconds(FEWEST_SAMPLES, fast=1.0, close=1.001, slow=9.0)
    assert not Finalists(PIECES)(rounds, COST_S, 3.9)
    alone = seconds(FEWEST_SAMPLES, fast=1.0, close=9.0, slow=9.0)
    assert not Finalists(PIECES)(alone, COST_S, 100.0)


def test_a_training_that_failed_takes_no_part() -> None:
    rounds = seconds(FEWEST_SAMPLES, close=1.0, slow=1.0) | {"fast": {}}
    able = {name: s for name, s in COST_S.items() if name != "fast"}
    assert Finalists(PIECES)(rounds, able, 100.0) == {"close", "slow", "act", "call"}


def test_what_earlier_rounds_left_out_stays_out() -> None:
    rounds = seconds(FEWEST_SAMPLES, fast=1.0, close=1.001, slow=1.0)
    final = Finalists(PIECES, ["close", "fast"])
    assert final(rounds, COST_S, 4.0) == {"fast", "close", "step", "act"}
    assert final.left == ["fast", "close"]
