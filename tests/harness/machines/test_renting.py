"""An offer's interval carries that of the rate, the spread of seeds, and the seeds that never arrive."""

from math import inf
from pathlib import Path

import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.machines import renting
from placerl.harness.machines.prices import Price
from placerl.harness.store.rows import PredictedRate
from tests.harness.machines.example_cards import a_card
from tests.harness.machines.honest_bundles import honest


def rate(value: float, low: float, high: float) -> PredictedRate:
    return PredictedRate(
        suite=Suite.PREDICTION,
        primitive="training",
        strategy="composed-loop",
        mapping="native-native-cpu",
        quantity="gradient_steps_per_s",
        provenance=Provenance.MODELLED,
        value=value,
        low=low,
        high=high,
    )


def price(machine: str, per_hour: float) -> Price:
    return Price.model_validate_json(
        f'{{"machine": "{machine}", "per_hour": {per_hour}, "currency": "EUR", "date": "2026-11-01", "source": "x"}}'
    )


def test_the_interval_of_one_seed_is_that_of_the_rate() -> None:
    found = renting.seconds_to([1000.0], rate(100, 50, 125))
    assert found.value == pytest.approx(10)
    assert found.low == pytest.approx(8, rel=0.02)
    assert found.high == pytest.approx(20, rel=0.02)


def test_the_interval_of_an_exact_rate_is_that_of_the_seeds() -> None:
    found = renting.seconds_to([*range(1, 1000)], rate(1, 1, 1))
    assert (found.low, found.value, found.high) == pytest.approx((25, 500, 975), abs=1)


def test_seeds_that_never_arrive_open_the_interval_and_then_the_median() -> None:
    some = renting.seconds_to([100.0, 100.0, 100.0, inf], rate(1, 0.5, 2))
    assert some.value < some.high == inf
    assert renting.seconds_to([100.0, inf, inf], rate(1, 0.5, 2)).value == inf


def test_offers_are_ranked_by_cost_and_those_without_a_price_by_time() -> None:
    rates = {
        name: rate(value, value / 2, value * 2) for name, value in (("a", 10), ("b", 30), ("c", 20), ("d", 5))
    }
    prices = {"a": price("a", 1), "b": price("b", 4)}
    found = renting.offers(rates, [3600.0], prices)
    assert [one.machine for one in found] == ["a", "b", "c", "d"]
    assert found[0].cost is not None
    assert found[0].cost.value == pytest.approx(0.1)
    assert [one.machine for one in renting.offers(rates, [3600.0], {})] == ["b", "c", "a", "d"]
    assert [one.machine for one in renting.offers(rates, None, prices)] == ["b", "c", "a", "d"]


def test_a_folder_holds_cards_and_bundles(tmp_path: Path) -> None:
    a_card().write(tmp_path / "card.json")
    honest(0).write(tmp_path / "bundle.json")
    cards, bundles = renting.machines(tmp_path)
    assert cards == {"bundle": honest(0).card, "card": a_card()}
    assert bundles == [honest(0)]
    with pytest.raises(UserError, match="no such folder"):
        renting.machines(tmp_path / "none")


@pytest.mark.parametrize(
    ("without", "named"), [(("interpreter",), "interpreter"), (("copy.", "latency."), "copy, latency")]
)
def test_a_card_from_which_nothing_follows_is_refused(
    tmp_path: Path, without: tuple[str, ...], named: str
) -> None:
    left = tuple(one for one in a_card().figures if not one.name.startswith(without))
    a_card().model_copy(update={"figures": left}).write(tmp_path / "card.json")
    with pytest.raises(UserError, match=f"card.json: figures: found no value of {named}; allowed: a card"):
        renting.machine(tmp_path / "card.json")
