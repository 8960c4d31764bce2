"""The building blocks of deep reinforcement learning (sum trees, replay buffers, learners, environments), each with
several backends. The package works without the package `harness`, which measures and trains.
"""

from primitives.interrupts import whole_imports

with whole_imports():
    import numpy  # noqa: F401 - everything here needs it, and an interrupted import of it would look like a missing one
