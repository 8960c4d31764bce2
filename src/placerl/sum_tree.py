"""Sum trees on every backend: what `placerl.primitives.sum_tree` offers."""

from placerl.primitives.sum_tree import *  # noqa: F403
from placerl.primitives.sum_tree import __all__ as __all__
