"""The vector unit's own functions: accurate, and the same bits in NumPy and PyTorch. (C++ is in test_conformance.)"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from placerl.primitives.quantization.vector_unit import NUMPY, OPERATIONS, TORCH

NUMBERS = st.lists(st.floats(-600, 600, allow_subnormal=False), min_size=1, max_size=40)
UNARY = ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "sqrt", "rsqrt", "reciprocal", "sign", "floor", "ceil",
         "round", "neg", "abs")  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", UNARY)
@given(values=NUMBERS)
def test_numpy_and_torch_agree_to_the_last_bit(name: str, values: list[float]) -> None:
    array = np.array(values)
    np.testing.assert_array_equal(
        TORCH.functions[name](torch.from_numpy(array)).numpy(), NUMPY.functions[name](array)
    )


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("exp", -700, 700), ("expm1", 1e-3, 50), ("log", 1e-300, 1e300), ("log1p", 1e-3, 1e6), ("tanh", 1e-3, 30),
     ("sigmoid", -30, 30)],
)  # fmt: skip
def test_functions_are_accurate_far_beyond_32_bits(name: str, low: float, high: float) -> None:
    values = np.random.default_rng(1).uniform(low, high, 2000)
    expected = {
        "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "tanh": np.tanh,
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    }[name](values)  # fmt: skip
    np.testing.assert_allclose(NUMPY.functions[name](values), expected, rtol=1e-11)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_ends_of_functions_are_what_they_should_be() -> None:
    log = NUMPY.functions["log"](np.array([0.0, -1.0, 1.0]))
    assert log[0] == -np.inf
    assert np.isnan(log[1])
    assert log[2] == 0
    assert NUMPY.functions["exp"](np.array([0.0]))[0] == 1
    assert NUMPY.functions["tanh"](np.array([0.0, -400.0, 400.0])).tolist() == [0.0, -1.0, 1.0]


def test_operations_are_all_there() -> None:
    assert {*OPERATIONS} - {"constant", "copy"} == {*NUMPY.functions}
