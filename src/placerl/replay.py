"""Replay buffers, prioritised and uniform: what `placerl.primitives.replay` offers."""

from placerl.primitives.replay import *  # noqa: F403
from placerl.primitives.replay import __all__ as __all__
