"""Fixed point (FIX): formats, exact integer arithmetic, and fixed-point step graphs; `learner.create` trains with
them.
"""

from primitives.quantization.affine import Affine
from primitives.quantization.fixed_point import Q, Stored
from primitives.quantization.precision import Precision, dynamic, fixed_16, fixed_32, quarl

__all__ = [
    "Affine",
    "Precision",
    "Q",
    "Stored",
    "dynamic",
    "fixed_16",
    "fixed_32",
    "quarl",
]
