import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.vector.random_generator import GENERATORS, GaussianGenerator, Xorshift, seeds
from tests.primitives.fpga.interpreter import interpreted
from tests.primitives.fpga.vector.golden import exploration_program, gaussian_golden, xorshift_golden


def test_words_are_marsaglias() -> None:
    # The first outputs of the published generator from its published start.
    start = (123456789, 362436069, 521288629, 88675123)
    assert xorshift_golden(start, 3) == [3701687786, 458299110, 2500872618]


@pytest.mark.parametrize("ready", [[True], [True, False, False, True]])
def test_numbers_are_the_golden_models_whenever_they_are_taken(ready: list[bool]) -> None:
    states, count = seeds(1, GENERATORS), 30
    run = interpreted(GaussianGenerator(states)).run({}, {"numbers": count}, ready={"numbers": ready})
    np.testing.assert_array_equal(run.outputs["numbers"], gaussian_golden(states, count).view(np.uint32))


def test_numbers_have_the_moments_of_a_normal_distribution() -> None:
    # The seed is fixed: five standard errors leave room for nothing but a fault.
    numbers = gaussian_golden(seeds(2, GENERATORS), 20_000).astype(np.float64)
    assert abs(numbers.mean()) < 5 / np.sqrt(20_000)
    assert abs(numbers.var() - 1) < 5 * np.sqrt(2 / 20_000)
    assert abs((numbers**4).mean() - 2.9) < 5 * np.sqrt(96 / 20_000)
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 5 / np.sqrt(20_000)


def test_disturbed_actions_stay_in_range() -> None:
    action = np.array([-0.99, 0.0, 0.5, 0.99], np.float32)
    noise = np.array([-3, 1, 0, 2], np.float32)
    (found,) = exploration_program(0.1).golden([action, noise])
    np.testing.assert_allclose(found, [-1, 0.1, 0.5, 1], rtol=1e-6)


def test_a_generator_of_zeros_is_refused() -> None:
    with pytest.raises(ValueError, match="state: found zeros"):
        Xorshift((0, 0, 0, 0))
