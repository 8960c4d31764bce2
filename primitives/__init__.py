"""The building blocks of deep reinforcement learning (sum trees, replay buffers, learners, environments), each with
several backends. It works without `placerl.harness`, which measures and trains.
"""

from placerl.primitives.interrupts import whole_imports

with whole_imports():
    import numpy  # noqa: F401 - everything here needs it, and an interrupted import of it would look like a missing one
