"""Learners of gradient steps on every backend: what `placerl.primitives.learner` offers."""

from placerl.primitives.learner import *  # noqa: F403
from placerl.primitives.learner import __all__ as __all__
