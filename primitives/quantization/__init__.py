"""Fixed point (FIX): number formats, exact integer arithmetic, and gradient steps that run in fixed point.

A gradient step is given as a step graph, a list of array operations. `primitives.learner.create` makes learners whose
gradient steps run in these formats.
"""

from placerl.primitives.quantization.affine import Affine
from placerl.primitives.quantization.fixed_point import Q, Stored
from placerl.primitives.quantization.precision import Precision, dynamic, fixed_16, fixed_32, quarl

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
