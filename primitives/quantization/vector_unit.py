"""Run element-wise programs on fixed-point numbers (the vector unit), with equal bits in NumPy, PyTorch and C++.

A program reads the exact values of its operands, computes in binary64, and rounds once, when a result is stored
in its format. It uses only those operations of binary64 that IEEE 754 defines exactly (+ - x / and the root,
comparisons, integer parts, no fused multiply-add). Functions that libraries compute differently are composed of
these operations here. A product of two 32-bit numbers inside a program, such as g g for Adam's second moment,
therefore has 53 bits, by design, while stored numbers have at most 32. Matrix products do not use the vector
unit: they are exact (`fixed_point`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from placerl.primitives.graph.graph import Instruction

# exp: x = k ln 2 + r. The last 21 bits of the high part are clear, so that its product with k is exact.
LOG2_E = 1.4426950408889634
LN2_HIGH = 0.6931471803691238
LN2_LOW = 1.9082149292705877e-10
EXP_LIMIT = 700.0  # far above every format, while its exponential is still finite
EXP_TERMS = 13
LOG_TERMS = 10
SQUARE_ROOT_2 = 1.4142135623730951
FACTORIALS = (1.0, 1.0, 2.0, 6.0, 24.0, 120.0, 720.0, 5040.0, 40320.0, 362880.0, 3628800.0, 39916800.0,
              479001600.0, 6227020800.0)  # fmt: skip
OPERATIONS = (
    *(
        "constant",
        "copy",
        "neg",
        "abs",
        "sign",
        "exp",
        "expm1",
        "log",
        "log1p",
        "sqrt",
        "rsqrt",
        "reciprocal",
    ),
    *("tanh", "sigmoid", "floor", "ceil", "round", "logical_not", "add", "sub", "mul", "div", "maximum"),
    *("minimum", "lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or", "where"),
)


class VectorUnit:
    """The operations of element-wise programs, on the arrays of NumPy or PyTorch.

    Args:
        library: `numpy` or `torch`.
    """

    def __init__(self, library: Any) -> None:
        self.library = library
        plain = {
            "neg": lambda x: -x,
            "abs": library.abs,
            "sign": library.sign,
            "sqrt": self.sqrt,
            "rsqrt": lambda x: 1.0 / self.sqrt(x),
            "reciprocal": lambda x: 1.0 / x,
            "floor": library.floor,
            "ceil": library.ceil,
            "round": library.round,
            "logical_not": library.logical_not,
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul": lambda a, b: a * b,
            "div": lambda a, b: a / b,
            "maximum": library.maximum,
            "minimum": library.minimum,
            "lt": lambda a, b: a < b,
            "le": lambda a, b: a <= b,
            "gt": lambda a, b: a > b,
            "ge": lambda a, b: a >= b,
            "eq": lambda a, b: a == b,
            "ne": lambda a, b: a != b,
            "logical_and": library.logical_and,
            "logical_or": library.logical_or,
            "where": library.where,
        }
        functions = {
            "exp": self.exp,
            "expm1": lambda x: self.exp(x) - 1.0,
            "log": self.log,
            "log1p": lambda x: self.log(1.0 + x),
            "tanh": self.tanh,
            "sigmoid": lambda x: 1.0 / (1.0 + self.exp(-x)),
        }
        self.functions: dict[str, Callable[..., Any]] = plain | functions

    def sqrt(self, x: Any) -> Any:
        """Return the correctly rounded square root.

        On a CPU NumPy computes it: PyTorch's own (MKL) is an ulp off for one number in a hundred.
        """
        if self.library is np or x.device.type != "cpu":
            return self.library.sqrt(x)
        return torch.from_numpy(np.sqrt(x.numpy(), out=np.empty(tuple(x.shape))))

    def exp(self, x: Any) -> Any:
        """Return e^x to about an ulp.

        For x = k ln 2 + r, with an integer k and |r| <= ln(2) / 2, it is 2^k times a Taylor polynomial of e^r.
        """
        library = self.library
        x = library.clip(x, -EXP_LIMIT, EXP_LIMIT)
        k = library.floor(x * LOG2_E + 0.5)
        r = (x - k * LN2_HIGH) - k * LN2_LOW
        total = r * 0.0 + 1.0 / FACTORIALS[EXP_TERMS]
        for n in reversed(range(EXP_TERMS)):
            total = total * r + 1.0 / FACTORIALS[n]
        return total * self._from_bits((self._whole(k) + 1023) << 52)

    def log(self, x: Any) -> Any:
        """Return ln x to about an ulp; -inf at 0, NaN below.

        For x = m 2^e it is e ln 2 + 2 artanh((m - 1) / (m + 1)).
        """
        library = self.library
        bits = self._bits(x)
        mantissa = self._from_bits((bits & ((1 << 52) - 1)) | (1023 << 52))
        exponent = ((bits >> 52) & 2047) - 1023
        large = mantissa > SQUARE_ROOT_2
        mantissa = library.where(large, mantissa * 0.5, mantissa)
        e = self._float(exponent) + self._float(large)
        s = (mantissa - 1.0) / (mantissa + 1.0)
        z = s * s
        total = z * 0.0 + 1.0 / (2 * LOG_TERMS + 1)
        for n in reversed(range(LOG_TERMS)):
            total = total * z + 1.0 / (2 * n + 1)
        value = e * LN2_HIGH + (2.0 * s * total + e * LN2_LOW)
        value = library.where(x > 0, value, x * 0.0 + float("nan"))
        return library.where(x == 0, x * 0.0 - float("inf"), value)

    def tanh(self, x: Any) -> Any:
        """Return tanh x, computed as sign(x) (1 - 2 / (e^(2 |x|) + 1)), so that it is odd."""
        size = 1.0 - 2.0 / (self.exp(2.0 * self.library.abs(x)) + 1.0)
        return self.library.where(x < 0, -size, size)

    def apply(self, instruction: Instruction, arguments: list[Any]) -> Any:
        """Return the result of one instruction of an element-wise program.

        Floats are computed in binary64, whatever dtype the instruction states.
        """
        floats = instruction.dtype.startswith("float")
        dtype: Any = getattr(self.library, "float64" if floats else instruction.dtype)
        if instruction.op == "constant":
            return self._constant(instruction.value, dtype, arguments)
        if instruction.op == "copy":
            return self._cast(arguments[0], dtype)
        return self._cast(self.functions[instruction.op](*arguments), dtype)

    def _constant(self, value: Any, dtype: Any, arguments: list[Any]) -> Any:
        return np.asarray(value, dtype) if self.library is np else torch.tensor(value, dtype=dtype)

    def _cast(self, x: Any, dtype: Any) -> Any:
        return x.astype(dtype, copy=False) if self.library is np else x.to(dtype)

    def _whole(self, x: Any) -> Any:
        return self._cast(x, self.library.int64)

    def _float(self, x: Any) -> Any:
        return self._cast(x, self.library.float64)

    def _bits(self, x: Any) -> Any:
        if self.library is np:
            return np.ascontiguousarray(x).view(np.int64).reshape(np.shape(x))
        return x.contiguous().view(torch.int64)

    def _from_bits(self, bits: Any) -> Any:
        if self.library is np:
            return np.ascontiguousarray(bits).view(np.float64).reshape(np.shape(bits))
        return bits.contiguous().view(torch.float64)


NUMPY = VectorUnit(np)
TORCH = VectorUnit(torch)
