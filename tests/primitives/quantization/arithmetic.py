"""Arithmetic on raw values of fixed-point formats, each result rounded or saturated once."""

from placerl.primitives.quantization.fixed_point import (
    Array,
    Q,
    Stored,
    exact_add,
    exact_matmul,
    exact_multiply,
)


def add(a: Array, b: Array, fmt: Q) -> Stored:
    """Add raw values of one format element by element; sums beyond the format saturate.

    Args:
        a, b: raw values, shapes that broadcast.
        fmt: the format of `a`, `b` and the sums.
    """
    return fmt.store(exact_add(a, b))


def multiply(a: Array, a_format: Q, b: Array, b_format: Q, out: Q) -> Stored:
    """Multiply raw values element by element; each exact product is rounded once to the result's format.

    Args:
        a, b: raw values, shapes that broadcast.
        a_format, b_format: the formats of `a` and of `b`.
        out: the format of the products.
    """
    return out.rescale(exact_multiply(a, b), a_format.fraction_bits + b_format.fraction_bits)


def matmul(a: Array, a_format: Q, b: Array, b_format: Q, out: Q) -> Stored:
    """Multiply matrices of raw values; each exact sum of products is rounded once to the result's format.

    Args:
        a, b: raw values, (.., M, K) and (.., K, N).
        a_format, b_format: the formats of `a` and of `b`.
        out: the format of the result.
    """
    return out.rescale(exact_matmul(a, b), a_format.fraction_bits + b_format.fraction_bits)
