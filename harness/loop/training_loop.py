"""The training loop: which unit makes which call, in which order, and when the inputs of each call are ready.

Training, its profile and its prediction run the same loop, under different clocks (`harness.loop.clock`).

A round inserts some vector steps (steps of all environments together) and takes some gradient steps. In the strict
order the actors act on the newest weights, and the gradient steps follow. In the overlapped order (PRL 3.2) the
actors act during the gradient steps, on the weights from before them; transitions are inserted and weights handed
over between two rounds. In the relaxed order (MAP V-A) D batches are also sampled ahead, so that the replay manager
works while the learner does. A gradient step consists of sampling, gathering, the learner's step and the update of
the priorities (MAP II-A2, PAL Algorithm 1).
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from placerl.harness.loop.clock import ACTORS, HOST, LEARNER, RMM, STORAGE, Clock, Output

TD_ERROR = "td_error"
"""Column of the actors' transitions that gives their initial priorities (MAP II-A1), if the actors compute it."""


class Acting(Protocol):
    """The interface of actors in the training loop; `harness.runtime.actors.in_process.Actors` implements it."""

    def collect(self, steps: int, explore: bool = True) -> Any:
        """Take vector steps, each of which steps every environment once, and return their transitions.

        Args:
            explore: whether the policy chooses the actions; otherwise they are random.
        """

    def submit(self, steps: int) -> None:
        """Request vector steps, each of which steps every environment once; `result` returns their transitions."""

    def result(self) -> Any:
        """Return the transitions of the vector steps that `submit` requested last."""

    def publish(self) -> None:
        """Make the next requests use the learner's current weights."""


@dataclass
class Units:
    """The parts of a training that the loop calls.

    Attributes:
        acting: the actors.
        storage: holds the transitions. The loop uses its `capacity` in rows, `gather_s` and `write_s`, the seconds
            spent so far on gathering and writing, and `release`, for batches that were trained on.
        replay: has `insert`, `sample` and `update_priorities` of `primitives.replay.base.Replay`.
        learner: has `step` of `primitives.learner.Learner`.
        rng: source of the random numbers of sampling.
        steps: inserts, and runs whole gradient steps in one call (`primitives.learner.fused.FusedSteps`, or
            `primitives.learner.relaxed.RelaxedSteps`, which samples D batches ahead itself); None if sampling,
            learning and updating are separate calls.
        rounds: runs whole rounds in one call (`primitives.training.rounds.FusedRounds`), and is `steps` too; None if
            the actors are called. The loop then uses their `publish` and `collect` no more.
        returns: turns the actors' single steps into n-step transitions (`primitives.replay.NStepReturns`); None: they
            are inserted as they are.
    """

    acting: Acting
    storage: Any
    replay: Any
    learner: Any
    rng: Any = None
    steps: Any = None
    rounds: Any = None
    returns: Any = None


class Shape(NamedTuple):
    """The number and order of the steps of a round.

    Attributes:
        vector_steps: vector steps, each of which steps all environments once.
        gradient_steps: gradient steps in the round.
        batch_size: transitions per gradient step.
        overlapped: whether the actors act during the gradient steps.
        ahead: D, batches sampled ahead (MAP V-A); with 0, sampling waits for the last priority update.
        deferred: whether, in the overlapped order, a round's transitions wait in a buffer, and are inserted in the
            next round while its first gradient step runs (PRL 3.2.1); otherwise at the end of their own round.
        one_buffer: whether the actors' weights have one buffer, so that new weights are handed over only after the
            actors have stopped; with two (PRL 3.3.2) they arrive while the actors act.
    """

    vector_steps: int = 1
    gradient_steps: int = 1
    batch_size: int = 1
    overlapped: bool = False
    ahead: int = 0
    deferred: bool = False
    one_buffer: bool = False


class Traffic(NamedTuple):
    """The data that passes between units, and the storage's own time.

    Attributes:
        row_bytes: bytes of one inserted transition, from the host to the replay management.
        items_bytes: bytes of a batch's transitions, from the storage to the learner.
        weights_bytes: bytes of the acting parameters, from the learner to the actors.
        storage_apart: whether the storage is a unit separate from the replay management (MAP Table II). Gathering
            and writing are then charged to the storage.
        gather_s: seconds that a separate storage on a simulated device takes to gather a batch; 0: the storage is on
            the host, and its measured seconds count.
        stored_bytes: bytes of one inserted transition, from the host to a storage on a device without the replay
            management.
    """

    row_bytes: int = 0
    items_bytes: int = 0
    weights_bytes: int = 0
    storage_apart: bool = False
    gather_s: float = 0.0
    stored_bytes: int = 0


class Presampled(NamedTuple):
    """A batch that waits for its gradient step.

    Attributes:
        sample: the sampled batch.
        items_inserted: number of items inserted before it was sampled.
        ready_s: when its rows are gathered, seconds of the clock.
    """

    sample: Output[Any]
    items_inserted: int
    ready_s: float


def not_overwritten(
    indices: npt.NDArray[np.int64], capacity: int, inserted: int, inserted_then: int
) -> npt.NDArray[np.bool_]:
    """Return which rows of a first-in first-out storage still hold the item that they held at an earlier time.

    Args:
        indices: (B,) rows that held an item at that time.
        inserted_then: items inserted until that time.

    Returns:
        (B,) bool.
    """
    # The row that was written last has age 0.
    age = (inserted - 1 - indices) % capacity
    return age >= inserted - inserted_then


def _copied(transitions: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    return {name: np.array(column) for name, column in transitions.items()}


class TrainingLoop:
    """Runs rounds of training: vector steps (of all environments together) and the gradient steps that belong to them.

    With D = `shape.ahead` > 0 sampling does not wait for the last priority updates (MAP V-A): D batches are sampled
    ahead. If a row was overwritten after its batch was sampled, it keeps the priority of its new item (the purpose
    of PRL 3.2.1's collision-free insertion).

    Args:
        clock: makes or predicts each call, and measures the time.
        units: the parts that are called.
        shape: the steps of a round.
        traffic: the data that passes between the units.

    Raises:
        ValueError: transitions should be inserted during gradient steps that are one call with the replay.

    Attributes:
        units: the parts that are called.
        inserted: items inserted so far, or a number that gives the same row of the next item.
        presampled: batches that wait for their gradient step, oldest first.
        outcome: the learner's last result; None before the first, and if whole gradient steps are one call.
    """

    def __init__(self, clock: Clock, units: Units, shape: Shape, traffic: Traffic) -> None:
        if shape.deferred and units.steps is not None:
            raise ValueError("deferred: found True; allowed: False, where whole gradient steps are one call")
        self._clock, self.units = clock, units
        # Each round reads these: a look-up in two steps would take 5% of what a round takes by itself.
        self._shape = shape
        self._vector_steps, self._gradient_steps, self._batch_size = shape[:3]
        self._overlapped, self._ahead = shape.overlapped, shape.ahead
        (
            self._row_bytes,
            self._items_bytes,
            self._weights_bytes,
            self._storage_apart,
            self._gather_s,
            self._stored_bytes,
        ) = traffic
        self.presampled: deque[Presampled] = deque()
        self.outcome: Any = None
        self._spare: list[Any] = []
        self.inserted = 0
        self._collected: dict[str, Any] = {}  # transitions that wait to be inserted
        self._inserting: Output[Any] | None = None
        self._learnt_s = 0.0  # when the learner's weights are ready

    def run(self, rounds: int) -> None:
        """Run rounds, in one call if `Units.rounds` runs them."""
        if self.units.rounds is not None:
            self._clock.run("round", self._fused_rounds, rounds)
            return
        for _ in range(rounds):
            self.round()

    def _fused_rounds(self, rounds: int) -> None:
        self.units.rounds.run_rounds(rounds, self.units.rng)

    def round(self) -> None:
        """Run one round: its vector steps, their insertion, and its gradient steps, in the order that `Shape` gives."""
        if self._overlapped:
            acting = self.units.acting
            acted = self._clock.begin(ACTORS, "act", lambda: acting.submit(self._vector_steps), acting.result)
            self.learn(self._gradient_steps)
            if not self._shape.one_buffer:
                self._publish()
            self._clock.wait(acted.ready_s)
            transitions = acted.value
            if self._shape.one_buffer:
                self._publish()
            if self._shape.deferred:
                self._collected = _copied(transitions)  # the actors overwrite theirs in the next round
            else:
                self._insert(transitions)
        else:
            clock, acting = self._clock, self.units.acting
            clock.deliver(LEARNER, "publish", acting.publish, self._weights_bytes, self._learnt_s)
            self._insert(clock.act(acting.collect, self._vector_steps))
            self.learn(self._gradient_steps)

    def fill(self, vector_steps: int) -> None:
        """Take vector steps with random actions before learning starts, and insert their transitions."""
        if self.units.rounds is not None:
            self.units.rounds.fill(vector_steps)
            return
        transitions = self.units.acting.collect(vector_steps, False)
        # An insertion that nothing waits for may still go on when the actors overwrite theirs.
        self._insert(_copied(transitions) if self._shape.deferred else transitions)

    def learn(self, gradient_steps: int) -> None:
        """Take `gradient_steps` without stepping the environments."""
        if self.units.steps is not None:
            self._clock.run("step", self._fused, gradient_steps)
            return
        for _ in range(gradient_steps):
            self.gradient_step()

    def _fused(self, gradient_steps: int) -> None:
        self.units.steps.run(gradient_steps, self.units.rng)

    def gradient_step(self) -> None:
        """Take one gradient step on the batch that has waited longest.

        Before it, batches are sampled until D others wait. After it, the batch's priorities are updated. Transitions
        that wait to be inserted are inserted after the sampling, so that this runs next to the gradient step.
        """
        while len(self.presampled) <= self._ahead:
            self.presampled.append(self._sampled())
        self._insert_collected()
        batch = self.presampled.popleft()
        sample, units, clock = batch.sample.value, self.units, self._clock
        learnt = clock.call(
            LEARNER,
            "learner",
            lambda: units.learner.step(sample.batch, sample.weights),
            batch.ready_s,
            {STORAGE: self._items_bytes, RMM: sample.weights.nbytes},
        )
        self._learnt_s = learnt.ready_s
        self.outcome = outcome = learnt.value
        units.storage.release(sample.batch)
        indices, td_errors = sample.indices, outcome.td_errors
        if batch.items_inserted != self.inserted:
            capacity = units.storage.capacity
            intact = not_overwritten(indices, capacity, self.inserted, batch.items_inserted)
            indices, td_errors = indices[intact], td_errors[intact]
        clock.call(
            RMM,
            "update",
            lambda: units.replay.update_priorities(indices, td_errors),
            learnt.ready_s,
            {LEARNER: td_errors.nbytes},  # the replay management knows the rows, or their paths (MAP IV-D4)
        )
        self._spare.append(sample)

    @property
    def losses(self) -> dict[str, float]:
        """Return the losses of the last gradient step, by name; empty before the first."""
        stated = self.units.steps or self.outcome
        return dict(stated.losses) if stated else {}

    def _publish(self) -> None:
        self._clock.deliver(
            LEARNER, "publish", self.units.acting.publish, self._weights_bytes, self._learnt_s
        )

    def _insert_collected(self) -> None:
        """Begin to insert the last round's transitions, if they have waited for this round's first batch."""
        if not self._collected:
            return
        if self._inserting is not None:
            _ = self._inserting.value  # raises what the last insertion raised
        self._insert(self._collected)
        self._collected = {}

    def _insert(self, transitions: Mapping[str, Any]) -> None:
        units = self.units
        if units.returns is not None:
            complete = units.returns.add_steps(transitions)
            if complete is None:
                return
            # Those that waited may be more than fit: the oldest would be overwritten at once.
            transitions = {name: column[-units.storage.capacity :] for name, column in complete.items()}
        td_errors: tuple[Any, ...] = ()
        if TD_ERROR in transitions:
            td_errors = (transitions[TD_ERROR],)
            transitions = {name: column for name, column in transitions.items() if name != TD_ERROR}
        if units.steps is not None:  # on the host, and so short that passing inputs to a call would show
            insert = units.steps.insert
            self._clock.run(
                "insert", partial(insert, td_errors=td_errors[0]) if td_errors else insert, transitions
            )
            self.inserted += len(transitions["reward"])
            return
        rows, written_s = len(transitions["reward"]), units.storage.write_s
        insertion = self._clock.call(
            RMM,
            "insert",
            lambda: units.replay.insert(transitions, *td_errors),
            input_bytes={HOST: rows * self._row_bytes},
        )
        if self._shape.deferred:
            self._inserting = insertion  # the transitions are a copy, so nothing waits for them
        else:
            _ = insertion.value  # the actors overwrite their transitions, so wait until they are inserted
        if self._storage_apart and not self._gather_s:
            self._written(units.storage.write_s - written_s)
        elif self._stored_bytes:
            self._written(0.0, {HOST: rows * self._stored_bytes})
        self.inserted += rows

    def _written(self, write_s: float, *sent: Mapping[str, int]) -> None:
        """Charge writing the transitions by the host, or sending them to a device without the replay management.

        The host waits for it, unless the transitions are a copy (`Shape.deferred`).
        """
        clock = self._clock
        written_s = clock.charge(STORAGE, "write", write_s, clock.now_s(), *sent)
        if not self._shape.deferred:
            clock.wait(written_s)

    def _sampled(self) -> Presampled:
        units = self.units
        gathered_s = units.storage.gather_s
        # Reuse the arrays of a batch that has been trained on, if there is one.
        out = self._spare.pop() if self._spare else None
        sample = self._clock.call(
            RMM, "sample", lambda: units.replay.sample(self._batch_size, units.rng, out=out)
        )
        ready_s = sample.ready_s
        if self._storage_apart:
            gather_s = self._gather_s or units.storage.gather_s - gathered_s
            sent = {RMM: sample.value.indices.nbytes}
            ready_s = self._clock.charge(STORAGE, "gather", gather_s, ready_s, sent)
        return Presampled(sample, self.inserted, ready_s)
