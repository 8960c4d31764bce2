"""Fixed-point training (FIX): formats, exact integer arithmetic, quantisation-aware training."""

from primitives.quantization.affine import Affine
from primitives.quantization.aware_training import FixedPointLearner, backends, create
from primitives.quantization.fixed_point import Q, Stored
from primitives.quantization.precision import Precision, dynamic, fixed_16, fixed_32, quarl

__all__ = [
    "Affine",
    "FixedPointLearner",
    "Precision",
    "Q",
    "Stored",
    "backends",
    "create",
    "dynamic",
    "fixed_16",
    "fixed_32",
    "quarl",
]
