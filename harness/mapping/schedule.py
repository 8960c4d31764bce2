"""When the calls of a training loop take place: on the host one after the other, on other units beside it.

The rules are those of the runtime's clock (`harness.runtime.clock`): a call on the host makes the host wait, for its
inputs and for its end; a call on another unit (a simulated device, actors in a process) starts when it has been made,
its inputs are there and the unit is free. On a host alone a round takes the sum of its calls.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

HOST, ACTORS, STORAGE, LINK = "host", "actors", "storage", "link"
_SETTLED, _COUNTED = 8, 8
"""Rounds until the schedule repeats itself, and rounds that are averaged."""


class Call(NamedTuple):
    """One call: which unit does it, and how many seconds it takes there."""

    unit: str
    seconds: float


NOTHING = Call(HOST, 0.0)


@dataclass(frozen=True)
class Round:
    """The calls of a round.

    Attributes:
        act: the vector steps.
        insert: of their transitions.
        write: of them into a storage apart from the replay management; the actors overwrite theirs only then.
        sample, gather, learn, update: of each gradient step.
        gradient_steps: how many of those.
        publish: of the weights, to actors that are elsewhere than the learner.
        host_s: of the loop itself, and of what else the host does in a round.
        overlapped: whether a round's gradient steps begin before its vector steps have ended.
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

    @property
    def period_s(self) -> float:
        """Seconds from one round to the next at the steady state."""
        clock = _Clock()
        for _ in range(_SETTLED):
            self._run(clock)
        settled_s = clock.now_s
        for _ in range(_COUNTED):
            self._run(clock)
        return (clock.now_s - settled_s) / _COUNTED

    def _run(self, clock: "_Clock") -> None:
        if self.overlapped:
            acted_s = clock.call(self.act)
            self._learn(clock)
            clock.wait(clock.call(self.publish, clock.learnt_s))
            clock.wait(acted_s)
            clock.call(self.insert)
            clock.wait(clock.call(self.write))
        else:
            clock.wait(clock.call(self.publish, clock.learnt_s))  # it acts on the newest weights
            clock.wait(clock.call(self.act))
            clock.call(self.insert)
            clock.wait(clock.call(self.write))
            self._learn(clock)
        clock.now_s += self.host_s

    def _learn(self, clock: "_Clock") -> None:
        for _ in range(self.gradient_steps):
            gathered_s = clock.call(self.gather, clock.call(self.sample))
            clock.learnt_s = clock.call(self.learn, gathered_s)
            clock.call(self.update, clock.learnt_s)


class _Clock:
    """Where the host is, and when every other unit is free."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.learnt_s = 0.0
        self._free_s: defaultdict[str, float] = defaultdict(float)

    def wait(self, ready_s: float) -> None:
        """Let the host go on no sooner."""
        self.now_s = max(self.now_s, ready_s)

    def call(self, call: Call, after_s: float = 0.0) -> float:
        """Do a call whose inputs are there `after_s`; when it has ended."""
        if not call.seconds:
            return after_s
        if call.unit == HOST:
            self.wait(after_s)
            self.now_s += call.seconds
            return self.now_s
        end_s = max(self.now_s, after_s, self._free_s[call.unit]) + call.seconds
        self._free_s[call.unit] = end_s
        return end_s
