"""Vectors of environments in C++: what `placerl.primitives.environments` offers."""

from placerl.primitives.environments import *  # noqa: F403
from placerl.primitives.environments import __all__ as __all__
