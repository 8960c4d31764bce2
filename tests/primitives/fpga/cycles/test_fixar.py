"""FIX's throughput, by its own formula."""

import pytest

from placerl.primitives.fpga.cycles import fixar


def test_fixar_is_as_fast_at_every_batch_size_and_twice_with_half_words() -> None:
    rates = [fixar.ddpg_samples_per_s(17, 6, batch) for batch in (64, 128, 256, 512)]
    assert max(rates) == min(rates)
    halved = fixar.ddpg_samples_per_s(17, 6, 512, fixar.ArrayModel(halves=True))
    assert halved == pytest.approx(2 * rates[0])
