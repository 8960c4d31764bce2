"""Relaxed gradient steps: a replay manager samples batches ahead of the learner, in a thread of its own (MAP V-A).

Each step trains on a batch that was sampled D steps before, so sampling does not wait for the priorities of the
last steps. The manager's thread never needs Python's interpreter, and the learner releases the interpreter lock, so
that on two cores manager and learner work at the same time. The manager performs its calls in the order in which
the loop makes them: before gradient step k it samples the batch of step k + D, and after step k it updates that
batch's priorities. The training is therefore the same bit by bit with and without the thread, and with D = 0 it is
that of `primitives.learner.fused.FusedSteps`.

`RelaxedSteps` are those of a native learner, and `ManagedSteps` of every other one.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from placerl.primitives import checks
from placerl.primitives.learner import Learner
from placerl.primitives.learner.base import StepOutcome
from placerl.primitives.learner.fused import FusedSteps
from placerl.primitives.one_caller import OneCaller, one_at_a_time
from placerl.primitives.replay import ConcurrentReplay


class Managed(OneCaller, ABC):
    """Gradient steps with a replay manager in C++, which samples, updates priorities and inserts."""

    _replay: ConcurrentReplay
    _manager: Any

    @one_at_a_time
    def insert(self, batch: Mapping[str, npt.ArrayLike], td_errors: npt.ArrayLike | None = None) -> None:
        """Copy items, and let the replay manager insert them after the work that it already has.

        The call does not wait for the insertion; an error of the manager is raised by the next `run` or `drain`.

        Args:
            batch: for each column of the storage an array (n, *shape).
            td_errors: (n,) TD errors that give the priorities; if None, items get the maximum priority so far.

        Raises:
            TypeError, ValueError: a batch that does not fit the storage, or TD errors that do not fit the batch; the
                state is unchanged.
            RuntimeError: another process created this object: this is a forked copy. Or a call of another thread is
                in progress.
        """
        replay = self._replay
        columns = [np.ascontiguousarray(array) for array in replay.storage.checked(batch).values()]
        count = len(columns[0])
        errors = [] if td_errors is None else replay._checked(td_errors, count).tolist()
        self._manager.insert(columns, count, errors)

    @one_at_a_time
    def drain(self) -> None:
        """Wait until the replay manager has done all its work.

        Raises:
            ValueError: a TD error was not finite, or too large for a priority.
        """
        self._manager.drain()

    @one_at_a_time
    def bind(self, core: int) -> None:
        """Bind the replay manager's thread, if it has one, to a core.

        Raises:
            ValueError: a core that this process may not use.
        """
        self._manager.bind(core)

    @property
    @one_at_a_time
    def terms_s(self) -> dict[str, float]:
        """Return the seconds spent so far, by kind of work; complete after `drain`.

        The replay manager spends "sample" (with gathering), "update" (of priorities) and "insert"; the calling thread
        spends "learner" (gradient steps) and "wait" (for the manager).
        """
        names = ("sample", "update", "insert", "wait")
        return dict(zip(names, self._manager.seconds, strict=True)) | {"learner": self._learner_s()}

    @abstractmethod
    def _learner_s(self) -> float:
        """Return the seconds of gradient steps so far."""


class RelaxedSteps(Managed, FusedSteps):
    """Takes gradient steps of a native learner on batches that are sampled ahead of time by a replay manager.

    The manager samples, updates priorities and inserts, usually in a thread of its own.

    While sampled batches wait for the learner, nothing else may sample from, insert into, or load the replay: insert
    with this object's `insert`. If a row of the replay was overwritten after it was sampled, it keeps the priority of
    its new item.

    Args:
        learner: a learner of backend "native".
        ahead: D, how many batches of later steps are already sampled when a gradient step begins; at least 0.
        beside: whether the manager has a thread of its own; otherwise its work is done in the caller's thread.

    Raises:
        TypeError: the learner has another backend, or its algorithm is in float64.
        ValueError: the replay does not fit the learner's algorithm, or `ahead` is below 0.
    """

    def __init__(
        self, replay: ConcurrentReplay, learner: Learner, ahead: int, *, beside: bool = True
    ) -> None:
        checks.whole("ahead", ahead, 0)
        self.ahead, self._beside = ahead, beside
        super().__init__(replay, learner)
        self._manager = self._fused

    def _in_native(self, sources: list[tuple[int, int, str, int]], td_outputs: list[int]) -> Any:
        from placerl.primitives._native import relaxed

        return relaxed.Relaxed(
            self._replay._native,
            self._executable._executor,
            self._learner.batch_size,
            sources,
            td_outputs,
            self.ahead,
            self._beside,
        )

    def _samples(self, steps: int) -> int:
        return int(self._fused.samples_for(steps))

    def _learner_s(self) -> float:
        return float(self._fused.learn_s)


class ManagedSteps(Managed):
    """Takes gradient steps of any learner on batches that are sampled ahead of time by a replay manager.

    The manager is a thread of C++ that never waits for Python's interpreter, which the learner keeps busy.

    While sampled batches wait for the learner, nothing else may sample from, insert into, or load the replay: insert
    with this object's `insert`. If a row of the replay was overwritten after it was sampled, it keeps the priority of
    its new item.

    Args:
        learner: trains on (B, ...) batches of the replay's columns, in float32.
        batch_size: B, transitions per gradient step.
        ahead: D, how many batches of later steps are already sampled when a gradient step begins; at least 0.

    Raises:
        ValueError: `batch_size` is below 1, or `ahead` below 0.
    """

    def __init__(self, replay: ConcurrentReplay, learner: Learner, batch_size: int, ahead: int) -> None:
        from placerl.primitives._native import relaxed

        super().__init__()
        replay._check_process()
        checks.whole("batch_size", batch_size, 1)
        checks.whole("ahead", ahead, 0)
        self._replay, self._learner, self._spent_s = replay, learner, 0.0
        self._outcome: StepOutcome | None = None
        self._manager = relaxed.Managed(replay._native, batch_size, ahead)
        fields = replay.storage.fields
        self._places = [
            (
                {
                    name: column.view(field.dtype).reshape(batch_size, *field.shape)
                    for (name, field), column in zip(fields.items(), columns, strict=True)
                },
                weights,
                td_errors,
            )
            for columns, weights, td_errors in self._manager.places()
        ]

    @one_at_a_time
    def run(self, steps: int, rng: np.random.Generator) -> None:
        """Take gradient steps: each trains on the oldest batch, after the manager was asked for another one.

        Args:
            steps: number of steps, at least 1.

        Raises:
            TypeError: `rng` is not a Generator.
            ValueError: there is nothing to sample; the learner refuses a batch; or a TD error was not finite, or too
                large for a priority.
        """
        checks.whole("steps", steps, 1)
        manager, betas, step = self._manager, self._replay.betas, self._learner.step
        for _ in range(steps):
            batch, weights, td_errors = self._places[manager.take(rng, betas(manager.missing))]
            begun_s = perf_counter()
            self._outcome = step(batch, weights)
            td_errors[:] = self._outcome.td_errors
            self._spent_s += perf_counter() - begun_s
            manager.give_back()
        manager.wake()

    @property
    def losses(self) -> dict[str, float]:
        """The losses of the last step, by name; empty before the first step."""
        return dict(self._outcome.losses) if self._outcome else {}

    def _learner_s(self) -> float:
        return self._spent_s
