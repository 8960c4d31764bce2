"""A performance model of the runtime's loop, composed from its measured pieces, including the runtime's own time.

`PrimitiveSum` adds up the papers' primitives, each profiled alone. This model instead uses the calls (its pieces)
that one thread makes in a round: an actor's collection with its inference, the insertion of a round's transitions,
then either whole gradient steps in one fused call, or sampling with gathering, the learner's step and the priority
update. The rest is the runtime's own time, profiled with parts that do nothing. The pieces are scheduled in the
order in which the runtime calls them (`harness.mapping.scheduled_round`). On the host alone their times are added;
simulated devices, and actors in a process of their own, run in parallel.

The files, each with the part of the model that it describes:

- `lookup`: where the times of a mapping's parts are found in the table.
- `pieces`: the table of the measured pieces, and the calls that a round of each loop is made of.
- `displaced_caches`: how parts slow each other down by displacing each other's data from the caches.
- `simulated_devices`: what a part on a simulated device changes in a round.
- `busy_cores`: how cores that work in parallel slow each other down, and what they can do at most.
- `model`: the throughput that follows.
- `candidates`: the mappings that can be predicted.
"""

from placerl.harness.loop.schedule import Loop
from placerl.harness.mapping.exhaustive import Exhaustive
from placerl.harness.mapping.strategies.composed_loop.candidates import (
    composed_candidates,
    concurrent_candidates,
    resident_candidates,
)
from placerl.harness.mapping.strategies.composed_loop.model import NAMES, ComposedLoop

__all__ = [
    "NAMES",
    "ONLY_VALIDATED",
    "STRATEGIES",
    "TIMED_WHERE_THEY_RUN",
    "ComposedLoop",
    "composed_candidates",
]


def _strategy(loop: Loop) -> Exhaustive:
    model = ComposedLoop(loop)
    return Exhaustive(model.name, model, composed_candidates)


_CONCURRENT, _RESIDENT = ComposedLoop(Loop.CONCURRENT), ComposedLoop(Loop.RESIDENT)
STRATEGIES = (
    _strategy(Loop.FUSED),
    Exhaustive(_CONCURRENT.name, _CONCURRENT, concurrent_candidates),
    Exhaustive(_RESIDENT.name, _RESIDENT, resident_candidates),
)
TIMED_WHERE_THEY_RUN = {_CONCURRENT.name: "concurrent_round.", _RESIDENT.name: "resident_round."}
"""Strategies of loops that cannot run everywhere, with what the names of their pieces begin with."""
ONLY_VALIDATED = tuple(map(_strategy, (Loop.STRICT, Loop.OVERLAPPED, Loop.RELAXED)))
