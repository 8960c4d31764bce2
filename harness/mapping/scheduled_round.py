"""Predicts how long a round of a training loop takes: calls one after another on the host, in parallel on other units.

The loop itself (`harness.loop.training_loop`) defines the order of the calls and which call waits for which. Here it
runs under a clock that adds up given seconds (`harness.loop.given_time`). If all calls are on the host, a round takes
the sum of its calls.
"""

from dataclasses import dataclass
from functools import lru_cache

from placerl.harness.loop.given_time import NOTHING, Call, GivenTime
from placerl.harness.loop.nothing import Nothing
from placerl.harness.loop.training_loop import Shape, Traffic, TrainingLoop

_SETTLED, _COUNTED = 8, 8
"""Rounds until the schedule repeats itself, and rounds that are then averaged."""


@dataclass(frozen=True)
class ScheduledRound:
    """The calls of a round, each with the unit that makes it (the host, a device, ...) and its seconds.

    A round has some vector steps (steps of all environments together) and the gradient steps that belong to them.

    Attributes:
        act: the vector steps.
        insert: insertion of their transitions.
        write: writing them into a storage separate from the replay management; the actors overwrite their
            transitions only after it.
        sample, gather, learn, update: the calls of each gradient step.
        publish: handing the learner's weights to the actors, if that takes time.
        host_s: seconds of the loop itself and of the host's other work in a round.
        overlapped: whether a round's gradient steps begin before its vector steps have ended.
        ahead: D, batches sampled ahead.
    """

    act: Call
    insert: Call
    learn: Call
    sample: Call = NOTHING
    gather: Call = NOTHING
    write: Call = NOTHING
    update: Call = NOTHING
    gradient_steps: int = 1
    publish: Call = NOTHING
    host_s: float = 0.0
    overlapped: bool = False
    ahead: int = 0

    @property
    def period_s(self) -> float:
        """Return the seconds from one round to the next in the steady state."""
        return _period_s(self)


@lru_cache(maxsize=4096)
def _period_s(scheduled: ScheduledRound) -> float:
    """Return `ScheduledRound.period_s`. Strategies predict the same mappings again for every choice."""
    terms = ("act", "insert", "sample", "gather", "write", "update", "publish")
    clock = GivenTime({"learner": scheduled.learn} | {term: getattr(scheduled, term) for term in terms})
    shape = Shape(
        gradient_steps=scheduled.gradient_steps, overlapped=scheduled.overlapped, ahead=scheduled.ahead
    )
    loop = TrainingLoop(clock, Nothing().units, shape, Traffic(storage_apart=True))
    ends_s = []
    # The batches sampled ahead are there before the first round; what waits behind them shows later.
    settled = _SETTLED + -(-scheduled.ahead // scheduled.gradient_steps)
    for _ in range(settled + _COUNTED):
        loop.round()
        clock.wait(clock.now_s() + scheduled.host_s)
        ends_s.append(clock.now_s())
    return (ends_s[-1] - ends_s[settled - 1]) / _COUNTED
