"""Two compute units in time: alone, and sharing a network."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cycles import load_balancing, networks
from placerl.primitives.fpga.pair.load_balancing import UnitPair
from placerl.primitives.fpga.pair.simulation import SimulatedPair
from tests.primitives.fpga.interpreter import interpreted

SIDE = 3
SIZES = st.lists(st.integers(1, 7), min_size=2, max_size=4)


@cache
def pair() -> SimulatedPair:
    return SimulatedPair(interpreted(UnitPair(side=SIDE)), side=SIDE)


@settings(max_examples=5, deadline=None)
@given(sizes=SIZES, batch=st.integers(1, 9))
def test_an_update_takes_as_long_as_its_products_and_its_rows(sizes: list[int], batch: int) -> None:
    layers = networks.mlp(*sizes)
    wanted = load_balancing.pair_update_cycles(layers, batch, side=SIDE)
    alone, shared = pair().update(layers, batch), pair().update(layers, batch, shared=True)
    assert pair().cycles(alone, []) == wanted
    assert pair().cycles(shared, shared) == wanted
    # One unit waits for the other at the first gradient.
    assert pair().cycles(alone + shared, shared) == 2 * wanted


@settings(max_examples=4, deadline=None)
@given(
    sizes=SIZES, policy_updates=st.integers(0, 3), value_updates=st.integers(1, 4), batch=st.integers(2, 9)
)
def test_training_in_time(sizes: list[int], policy_updates: int, value_updates: int, batch: int) -> None:
    policy, value = networks.mlp(*sizes), networks.mlp(*sizes[:-1], 1)
    for balanced in (False, True):
        arguments = {
            "policy_updates": policy_updates,
            "value_updates": value_updates,
            "minibatch": batch,
            "balanced": balanced,
        }
        wanted = load_balancing.training_cycles(policy, value, side=SIDE, pair=True, **arguments)
        assert pair().training_cycles(policy, value, **arguments) == wanted


def test_the_schedule_shares_what_is_left() -> None:
    assert load_balancing.schedule((10, 10), (3, 10)) == load_balancing.UpdateDivision((3, 3), 1, 7)
    assert load_balancing.schedule((10, 7), (3, 10)) == load_balancing.UpdateDivision((3, 5), 1, 5)
    assert load_balancing.schedule((10, 7), (9, 1)) == load_balancing.UpdateDivision((1, 1), 0, 8)
    assert load_balancing.schedule((10, 10), (4, 4)).shared == 0
