"""A card's rates are composed as those of a machine that is here, from measured times or from predicted ones."""

from dataclasses import replace
from functools import cache

import pytest

from placerl.harness import workloads
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.machines.bundle import Bundle, bundle
from placerl.harness.machines.card import Card
from placerl.harness.machines.rates import Times, rates
from placerl.harness.mapping import DEFAULT_STRATEGY
from placerl.harness.store import reference
from placerl.harness.store.rows import PieceTime, PredictedRate
from tests.harness.machines.example_cards import FIGURES, a_card

NAME, SIZE = "cartpole-dqn", 32


@cache
def committed_run() -> tuple[Bundle, dict[str, float]]:
    """Return a bundle of the committed quick run, and the rates that it predicts by mapping."""
    loaded = reference.load(kept=lambda table: (table["workload"] == NAME) & (table["batch_size"] == SIZE))
    (quick,) = (one for one in loaded if one.name == "quick")
    rows = quick.measurements
    timed = [row for row in rows if isinstance(row, PieceTime) and row.suite == Suite.PROFILE]
    predicted = [row for row in rows if isinstance(row, PredictedRate) and row.suite == Suite.PREDICTION]
    return bundle(a_card(), timed), {
        row.mapping: row.value for row in predicted if row.strategy == DEFAULT_STRATEGY and row.value
    }


def slower(factor: float) -> Card:
    """Return a card whose machine takes `factor` times as long for everything."""
    change = {unit: factor if unit == "s" else 1 / factor for _, unit in FIGURES.values()}
    return a_card(**{name.replace(".", "_"): change[unit] for name, (_, unit) in FIGURES.items()})


def rated(card: Card) -> list[PredictedRate]:
    return [*rates(workloads.load(NAME), SIZE, card, Times([committed_run()[0]]).on(card, NAME, SIZE))]


def test_a_machine_whose_times_are_known_has_the_rates_of_its_run() -> None:
    found = rated(a_card())
    assert {row.mapping: row.value for row in found} == pytest.approx(committed_run()[1])
    assert {row.inputs for row in found} == {Provenance.MEASURED}
    (chosen,) = (row for row in found if row.chosen)
    assert chosen.value == max(row.value or 0 for row in found)


def test_a_machine_of_which_a_card_is_known_is_slower_as_its_card_says() -> None:
    here, there = (next(row for row in rated(card) if row.chosen) for card in (a_card(), slower(2)))
    assert (there.mapping, there.inputs) == (here.mapping, Provenance.MODELLED)
    assert there.value == pytest.approx((here.value or 0) / 2, rel=0.01)
    assert (there.low or 0) < (there.value or 0) / 1.2
    assert (there.high or 0) > (there.value or 0) * 1.2


def test_a_quota_below_a_core_takes_its_share_of_the_rate() -> None:
    card = slower(2)
    half = card.model_copy(update={"facts": card.facts.model_copy(update={"quota_cores": 0.5})})
    whole, held_back = ({row.mapping: row.value for row in rated(one)} for one in (card, half))
    assert held_back == pytest.approx({mapping: (value or 0) / 2 for mapping, value in whole.items()})


def test_times_that_do_not_suffice_say_what_is_missing() -> None:
    some = [
        replace(row, primitive="actor.infer") for row in Times([committed_run()[0]]).on(a_card(), NAME, SIZE)
    ]
    (row,) = rates(workloads.load(NAME), SIZE, a_card(), some)
    assert row.value is None
    assert "needs" in row.reason
