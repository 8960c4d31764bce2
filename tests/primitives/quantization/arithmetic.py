"""Arithmetic on raw values of fixed-point formats, each result rounded or saturated once."""

import numpy as np

from placerl.primitives.quantization.fixed_point import Array, Q, Stored, exact_matmul


def add(a: Array, b: Array, fmt: Q) -> Stored:
    """Add raw values of one format element by element; sums beyond the format saturate.

    Args:
        a, b: raw values, shapes that broadcast.
        fmt: the format of `a`, `b` and the sums.
    """
    return fmt.store(np.add(a.astype(np.int64), b.astype(np.int64)))


def multiply(a: Array, a_format: Q, b: Array, b_format: Q, out: Q) -> Stored:
    """Multiply raw values element by element; each exact product is rounded once to the result's format.

    Args:
        a, b: raw values, shapes that broadcast.
        a_format, b_format: the formats of `a` and of `b`.
        out: the format of the products.
    """
    product = np.multiply(a.astype(object), b.astype(object))  # Python's integers, which have no limit
    return out.rescale(product, a_format.fraction_bits + b_format.fraction_bits)


def matmul(a: Array, a_format: Q, b: Array, b_format: Q, out: Q) -> Stored:
    """Multiply matrices of raw values; each exact sum of products is rounded once to the result's format.

    Args:
        a, b: raw values, (.., M, K) and (.., K, N).
        a_format, b_format: the formats of `a` and of `b`.
        out: the format of the result.
    """
    return out.rescale(exact_matmul(a, b), a_format.fraction_bits + b_format.fraction_bits)
