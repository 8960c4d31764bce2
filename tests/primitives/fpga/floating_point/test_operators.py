"""Every float32 operator in its RTL against its golden model, bit for bit, and the models against float64."""

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.floating_point import arithmetic, functions, golden, logic
from placerl.primitives.fpga.floating_point.convert import FromFixed, Scale, ToFixed
from placerl.primitives.fpga.floating_point.operators import OPERATORS
from placerl.primitives.quantization import Q
from tests.primitives.fpga.floating_point.operator_runs import (
    awkward_words,
    exponents,
    run,
    with_exponents,
)

CASES = 250
TRUTH_VALUES = {"logical_not", "logical_and", "logical_or", "from_bool"}


def operands_of(name: str, count: int) -> list[np.ndarray]:
    """Words for an operator: numbers where it is defined, truth values where it takes them."""
    rng = np.random.default_rng(7)
    if name in TRUTH_VALUES:
        return [rng.integers(0, 2, CASES).astype(np.uint32) for _ in range(count)]
    words = [awkward_words(rng, CASES) for _ in range(count)]
    if count > 1:
        words[1][:20] = words[0][:20]  # equal
        words[1][20:40] = words[0][20:40] ^ np.uint32(1 << 31)  # cancel
        words[1][40:60] = words[0][40:60] ^ np.uint32(1)  # nearly equal
        near = rng.integers(-30, 31, 60)  # a sum in which both matter
        words[1][60:120] = with_exponents(words[1][60:120], exponents(words[0][60:120]) + near)
        # Products and quotients at both ends of the range: of exponents that differ by 1 at most.
        for row, sign, shift in ((120, -1, 127), (140, -1, 127 + 254), (160, 1, 127), (180, 1, -128)):
            wanted = sign * exponents(words[0][row : row + 20]) + shift + rng.integers(-1, 2, 20)
            words[1][row : row + 20] = with_exponents(words[1][row : row + 20], wanted)
    if name == "where":
        words[0] &= np.uint32(1)
    if name == "div":
        words[1] = np.where((words[1] >> 23 & 255) == 0, np.uint32(0x3F800000), words[1])
    if name == "log":
        words[0] &= np.uint32(0x7FFFFFFF)
    return words


@pytest.mark.parametrize("name", OPERATORS)
def test_the_hardware_gives_the_golden_models_bits(name: str) -> None:
    operator = OPERATORS[name].make()
    assert operator.latency == OPERATORS[name].latency
    words = operands_of(name, len(operator.operands.as_value()) // 32)
    values = [word.view(np.float32) for word in words]
    if name in TRUTH_VALUES:
        values = [word.astype(bool) for word in words]
    elif name == "from_integer":
        values = [word.view(np.int32) for word in words]
    elif name == "where":
        values[0] = words[0].astype(bool)
    expected = OPERATORS[name].golden(*values)
    expected_words = expected.view(np.uint32) if expected.dtype == np.float32 else expected.astype(np.uint32)
    np.testing.assert_array_equal(run(operator, words), expected_words)


@pytest.mark.parametrize(("bits", "fraction_bits"), [(32, 16), (32, 23), (16, 12), (24, 20)])
def test_conversion_to_fixed_point_is_that_of_the_format(bits: int, fraction_bits: int) -> None:
    rng = np.random.default_rng(8)
    ties = (np.arange(-40, 40) / 2 * 2.0**-fraction_bits).astype(np.float32)
    near = (rng.standard_normal(100) * 2.0 ** (bits - fraction_bits - 1)).astype(np.float32)
    words = np.concatenate([awkward_words(rng, CASES), ties.view(np.uint32), near.view(np.uint32)])
    found = run(ToFixed(bits=bits, fraction_bits=fraction_bits), [words])
    np.testing.assert_array_equal(found, Q(bits, fraction_bits).from_float(words.view(np.float32)).raw)


@pytest.mark.parametrize("latency", [2, 3])
@pytest.mark.parametrize(("bits", "fraction_bits"), [(64, 0), (64, 40), (35, 26), (20, 3)])
def test_conversion_from_fixed_point_rounds_once(bits: int, fraction_bits: int, latency: int) -> None:
    rng = np.random.default_rng(9)
    whole = rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), CASES) >> rng.integers(0, bits, CASES)
    whole[:4] = (0, -1, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    found = run(FromFixed(bits=bits, fraction_bits=fraction_bits, latency=latency), [whole])
    np.testing.assert_array_equal(found, golden.from_fixed(whole, fraction_bits).view(np.uint32))


def test_a_conversion_of_another_latency_is_refused() -> None:
    with pytest.raises(ValueError, match="latency: found 4; allowed: 2, 3"):
        FromFixed(bits=16, fraction_bits=8, latency=4)


def test_scaling_by_powers_of_two() -> None:
    rng = np.random.default_rng(10)
    words, places = awkward_words(rng, CASES), rng.integers(-200, 200, CASES)
    expected = [golden.scaled(w, p) for w, p in zip(words.view(np.float32), places.tolist(), strict=True)]
    found = run(Scale(), [words, places & 1023])
    np.testing.assert_array_equal(found, np.array(expected, np.float32).view(np.uint32))


@pytest.mark.parametrize(
    ("model", "exact"),
    [
        (golden.add, np.add),
        (golden.subtract, np.subtract),
        (golden.multiply, np.multiply),
        (golden.divide, np.divide),
    ],
)
def test_arithmetic_is_numpys_where_nothing_is_subnormal(model: Callable, exact: Callable) -> None:
    rng = np.random.default_rng(11)
    a, b = rng.standard_normal((2, 10_000)).astype(np.float32)
    np.testing.assert_array_equal(model(a, b), exact(a, b))


def test_functions_are_as_accurate_as_they_say() -> None:
    rng = np.random.default_rng(12)

    def error(model: Callable, exact: Callable, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = x.astype(np.float32)
        expected = exact(x.astype(np.float64))
        return np.abs(model(x) - expected), np.abs(expected)

    x = rng.uniform(-80, 80, 20_000)
    distance, size = error(functions.exponential, np.exp, x)
    assert (distance <= size * (2e-7 + 1.2e-7 * np.abs(x))).all()
    distance, size = error(functions.logarithm, np.log, np.exp(rng.uniform(-20, 20, 20_000)))
    assert (distance <= 2e-7 * size + 5e-8).all()
    for name, exact, low in (("tanh", np.tanh, -1), ("expm1", np.expm1, -1), ("log1p", np.log1p, -0.5)):
        for size_of_x in (1, 1e-4):
            near = rng.uniform(low, 1, 20_000) * size_of_x
            distance, size = error(lambda v, name=name: functions.near_zero(name, v), exact, near)
            assert (distance <= 4e-7 * size).all(), name


def test_logic_operators_take_one_cycle_and_the_others_more() -> None:
    assert {OPERATORS[name].latency for name in logic.RULES} == {1}
    assert arithmetic.Add.latency > 1
