"""Readings of FIX's dataflow: what each takes, by hand for one layer and for the whole update."""

import pytest

from placerl.primitives.fpga.cycles.fixar_dataflows import (
    DATAFLOWS,
    FixarDataflow,
    activation_bytes,
    ddpg_cycles,
    multiply_adds_per_element,
    samples_per_s,
)

HALFCHEETAH = 17, 6
BATCHED, LITERAL, WIDE, PAIRS, HALVES = DATAFLOWS


def test_a_batch_for_each_block_is_as_fast_at_every_batch_size_and_twice_with_half_words() -> None:
    rates = [samples_per_s(BATCHED, *HALFCHEETAH, batch) for batch in (64, 128, 256, 512)]
    assert max(rates) == min(rates)
    halved = samples_per_s(FixarDataflow("", None, 16, halves=True), *HALFCHEETAH, 512)
    assert halved == pytest.approx(2 * rates[0])


def test_the_literal_reading_waits_for_its_weights() -> None:
    """Per sample 1,410 blocks of two cores, 766 of one backwards and 544 of gradients; 16 cycles load a block."""
    assert ddpg_cycles(LITERAL, *HALFCHEETAH, 1) == 1410 * 32 + (2 * 766 + 2 * 544) * 16


@pytest.mark.parametrize(
    ("flow", "rate", "share", "size"),
    [
        (BATCHED, 60_294, 0.916, 64 * 2944),
        (LITERAL, 1_884.2, 0.029, 2944),
        (WIDE, 30_147, 0.458, 2944),
        (PAIRS, 60_294, 0.916, 2 * 2944),
        (HALVES, 60_294, 0.916, 2944),
    ],
)
def test_what_each_reading_gives(flow: FixarDataflow, rate: float, share: float, size: int) -> None:
    assert samples_per_s(flow, *HALFCHEETAH, 64) == pytest.approx(rate, rel=1e-4)
    assert multiply_adds_per_element(flow, *HALFCHEETAH, 64) == pytest.approx(share, abs=5e-4)
    assert activation_bytes(flow, HALFCHEETAH[0], 64) == size


@pytest.mark.parametrize("flow", DATAFLOWS)
def test_every_reading_is_as_fast_at_every_batch_size(flow: FixarDataflow) -> None:
    rates = [samples_per_s(flow, *HALFCHEETAH, batch) for batch in (64, 128, 256, 512)]
    assert max(rates) == pytest.approx(min(rates))
