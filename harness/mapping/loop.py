"""The training loop: which unit makes which call, in which order, and when the inputs of each call are ready.

The training and its prediction run the same loop, and its clock decides what a call means:

| clock | a call | for |
|---|---|---|
| `harness.runtime.clock.RealTime` | is made, and timed | training |
| `harness.runtime.clock.VirtualTime` | is made, and takes the seconds that its simulated device states | training |
| `harness.mapping.schedule.GivenTime` | takes given seconds | predicting |

A round inserts some vector steps and takes some gradient steps. In the strict order the actors act on the newest
weights, and the gradient steps follow. In the overlapped order (PRL 3.2) the actors act while the gradient steps are
taken, on the weights from before them; insertion and hand-over of the weights stand between two rounds. A gradient
step is (MAP II-A2, PAL Algorithm 1) sampling, gathering, the learner's step and the update of the priorities.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Value = TypeVar("Value")
NO_INPUTS: Mapping[str, int] = {}
HOST, ACTORS, LEARNER, RMM, STORAGE = "host", "actors", "learner", "rmm", "storage"


class Made(Generic[Value]):
    """What a call returned, and when it is there, in seconds of the clock."""

    __slots__ = ("_value", "ready_s")

    def __init__(self, value: Value, ready_s: float) -> None:
        self._value, self.ready_s = value, ready_s

    @property
    def value(self) -> Value:
        """What it returned."""
        return self._value


class Clock(Protocol):
    """What the loop asks of a clock: to have work done, and to wait."""

    def now_s(self) -> float:
        """Seconds since an arbitrary start."""

    def run(self, term: str, work: Callable[[Any], Value], argument: Any) -> Value:
        """Do some work on the host, whose inputs are there; return what it returns.

        Args:
            term: that its seconds are counted in.
            work: what to do, with `argument`.
        """

    def act(self, work: Callable[[int], Value], vector_steps: int) -> Value:
        """Have the actors take their turn on the host; they count their own seconds.

        Args:
            work: what to do, with `vector_steps`.
            vector_steps: to take.
        """

    def call(
        self,
        unit: str,
        term: str,
        work: Callable[[], Value],
        after_s: float = 0.0,
        input_bytes: Mapping[str, int] = NO_INPUTS,
    ) -> Made[Value]:
        """Have a unit do some work.

        Args:
            unit: that does it; one that the clock does not know works on the host.
            term: that its seconds are counted in.
            work: what to do.
            after_s: when its inputs are ready.
            input_bytes: of its inputs, by the unit that sends them.
        """

    def begin(
        self, unit: str, term: str, ask: Callable[[], object], answer: Callable[[], Value]
    ) -> Made[Value]:
        """Have a unit begin some work that goes on while the host does something else.

        Args:
            unit: that does it, next to the host.
            term: that its seconds are counted in.
            ask: starts the work.
            answer: waits for what it returns; called when that is asked for, or sooner.
        """

    def charge(
        self,
        server: str,
        term: str,
        seconds: float,
        after_s: float,
        input_bytes: Mapping[str, int] = NO_INPUTS,
    ) -> float:
        """Count work that was done inside a call but belongs to another unit; return when it is ready.

        Args:
            server: that the work belongs to.
            term: that its seconds are counted in.
            seconds: that it took.
            after_s: when its inputs are ready.
            input_bytes: of its inputs, by the unit that sends them.
        """

    def deliver(
        self, unit: str, term: str, work: Callable[[], object], output_bytes: int, after_s: float
    ) -> None:
        """Have what a unit has made brought to the host, and wait until it is there.

        Args:
            unit: that has made it.
            term: that the link's seconds are counted in.
            work: what the host does to hand it over.
            output_bytes: of it.
            after_s: when it was made.
        """

    def wait(self, ready_s: float) -> None:
        """Let the host go on no sooner than when something is ready."""


class Acting(Protocol):
    """The actors, as `harness.runtime.actors.in_process.Actors` describes them."""

    def collect(self, steps: int, explore: bool = True) -> Any:
        """Take vector steps; return their transitions."""

    def submit(self, steps: int) -> None:
        """Ask for vector steps."""

    def result(self) -> Any:
        """Return the transitions of the last request."""

    def publish(self) -> None:
        """Have the next requests act on the learner's present weights."""


@dataclass
class Units:
    """What the loop calls. Each part is called by its methods' names at every call.

    Attributes:
        acting: the actors.
        storage: the data; states its `capacity`, rows, and the seconds of its `gather_s` and `write_s` so far.
        replay: `insert`, `sample` and `update_priorities`, as `primitives.replay.base.Replay` has them.
        learner: `step`, as `primitives.learner.Learner` has it.
        rng: source of the random numbers of sampling.
        steps: whole gradient steps in one call (`primitives.learner.fused.FusedSteps`), or None.
    """

    acting: Acting
    storage: Any
    replay: Any
    learner: Any
    rng: Any = None
    steps: Any = None


class Shape(NamedTuple):
    """What a round is.

    Attributes:
        vector_steps: of all actors together, each.
        gradient_steps: that belong to them.
        batch_size: transitions in a gradient step.
        overlapped: whether the actors act while the gradient steps are taken.
        ahead: D, batches sampled ahead (MAP V-A); 0: sampling waits for the last priority update.
    """

    vector_steps: int = 1
    gradient_steps: int = 1
    batch_size: int = 1
    overlapped: bool = False
    ahead: int = 0


class Traffic(NamedTuple):
    """What passes between units, and what the storage does by itself.

    Attributes:
        row_bytes: of a transition's insertion, from the host to the replay management.
        items_bytes: of a batch's transitions, from the storage to the learner.
        weights_bytes: of the acting parameters, from the learner to the actors.
        storage_apart: whether the storage is a unit of its own next to the replay management, whose seconds do not
            include it (MAP Table II).
        gather_s: seconds that such a storage takes to gather a batch, where it is not on the host; 0: what gathering
            takes on the host.
    """

    row_bytes: int = 0
    items_bytes: int = 0
    weights_bytes: int = 0
    storage_apart: bool = False
    gather_s: float = 0.0


class Presampled(NamedTuple):
    """A batch that waits for its gradient step, how many items the replay had taken before it, and when it is there."""

    made: Made[Any]
    items_inserted: int
    ready_s: float


def not_overwritten(
    indices: npt.NDArray[np.int64], capacity: int, inserted: int, inserted_then: int
) -> npt.NDArray[np.bool_]:
    """Which rows of a first-in first-out storage still hold the item that they held some insertions ago.

    Args:
        indices: (B,) rows that held an item then.
        capacity: rows of the storage.
        inserted: items inserted so far.
        inserted_then: items inserted until then.

    Returns:
        (B,) bool.
    """
    # The row that was written last has age 0.
    age = (inserted - 1 - indices) % capacity
    return age >= inserted - inserted_then


class TrainingLoop:
    """Rounds of training under a clock.

    With D = `shape.ahead` > 0 the dependency of sampling on the last priority updates is relaxed (MAP V-A): D batches
    are sampled ahead. A row that was overwritten since its batch was sampled keeps the priority of its new item (what
    PRL 3.2.1's collision-free insertion is for).

    Args:
        clock: decides what a call means.
        units: what is called.
        shape: what a round is.
        traffic: what passes between the units.

    Attributes:
        units: as given.
        presampled: the batches that wait for their gradient step, oldest first.
        outcome: what the learner returned last; None before, and where whole gradient steps are one call.
    """

    def __init__(self, clock: Clock, units: Units, shape: Shape, traffic: Traffic) -> None:
        self._clock, self.units = clock, units
        self._vector_steps, self._gradient_steps, self._batch_size, self._overlapped, self._ahead = shape
        self._row_bytes, self._items_bytes, self._weights_bytes, self._storage_apart, self._gather_s = traffic
        self.presampled: deque[Presampled] = deque()
        self.outcome: Any = None
        self._spare: list[Any] = []
        self._inserted = 0
        self._learnt_s = 0.0  # when the learner's weights are there

    def round(self) -> None:
        """Take one round."""
        if self._overlapped:
            acting = self.units.acting
            acted = self._clock.begin(ACTORS, "act", lambda: acting.submit(self._vector_steps), acting.result)
            self.learn(self._gradient_steps)
            self._publish()
            self._clock.wait(acted.ready_s)
            self._insert(acted.value)
        else:
            self._publish()
            self.collect(self._vector_steps)
            self.learn(self._gradient_steps)

    def collect(self, vector_steps: int) -> None:
        """Take vector steps and insert their transitions."""
        self._insert(self._clock.act(self.units.acting.collect, vector_steps))

    def fill(self, vector_steps: int) -> None:
        """Take vector steps at random, before learning starts, and insert their transitions."""
        self._insert(self.units.acting.collect(vector_steps, False))

    def learn(self, gradient_steps: int) -> None:
        """Take gradient steps alone."""
        if (steps := self.units.steps) is not None:
            rng = self.units.rng
            self._clock.run("step", lambda number: steps.run(number, rng), gradient_steps)
            return
        for _ in range(gradient_steps):
            self.gradient_step()

    def gradient_step(self) -> None:
        """Take one gradient step on the batch that has waited longest."""
        while len(self.presampled) <= self._ahead:
            self.presampled.append(self._sampled())
        batch = self.presampled.popleft()
        sample, units, clock = batch.made.value, self.units, self._clock
        learnt = clock.call(
            LEARNER,
            "learner",
            lambda: units.learner.step(sample.batch, sample.weights),
            batch.ready_s,
            {STORAGE: self._items_bytes, RMM: sample.weights.nbytes},
        )
        self._learnt_s = learnt.ready_s
        self.outcome = outcome = learnt.value
        indices, td_errors = sample.indices, outcome.td_errors
        if self._ahead:
            capacity = units.storage.capacity
            kept = not_overwritten(indices, capacity, self._inserted, batch.items_inserted)
            indices, td_errors = indices[kept], td_errors[kept]
        clock.call(
            RMM,
            "update",
            lambda: units.replay.update_priorities(indices, td_errors),
            learnt.ready_s,
            {LEARNER: indices.nbytes + td_errors.nbytes},
        )
        self._spare.append(sample)

    @property
    def losses(self) -> dict[str, float]:
        """Of the last gradient step, by name; empty before."""
        stated = self.units.steps or self.outcome
        return dict(stated.losses) if stated else {}

    def _publish(self) -> None:
        self._clock.deliver(
            LEARNER, "publish", self.units.acting.publish, self._weights_bytes, self._learnt_s
        )

    def _insert(self, transitions: Mapping[str, Sized]) -> None:
        units, rows = self.units, len(transitions["reward"])
        if units.steps is not None:  # on the host, and so short that a call with its inputs would show
            self._clock.run("insert", units.replay.insert, transitions)
        else:
            written_s = units.storage.write_s
            made = self._clock.call(
                RMM,
                "insert",
                lambda: units.replay.insert(transitions),
                input_bytes={HOST: rows * self._row_bytes},
            )
            _ = made.value  # the actors overwrite their transitions: go on when they are inserted
            if self._storage_apart and not self._gather_s:
                self._written(units.storage.write_s - written_s)
        self._inserted += rows

    def _written(self, write_s: float) -> None:
        """Wait until the host has written the transitions, next to a replay management elsewhere."""
        clock = self._clock
        clock.wait(clock.charge(STORAGE, "write", write_s, clock.now_s()))

    def _sampled(self) -> Presampled:
        units = self.units
        gathered_s = units.storage.gather_s
        # Into the arrays of a batch that has been trained on, where there is one.
        out = self._spare.pop() if self._spare else None
        made = self._clock.call(
            RMM, "sample", lambda: units.replay.sample(self._batch_size, units.rng, out=out)
        )
        ready_s = made.ready_s
        if self._storage_apart:
            gather_s = self._gather_s or units.storage.gather_s - gathered_s
            sent = {RMM: made.value.indices.nbytes}
            ready_s = self._clock.charge(STORAGE, "gather", gather_s, ready_s, sent)
        return Presampled(made, self._inserted, ready_s)
