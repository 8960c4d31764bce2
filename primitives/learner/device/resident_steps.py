"""Resident gradient steps: many steps of a replay and a learner in a device's memory, which the host only starts.

    steps = ResidentSteps(replay, learner)
    steps.insert(transitions)
    steps.run(1000)  # returns while the device works
    steps.losses  # waits for it

A step draws, gathers, trains and updates the priorities, in this order, as separate calls do. Of a replay that draws D
batches ahead (MAP V-A), a step trains on the batch that has waited longest, while the replay's stream updates the
priorities of the step before and draws the next batch. Several steps are one recorded graph. Random numbers are
functions of a counter, so that a training is the same on every device but for the rounding of its arithmetic.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from math import ceil

import numpy as np
import numpy.typing as npt

from placerl.primitives import checks
from placerl.primitives.device import Graph, Part
from placerl.primitives.learner import Learner, finite
from placerl.primitives.learner.columns import BOOL, TERMINATED, WEIGHT, refuse_columns
from placerl.primitives.learner.device.started_steps import StartedSteps
from placerl.primitives.one_caller import one_at_a_time
from placerl.primitives.replay.base import EMPTY
from placerl.primitives.replay.device.packed_rows import Place
from placerl.primitives.replay.device.resident import ResidentBatch, ResidentReplay

STEPS_A_GRAPH = 8
"""Gradient steps of a graph: enough that a host starts graphs faster than a device ends them."""
Graphs = dict[tuple[tuple[str, ...], int, bool], Graph]
"""Graphs of gradient steps, by their variants, the batch of the first, and whether it is the first of all."""


class ResidentSteps(StartedSteps):
    """Takes gradient steps of a learner on a `ResidentReplay`, which its device does without the host.

    The learner can still be used directly: they share the state, the stream and the count of steps. One thread at a
    time may take steps, and meanwhile no other thread may use the learner or the replay.

    Args:
        replay: a replay whose stream is that of the learner's executable; if it draws batches ahead, one of its own.
        learner: a learner with kernels on a device (`check`).
        steps_a_graph: most gradient steps that one graph has; with D batches ahead, up to D more.

    Attributes:
        graphs_started: number of graphs that were started so far.

    Raises:
        TypeError: the learner's steps cannot stay on its device.
        ValueError: the replay has another stream or batch size, lacks a column that the learner reads, holds it with
            another shape or dtype, or holds a column that the learner does not read.
    """

    def __init__(
        self, replay: ResidentReplay, learner: Learner, *, steps_a_graph: int = STEPS_A_GRAPH
    ) -> None:
        checks.whole("steps_a_graph", steps_a_graph, 1)
        super().__init__(learner)
        executable, self._replay = self._executable, replay
        # Graphs begin with the same of the D + 1 batches, and so are equal, if they have a multiple of so many steps.
        self._steps_a_graph = ceil(steps_a_graph / (replay.ahead + 1)) * (replay.ahead + 1)
        if (replay.stream is executable.stream) == (replay.ahead > 0):
            found, allowed = "a stream of its own", "the learner's, executable.stream"
            if replay.ahead:
                found, allowed = "the learner's stream", "one of its own, as it draws batches ahead"
            raise ValueError(f"replay: found {found}; allowed: {allowed}")
        if replay.batch_size != learner.batch_size:
            allowed = f"the learner's, {learner.batch_size}"
            raise ValueError(f"replay: found batch_size {replay.batch_size}; allowed: {allowed}")
        self._check_columns()
        self._beside = (replay.stream,) if replay.ahead else ()
        variants, numbers = learner.algorithm.variants, range(replay.ahead + 1)
        if replay.ahead:
            executable.add_batches(variants, len(numbers))
            waiting = [self._batch_of(variants, 1 + number) for number in numbers]
        self._batches = {
            (variant, number): waiting[number] if replay.ahead else self._batch_of([variant], 0)
            for variant in variants
            for number in numbers
        }
        # The next step overwrites its own, while these still give priorities.
        self._td_errors = [self._stream.zeros(4 * learner.batch_size) for _ in numbers if replay.ahead]
        self._taken = self.graphs_started = 0
        self._graphs: Graphs = {}

    def _check_columns(self) -> None:
        fields, columns = self._replay.storage.fields, self._learner._columns
        refuse_columns(fields, columns)
        for name, (shape, dtype) in columns.items():
            if name == WEIGHT:
                continue
            if name not in fields:
                raise ValueError(f"replay: found columns {sorted(fields)}; allowed: those with {name!r}")
            own, found = fields[name], np.dtype(fields[name].dtype)
            if own.shape != shape[1:] or found != (BOOL if name == TERMINATED else dtype):
                allowed = f"{shape[1:]} {BOOL if name == TERMINATED else dtype}"
                raise ValueError(f"replay: found column {name!r} of {own.shape} {found}; allowed: {allowed}")

    def _batch_of(self, variants: Collection[str], number: int) -> ResidentBatch:
        """Return where variants read a batch of the executable; weights that none reads have a buffer of their own."""
        executable, columns = self._executable, self._learner._columns
        parts = {name: part for one in variants for name, part in executable.inputs(one, number).items()}
        places = {
            name: Place(parts[f"batch/{name}"].offset_bytes, dtype)
            for name, (_, dtype) in columns.items()
            if f"batch/{name}" in parts and name != WEIGHT
        }
        self._replay.storage.table(places)  # which is uploaded
        weights = parts.get(f"batch/{WEIGHT}")
        if weights is None:
            size_bytes = 4 * self._learner.batch_size
            weights = Part(self._stream.zeros(size_bytes), 0, size_bytes)
        return ResidentBatch(executable.arena, places, weights)

    @one_at_a_time
    def run(self, steps: int) -> None:
        """Start gradient steps: each draws a batch, trains on it and updates its priorities.

        Args:
            steps: number of steps, at least 1.

        Raises:
            ValueError: there is nothing to sample.
            RuntimeError: another process created this object, or a call of another thread is in progress.
        """
        checks.whole("steps", steps, 1)
        if not self._has_items():
            raise ValueError(EMPTY)
        learner = self._learner
        while steps > 0:
            first, count = learner.gradient_steps, self._at_once(steps, self._steps_a_graph)
            variants = tuple(learner.algorithm.variant(step) for step in range(first, first + count))
            self._start(self._graphs, variants, partial(self.launch, variants))
            steps -= count

    def _at_once(self, left: int, most: int) -> int:
        """Return how many of the steps or rounds that are left the next graph takes, at most `most`.

        With D batches ahead, graphs of each length that begin with each of the D + 1 batches would be too many to
        record: long ones begin with the first.
        """
        if not self._replay.ahead:
            return min(left, most)
        return most if left >= most and self._taken % (self._replay.ahead + 1) == 0 else 1

    def _start(self, graphs: "Graphs", variants: tuple[str, ...], launch: Callable[[], None]) -> None:
        """Start a graph that takes gradient steps of these variants; `launch` records one of its kind."""
        ahead, taken = self._replay.ahead, self._taken
        key = variants, taken % (ahead + 1), ahead > 0 and not taken
        if key not in graphs:
            with self._stream.recorded(*self._beside) as graphs[key]:
                launch()
            self._taken = taken
        self._count_from(self._learner.gradient_steps)
        graphs[key].replay()
        self.graphs_started += 1
        self._counted += len(variants)
        self._taken += len(variants)
        self._learner.gradient_steps += len(variants)

    def _has_items(self) -> bool:
        """Return whether there is something to sample when what was started is done."""
        return self._replay.storage.size > 0

    def launch(self, variants: tuple[str, ...]) -> None:
        """Start one gradient step of each of these variants, or record them. The learner does not count them."""
        replay, stream, kernels = self._replay, self._stream, self._kernels
        arena, ahead = self._executable.arena, self._replay.ahead
        for variant in variants:
            number, drawn = self._taken % (ahead + 1), (self._taken + ahead) % (ahead + 1)
            if not self._taken:
                for first in range(ahead):
                    replay.launch_sample(self._batches[variant, first], first)
                if ahead:
                    stream.wait_for(replay.stream)
            self._taken += 1
            inputs = self._executable.inputs(variant)
            draws = [part for name, part in inputs.items() if name.startswith("draws/")]
            for which, part in enumerate(draws, 1):  # the batch is drawn from 0
                count = part.size_bytes // 4
                written = arena, np.int64(part.offset_bytes), np.int64(0), np.int64(count)  # 0: normal
                random = self._counter, *replay.key, np.uint32(which)
                stream.launch(kernels["draw_numbers"], count, *random, *written)
            replay.launch_sample(self._batches[variant, drawn], drawn)
            self._launch_step(variant, 1 + number if ahead else 0)
            td_errors = self._executable.outputs(variant)["td_error"]
            if ahead:
                own = Part(self._td_errors[number], 0, td_errors.size_bytes)
                stream.copy(own.buffer, arena, own.size_bytes, 0, td_errors.offset_bytes)
                replay.stream.wait_for(stream)
                stream.wait_for(replay.stream)  # for the drawn batch, but not for this update
                td_errors = own
            replay.launch_update(td_errors, number)

    @one_at_a_time
    def insert(
        self, batch: Mapping[str, npt.ArrayLike], td_errors: npt.ArrayLike | None = None
    ) -> npt.NDArray[np.int64]:
        """Insert items from the host after the steps that were started, as `ResidentReplay.insert` does.

        Raises:
            ValueError: also for a number that is not finite, or an action out of range: nothing is inserted.
        """
        self._finish()
        storage, actions = self._replay.storage, self._learner.algorithm.action_size
        for name, array in storage.checked(batch).items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ValueError(f"{name}: found NaN or infinity; allowed: finite numbers")
            if array.dtype == np.int64 and not 0 <= array.min() <= array.max() < actions:
                allowed = f"integers in [0, {actions})"
                raise ValueError(
                    f"{name}: found values in [{array.min()}, {array.max()}]; allowed: {allowed}"
                )
        return self._replay.insert(batch, td_errors)

    def _wait(self, since: str) -> None:
        for one in self._beside:
            one.wait_for(self._stream)
        try:
            self._replay.finish()
        except ValueError:
            raise finite.not_finite(since, "td_errors") from None
