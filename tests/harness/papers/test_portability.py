"""The harmonic mean over machines, with its interval."""

from dataclasses import replace

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers import portability
from placerl.harness.papers.number import Number


@pytest.mark.parametrize(
    ("last", "low"),
    [((100.0, 0.01), True), ((100.0, 1.0), False), (None, False)],  # 0 within an interval, and no interval
)
def test_a_harmonic_mean_has_an_interval_only_of_rates_above_0(
    last: tuple[float, float] | None, low: bool
) -> None:
    def rate(value: float, spread: float) -> Number:
        return Number(
            "rate", value, "1/s", Provenance.MEASURED, "", value * (1 - spread), value * (1 + spread)
        )

    bare = replace(rate(100.0, 0.01), low=None, high=None)
    mean = portability.harmonic_mean([rate(50.0, 0.01), bare if last is None else rate(*last)])
    assert mean.value == pytest.approx(2 / (1 / 50 + 1 / 100))
    assert (mean.low is not None, mean.high is not None) == (low, low)
    if low:
        assert (mean.low, mean.high) == pytest.approx((0.99 * mean.value, 1.01 * mean.value))
    assert portability.harmonic_mean([rate(50.0, 0.01), None]).value == 0.0
