"""The hardware's Adam next to its golden model, and that model next to Adam in real numbers."""

import math

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.fixar import adam
from placerl.primitives.fpga.fixar.shape import MEAN_BITS, SQUARE_BITS
from tests.primitives.fpga.fixar.golden import adam_golden

WIDE = 1 << 31


def cases(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Return raw values of every size, with the largest and smallest of each format among them."""
    sizes = rng.integers(0, 32, count)
    gradients = rng.integers(-WIDE, WIDE, count) >> sizes
    means = rng.integers(-(1 << MEAN_BITS - 1), 1 << MEAN_BITS - 1, count) >> rng.integers(0, 40, count)
    squares = rng.integers(0, 1 << SQUARE_BITS, count) >> rng.integers(0, 56, count)
    gradients[:3], means[:3], squares[:3] = (-WIDE, 0, WIDE - 1), (-(1 << 39), 0, (1 << 39) - 1), (0, 0, 1)
    squares[3] = (1 << SQUARE_BITS) - 1
    return {"gradients": gradients, "means": means, "squares": squares}


@pytest.mark.parametrize(("rate", "epsilon"), [(1, 1), (338_456_789, 1), ((1 << 32) - 1, (1 << 24) - 1)])
def test_a_lane_gives_the_golden_models_moments_and_changes(rate: int, epsilon: int) -> None:
    model = simulation.compiled(adam.FixedAdamLane())
    values = cases(np.random.default_rng(rate), 200)
    zeros = np.zeros(200, np.int64)
    new, _, means, squares = adam_golden(
        **values, weights=zeros, targets=zeros, rate=rate, epsilon=epsilon, tau=0
    )
    model.write("rate", rate)
    model.write("epsilon", epsilon)
    for number in range(200 + adam.STEP_LATENCY):
        if number < 200:
            for name in values:
                model.write(name[:-1], values[name][number])
        model.step()
        if (moment := number + 1 - adam.MOMENT_LATENCY) in range(200):
            assert model.read("new_mean") == means[moment]
            assert model.read("new_square") == squares[moment]
        if (last := number + 1 - adam.STEP_LATENCY) in range(200):
            change = model.read("change")
            assert np.clip(-change, -WIDE, WIDE - 1) == new[last]


def test_the_golden_model_follows_adam_in_real_numbers() -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(-(1 << 24), 1 << 24, 50)
    real, mean, square = weights / 2**26, np.zeros(50), np.zeros(50)
    state = [weights, weights, np.zeros(50, np.int64), np.zeros(50, np.int64)]
    beta1, beta2 = 1 - adam.MEAN_GAIN / 2**16, 1 - 2.0**-10
    for step in range(1, 101):
        raw = (rng.normal(0.3, 1, 50) * 2**24 * 1e-3).astype(np.int64)
        gradient = raw / 2**24
        rate, epsilon = adam.corrections(1e-3, step)
        state = list(adam_golden(raw, *state, rate=rate, epsilon=epsilon, tau=328))
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
        real -= 1e-3 * mean / (1 - beta1**step) / (np.sqrt(square / (1 - beta2**step)) + 1e-8)
    # A hundredth of the way: a first gradient of few units has few digits in its second moment.
    way = np.abs(real - weights / 2**26).max()
    assert way > 0.02
    np.testing.assert_allclose(state[0] / 2**26, real, rtol=0, atol=way / 100)


def test_corrections_are_those_of_the_moments_bias() -> None:
    rate, epsilon = adam.corrections(1e-3, 1)
    assert rate == pytest.approx(1e-3 * math.sqrt(2.0**-10) / (6554 / 65536) * 2**40, abs=1)
    assert epsilon == 1
    assert adam.corrections(1e-4, 100_000)[0] == pytest.approx(1e-4 * 2**40, abs=1)


def test_a_rate_beyond_its_register_is_refused() -> None:
    assert adam.corrections(0.01, 1)[0] < 1 << adam.RATE_BITS
    with pytest.raises(
        ValueError, match=r"^learning_rate: found 0\.01, .* to 0\.01; allowed: .* below 0\.00390625"
    ):
        adam.corrections(0.01, 10_000)
