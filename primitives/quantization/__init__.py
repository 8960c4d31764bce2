"""Fixed-point training (FIX): formats, exact integer arithmetic, quantisation-aware training."""

from primitives.quantization.affine import Affine
from primitives.quantization.fixed_point import Q, Stored

__all__ = ["Affine", "Q", "Stored"]
