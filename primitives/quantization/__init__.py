"""Fixed point (FIX): number formats, exact integer arithmetic, and step graphs that run in fixed point.

`primitives.learner.create` makes learners that train with them.
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
