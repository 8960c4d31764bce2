"""Predictions follow what bounds a piece, and their intervals say how much is known."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from placerl.harness.machines.bundle import Bundle, RunRow, bundle
from placerl.harness.machines.card import Card
from placerl.harness.machines.predicting import BOUNDS, Predictor, kind_of, leave_one_out, slowness
from tests.harness.machines.example_cards import a_card
from tests.harness.machines.honest_bundles import committed

PIECES = {"learner.step": "arithmetic", "sum_tree.sample": "latency", "environment.step": "interpreter"}
"""Pieces of the invented machines, each with what alone bounds it."""


@cache
def pieces() -> tuple[RunRow, ...]:
    """Return the committed rows that the invented machines have."""
    chosen = [row for row in committed() if row.target in ("native", "cpu") and row.primitive in PIECES]
    return bundle(a_card(), chosen).rows


def invented(seed: int, noise: float = 0.0) -> Bundle:
    """Return a machine whose figures are drawn, and on which one figure alone bounds each piece."""
    rng = np.random.default_rng(seed)
    names = (
        "multiply_add_float32",
        "latency_4MiB",
        "latency_256KiB",
        "latency_32MiB",
        "interpreter",
        "call_native",
    )
    card = a_card(**{name: float(rng.lognormal(0, 0.4)) for name in names})
    rows = []
    for row in pieces():
        (times,) = np.exp(slowness(card, row)[[BOUNDS.index(PIECES[row.primitive])]]).tolist()
        rows.append(moved(row, times * 1e3 / row.time_s * float(rng.lognormal(0, noise))))
    return Bundle(format=Bundle.FORMAT, card=card, rows=tuple(rows)).sealed()


def moved(row: RunRow, factor: float) -> RunRow:
    return row.model_copy(update={"time_s": row.time_s * factor, "low_s": None, "high_s": None})


def test_what_bounds_a_piece_is_learnt_from_other_machines() -> None:
    there = invented(100)
    measured = {row.key: row.time_s for row in there.rows}
    predicted = Predictor([invented(seed) for seed in range(8)]).predictions(there.card)
    assert len(predicted) == len(measured)
    for one in predicted:
        assert max(one.bounds, key=one.bounds.__getitem__) == PIECES[one.row.primitive]
        assert one.time_s == pytest.approx(measured[one.row.key], rel=0.1)
        assert sum(one.bounds.values()) == pytest.approx(1)


def test_the_same_machine_is_predicted_as_it_is() -> None:
    known = invented(0)
    for one in Predictor([known]).predictions(known.card):
        assert one.time_s == pytest.approx(one.row.time_s)
        assert one.low_s < one.time_s < one.high_s


def test_intervals_are_wider_where_fewer_machines_are_known() -> None:
    card = invented(100).card

    def width(count: int) -> float:
        known = [invented(seed) for seed in range(count)]
        return float(np.median([one.high_s / one.low_s for one in Predictor(known).predictions(card)]))

    assert width(1) > width(4) > width(8) > 1


def test_intervals_cover_machines_that_were_left_out() -> None:
    found = leave_one_out([invented(seed, noise=0.05) for seed in range(10)])
    assert len(found) == 10 * len(invented(0).rows)
    assert np.mean([one.covered for one in found]) > 0.9
    assert np.median([abs(one.error) for one in found]) < 0.1


def test_a_piece_without_another_machine_is_not_judged() -> None:
    alone = invented(0).rows[0]
    first, second = invented(0), invented(1)
    less = second.model_copy(update={"rows": tuple(row for row in second.rows if row.key != alone.key)})
    assert alone.key not in {one.predicted.row.key for one in leave_one_out([first, less])}


def test_a_figure_that_a_card_lacks_is_replaced_by_the_interpreters() -> None:
    row = next(row for row in bundle(a_card(), committed()).rows if row.primitive == "environment.step")
    fewer = tuple(one for one in a_card().figures if not one.name.startswith("environment."))
    card: Card = a_card().model_copy(update={"figures": fewer})
    found = dict(zip(BOUNDS, slowness(card, row), strict=True))
    assert found["environment"] == found["interpreter"]


def test_kinds_are_operations_on_a_backend() -> None:
    row = next(row for row in committed() if row.primitive == "cold_round.sample" and row.target == "native")
    (packed,) = bundle(a_card(), [row]).rows
    assert kind_of(packed) == ("sample", "native")
    (streams,) = bundle(a_card(), [replace(row, primitive="learner.step in 2 streams")]).rows
    assert kind_of(streams) == ("step", "native")
