"""Replay buffers: data storage, uniform and prioritised sampling behind one interface.

    storage = Storage(100_000, transition_fields(FieldSpec((4,), np.float32), FieldSpec((), np.int64)))
    replay = PrioritizedReplay(storage, sum_tree.create(100_000), beta=LinearSchedule(0.4, 1.0, 50_000))
    replay.insert(batch)
    sample = replay.sample(256, rng)
    replay.update_priorities(sample.indices, td_errors)

`ConcurrentReplay(storage)` has the same interface, serves any number of threads, and is the fastest: it draws,
gathers and computes weights in one native call. `UniformReplay(storage)` has no priorities. `NStepReturns` makes
n-step transitions before they are inserted. `save` and `load` write a replay to disk and read it back.
`primitives.replay.adapters` connects it to other libraries.
"""

from placerl.primitives.replay.base import Replay, Sample
from placerl.primitives.replay.concurrent import ConcurrentReplay
from placerl.primitives.replay.n_step import NStepReturns
from placerl.primitives.replay.prioritized import PrioritizedReplay, importance_weights
from placerl.primitives.replay.schedule import LinearSchedule, Schedule
from placerl.primitives.replay.storage import FieldSpec, Storage, transition_fields
from placerl.primitives.replay.uniform import UniformReplay

__all__ = [
    "ConcurrentReplay",
    "FieldSpec",
    "LinearSchedule",
    "NStepReturns",
    "PrioritizedReplay",
    "Replay",
    "Sample",
    "Schedule",
    "Storage",
    "UniformReplay",
    "importance_weights",
    "transition_fields",
]
